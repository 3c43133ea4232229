"""A GPU as a kernel's ground. Runs in children only: a parent that has started CUDA has no children that can use it.

Arguments lie in device memory between margins of a known pattern, and are copied back to their files with the margins
after the call, so the judge reads there what the kernel wrote outside. They get their values on the very stream that
the kernel is called under, after a delay: a kernel on any other stream reads poison, and what it writes is overwritten.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from kernel_lsp.domain import Artifact, ArtifactKind, Function, Problem
from kernel_lsp.worker.call import takes_stream
from kernel_lsp.worker.cuda_timing import CudaStopwatch
from kernel_lsp.worker.exchange import StoredTensor
from kernel_lsp.worker.ground import Fault
from kernel_lsp.worker.tensors import DTYPES

MARGIN = 64 * 1024
"""Bytes before and behind each argument. A grid without a tail guard writes up to one block past the end, which is at
most 1024 threads of 16 bytes; a multiple of the 512 bytes that torch aligns memory to, for kernels that rely on it."""

DELAY_CYCLES = 6_000_000
"""Clock cycles that a busy stream has before it: some 3 ms, longer than any host needs to launch a kernel elsewhere."""

RESERVE = 64 * 2**20
"""Bytes of poisoned free memory that a call finds at least, beside twice what its arguments hold."""

_SMALL = 2**20
"""Bytes up to which torch's allocator serves from small segments of their own."""

_SMALL_BLOCKS = 8


def start() -> None:
    """Start CUDA in this child, in full precision: nobody is judged or timed in TF32 without having asked for it.

    Raises:
        Fault: where it cannot be started.
    """
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    try:
        torch.cuda.init()
        torch.zeros(1, device="cuda")
        torch.cuda.synchronize()
    except Exception as error:
        raise Fault(_first_line(error)) from None


def no_cuda(why: str) -> Problem:
    return Problem(
        code="no-gpu",
        message=f"CUDA cannot be started: {why}",
        hint="see whether `nvidia-smi` shows the GPU, and whether the worker's torch is built for its driver",
    )


def fault_of(error: BaseException) -> str | None:
    """In words, where `error` says that the device failed; running out of its memory is no such failure."""
    if isinstance(error, Fault):
        return str(error)
    if isinstance(error, torch.OutOfMemoryError):
        return None
    kind = getattr(torch, "AcceleratorError", None)
    text = _first_line(error)
    return text if (kind is not None and isinstance(error, kind)) or "CUDA error:" in text else None


class Cuda:
    def __init__(self) -> None:
        self.stopwatch = CudaStopwatch()
        self._errors = LastErrors()
        self._driver = ctypes.CDLL("libcuda.so.1")

    def load(self, artifact: Artifact, entry: Function) -> None:
        """From now on this child works on a stream of its own, unless the kernel cannot be told of one."""
        self._errors = LastErrors(artifact.path)
        launcher = artifact.kind is ArtifactKind.C_LIBRARY and not any(map(takes_stream, entry.parameters))
        # torch's streams do not wait for the legacy stream, nor it for them.
        torch.cuda.set_stream(torch.cuda.default_stream() if launcher else torch.cuda.Stream())

    def lend(self, folder: Path) -> CudaLoan:
        return CudaLoan(folder, self)

    def copy(self, stored: StoredTensor, folder: Path) -> torch.Tensor:
        return _within(_file(stored, folder).cuda(), stored)

    def settle(self) -> None:
        if (words := self._errors.take()) is not None:
            self._synchronise()
            raise Fault(f"CUDA error: {words} (a launch failed, and nobody looked)")
        self._synchronise()

    def fault(self, error: BaseException) -> str | None:
        return fault_of(error)

    def forget_errors(self) -> None:
        self._errors.take()

    def poison(self, byte: int, at_least: int) -> None:
        """Fill all memory that torch's allocator could hand out on this stream with `byte`; have `at_least` bytes."""
        with contextlib.suppress(torch.OutOfMemoryError):
            blocks = [torch.empty(_SMALL, dtype=torch.uint8, device="cuda") for _ in range(_SMALL_BLOCKS)]
            blocks.append(torch.empty(max(at_least, RESERVE), dtype=torch.uint8, device="cuda"))
            del blocks
        torch.cuda.synchronize()
        for address, size in free_blocks(torch.cuda.memory_snapshot()):
            self._driver.cuMemsetD8_v2(ctypes.c_uint64(address), ctypes.c_ubyte(byte), ctypes.c_size_t(size))
        torch.cuda.synchronize()

    def _synchronise(self) -> None:
        try:
            torch.cuda.synchronize()
        except RuntimeError as error:
            raise Fault(_first_line(error)) from None


