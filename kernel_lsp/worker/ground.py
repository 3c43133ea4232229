"""What the kernel's child needs of the device that the kernel runs on; `host` and `cuda` are the two there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from kernel_lsp.domain import Artifact, Function
from kernel_lsp.worker.exchange import StoredTensor


class Fault(Exception):
    """The device failed; the message says how. Nothing can be done with it in this process any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    us: float
    """Time per call."""
    result: Any
    elsewhere: bool = False
    """As in `exchange.Lapped`."""


class Loan(Protocol):
    """The tensors of one judged call, in memory where a step past their ends shows."""

    def take(self, stored: StoredTensor) -> torch.Tensor:
        """The described tensor; to be filled with its values by the time `call` is entered."""
        ...

    def call(self, poison: int, busy: bool) -> AbstractContextManager[None]:
        """The call happens inside; afterwards the files hold what the tensors and the padding around them hold.

        Raises:
            Fault
        """
        ...

    def end(self) -> None:
        """Give the memory back; nothing may use it any more."""
        ...


class Stopwatch(Protocol):
    def time(
        self, function: Callable[..., Any], arguments: Sequence[Any], *, cold_cache: bool, once: bool = False
    ) -> Measured:
        """One call, or with a short one (unless `once`) the mean of several that follow each other."""
        ...


class Ground(Protocol):
    @property
    def stopwatch(self) -> Stopwatch: ...

    def load(self, artifact: Artifact, entry: Function) -> None:
        """Get ready for calls of a kernel that has just been loaded."""
        ...

    def lend(self, folder: Path) -> Loan: ...

    def copy(self, stored: StoredTensor, folder: Path) -> torch.Tensor:
        """The described tensor in memory of the ordinary kind."""
        ...

    def settle(self) -> None:
        """Wait until all that was called is done.

        Raises:
            Fault
        """
        ...

    def fault(self, error: BaseException) -> str | None:
        """In words, where `error` is the device's failure and no refusal of the kernel."""
        ...
