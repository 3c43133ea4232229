"""The CPU as a kernel's ground: arguments between pages that may not be touched, malloc that poisons."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from pathlib import Path

import torch

from kernel_lsp.domain import Artifact, Function
from kernel_lsp.worker.exchange import StoredTensor
from kernel_lsp.worker.tensors import map_guarded, unmap
from kernel_lsp.worker.timing import HostStopwatch

_libc = ctypes.CDLL(None)
_M_PERTURB = -6


class Host:
    def __init__(self) -> None:
        self.stopwatch = HostStopwatch()

    def load(self, artifact: Artifact, entry: Function) -> None:
        pass

    def lend(self, folder: Path) -> HostLoan:
        return HostLoan(folder)

    def copy(self, stored: StoredTensor, folder: Path) -> torch.Tensor:
        source = map_guarded(stored, folder)
        # Clones keep the strides of a dense view only; a gap is copied with its tensor.
        copied = torch.empty_strided(source.shape, source.stride(), dtype=source.dtype).copy_(source)
        unmap(stored, source)
        return copied

    def settle(self) -> None:
        pass

    def fault(self, error: BaseException) -> str | None:
        return None


class HostLoan:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mapped: list[tuple[StoredTensor, torch.Tensor]] = []

    def take(self, stored: StoredTensor) -> torch.Tensor:
        tensor = map_guarded(stored, self._folder)
        self._mapped.append((stored, tensor))
        return tensor

    @contextlib.contextmanager
    def call(self, poison: int, busy: bool) -> Iterator[None]:
        _libc.mallopt(_M_PERTURB, poison)
        try:
            yield
        finally:
            _libc.mallopt(_M_PERTURB, 0)

    def end(self) -> None:
        for stored, tensor in self._mapped:
            # A result may still be a view of it in a cache of the kernel's own; touching it then faults, and rightly.
            unmap(stored, tensor)
        self._mapped = []