class CudaLoan:
    def __init__(self, folder: Path, ground: Cuda) -> None:
        self._folder = folder
        self._ground = ground
        self._lent: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
        """The file, its content on the device, and what the kernel is given; all of them bytes."""

    def take(self, stored: StoredTensor) -> torch.Tensor:
        if stored.span == 0:
            return torch.empty(stored.shape, dtype=DTYPES[stored.dtype], device="cuda")
        file = _file(stored, self._folder)
        content = file.cuda()
        lent = torch.empty_like(content)
        self._lent.append((file, content, lent))
        return _within(lent, stored)

    @contextlib.contextmanager
    def call(self, poison: int, busy: bool) -> Iterator[None]:
        """See `Loan.call`. Without `busy`, on the default stream, where a kernel that minds no stream runs too."""
        with torch.cuda.stream(torch.cuda.current_stream() if busy else torch.cuda.default_stream()):
            byte = poison ^ 0xFF
            self._ground.poison(byte, 2 * sum(file.numel() for file, _, _ in self._lent))
            for _, _, lent in self._lent:
                lent.fill_(byte)
            torch.cuda.synchronize()
            self._ground.forget_errors()
            if busy:
                torch.cuda._sleep(DELAY_CYCLES)
            for _, content, lent in self._lent:
                lent.copy_(content)
            try:
                yield
            except Exception as error:
                if (words := fault_of(error)) is not None:
                    raise Fault(words) from None
                # A refusal: what came before it may have failed all the same.
                self._ground.settle()
                raise
            self._ground.settle()
            for file, _, lent in self._lent:
                file.copy_(lent)

    def end(self) -> None:
        self._lent = []


class LastErrors:
    """The errors that CUDA runtimes in this process keep until somebody asks: of launches that failed in silence.

    Each copy of the runtime has its own; one linked statically into the kernel's library hides it.
    """

    def __init__(self, artifact: Path | None = None) -> None:
        self._takers: list[tuple[Callable[[], int], Callable[[int], bytes]]] = []
        for path in (*_loaded_runtimes(), *([artifact] if artifact is not None else [])):
            with contextlib.suppress(OSError, AttributeError):
                library = ctypes.CDLL(str(path))
                take, words = library.cudaGetLastError, library.cudaGetErrorString
                words.restype = ctypes.c_char_p
                self._takers.append((take, words))

    def take(self) -> str | None:
        """The first that was kept, in CUDA's words; all are cleared."""
        found = [words(code).decode(errors="replace") for take, words in self._takers if (code := take()) != 0]
        return found[0] if found else None


def free_blocks(snapshot: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """Address and size of each block that is free, from `torch.cuda.memory_snapshot()`."""
    found = []
    for segment in snapshot:
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] == "inactive":
                found.append((address, block["size"]))
            address += block["size"]
    return found


def _file(stored: StoredTensor, folder: Path) -> torch.Tensor:
    """The bytes of a tensor's file, shared with it."""
    path = folder / stored.file
    return torch.from_file(str(path), shared=True, size=path.stat().st_size, dtype=torch.uint8)


def _within(content: torch.Tensor, stored: StoredTensor) -> torch.Tensor:
    """The described tensor in the bytes of its file, wherever they are."""
    dtype = DTYPES[stored.dtype]
    if stored.span == 0:
        return torch.empty(stored.shape, dtype=dtype, device=content.device)
    flat = content[stored.offset : stored.offset + stored.span].view(dtype)
    return flat.as_strided(stored.shape, stored.strides)


def _loaded_runtimes() -> list[Path]:
    maps = Path("/proc/self/maps").read_text(errors="replace")
    return [Path(path) for path in dict.fromkeys(re.findall(r"(/\S*/libcudart\.so\S*)", maps))]


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0][:500] or type(error).__name__
