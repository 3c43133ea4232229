"""The kernel's child: loads the artifact and calls it with what it is given, knowing nothing of what is expected."""

from __future__ import annotations

import ctypes
import itertools
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from kernel_lsp.worker import call as calling
from kernel_lsp.worker.channel import Channel
from kernel_lsp.worker.exchange import (
    Call,
    KernelReply,
    KernelRequest,
    Lap,
    Lapped,
    Load,
    Overlap,
    Raised,
    Ran,
    Ready,
    Returned,
    Run,
    SetUp,
    StoredTensor,
)
from kernel_lsp.worker.tensors import NAN_BYTE, describe, map_guarded, revive, store, unmap
from kernel_lsp.worker.timing import Stopwatch

_libc = ctypes.CDLL(None)
_M_PERTURB = -6

Addresses = tuple[int, int]


def serve(channel: Channel, folder: Path, shared: Path) -> None:
    """Answer until the parent closes its end. Results go to `folder`, arguments lie in `shared`."""
    child = KernelChild(folder, shared)
    torch.set_grad_enabled(False)
    while (request := channel.receive(KernelRequest)) is not None:
        reply: KernelReply
        try:
            reply = child.answer(request)
        except BaseException as error:
            reply = Raised(text=_words(error))
        channel.send(reply)


class KernelChild:
    def __init__(self, folder: Path, shared: Path) -> None:
        self._folder = folder
        self._shared = shared
        self._numbers = itertools.count()
        self._kernel: calling.Kernel
        self._mapped: list[tuple[StoredTensor, torch.Tensor]] = []
        self._last: Any = None
        self._timed: tuple[_Timed, ...] = ()
        self._watch = Stopwatch()

    def answer(self, request: KernelRequest) -> Ready | Returned | Lapped | Ran:
        match request:
            case Load():
                self._kernel = calling.load(request.artifact, request.entry, request.entry_name)
                return Ready()
            case Call():
                return self._call(request)
            case SetUp():
                self._forget()
                self._timed = tuple(_Timed(call, self._shared) for call in request.calls)
                for timed in self._timed:
                    self._kernel(*timed.ready())
                return Ready()
            case Lap():
                return self._lap(request)
            case Run():
                return self._run(request.seconds)

    def _call(self, request: Call) -> Returned:
        mapped: list[tuple[StoredTensor, torch.Tensor]] = []

        def take(stored: StoredTensor) -> torch.Tensor:
            tensor = map_guarded(stored, self._shared)
            mapped.append((stored, tensor))
            return tensor

        arguments = [revive(value, take) for value in request.arguments]
        spans = [[_span(t) for t in _tensors(argument)] for argument in arguments]
        _libc.mallopt(_M_PERTURB, request.poison)
        try:
            result = self._kernel(*arguments)
        except BaseException:
            self._mapped += mapped
            raise
        finally:
            _libc.mallopt(_M_PERTURB, 0)
        overlaps = tuple(self._overlaps(result, spans))
        value = describe(result, self._keep)
        # The result of this call stays alive until the next one is done, so that memory handed out twice shows. The
        # mappings before it may go: results that lie in them have been seen and reported.
        del arguments
        self._forget()
        self._mapped, self._last = mapped, result
        return Returned(value=value, overlaps=overlaps)

    def _overlaps(self, result: Any, spans: Sequence[Sequence[Addresses]]) -> list[Overlap]:
        found = []
        last = [_span(tensor) for tensor in _tensors(self._last)]
        for output, tensor in enumerate(_tensors(result)):
            mine = _span(tensor)
            for argument, theirs in enumerate(spans):
                if any(_meet(mine, other) for other in theirs):
                    found.append(Overlap(output=output, argument=argument))
            if any(_meet(mine, other) for other in last):
                found.append(Overlap(output=output, argument=None))
        return found

    def _forget(self) -> None:
        self._last = None
        for stored, tensor in self._mapped:
            # A result may still be a view of it in a cache of the kernel's own; touching it then faults, and rightly.
            unmap(stored, tensor)
        self._mapped = []

    def _keep(self, tensor: torch.Tensor) -> StoredTensor:
        return store(tensor.detach().contiguous(), self._folder, f"r{next(self._numbers)}.bin")

    def _lap(self, request: Lap) -> Lapped:
        timed = self._timed[request.which]
        arguments = timed.ready(fresh=request.keep)
        lap = self._watch.time(self._kernel, arguments, cold_cache=request.cold_cache, once=timed.changes)
        returned = None
        if request.keep:
            returned = Returned(
                value=describe(lap.result, self._keep),
                arguments=tuple(describe(argument, self._keep) for argument in arguments),
            )
        return Lapped(us=lap.us, returned=returned)

    def _run(self, seconds: float) -> Ran:
        timed = self._timed[0]
        us: list[float] = []
        before = resource.getrusage(resource.RUSAGE_SELF)
        end = time.perf_counter_ns() + int(seconds * 1e9)
        while (start := time.perf_counter_ns()) < end or not us:
            arguments = timed.ready()
            if timed.changes:
                start = time.perf_counter_ns()
            self._kernel(*arguments)
            us.append((time.perf_counter_ns() - start) / 1e3)
        after = resource.getrusage(resource.RUSAGE_SELF)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Ran(us=tuple(us), cpu_us=cpu * 1e6)


class _Timed:
    """One call's arguments in memory of the ordinary kind, restored where the kernel changes them by contract."""

    def __init__(self, call: Call, shared: Path) -> None:
        self._restored: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._outputs: list[torch.Tensor] = []

        def take(stored: StoredTensor) -> torch.Tensor:
            source = map_guarded(stored, shared)
            # Clones keep the strides of a dense view only; a gap is copied with its tensor.
            tensor = _like(source)
            unmap(stored, source)
            if stored.restore:
                self._restored.append((tensor, tensor.clone()))
            if stored.output:
                self._outputs.append(tensor)
            return tensor

        self._arguments = [revive(value, take) for value in call.arguments]

    @property
    def changes(self) -> bool:
        """Calls cannot be repeated on the same arguments without restoring them."""
        return bool(self._restored)

    def ready(self, *, fresh: bool = False) -> list[Any]:
        """The arguments for one more call; with `fresh`, outputs hold NaN again, to be compared afterwards."""
        for tensor, original in self._restored:
            tensor.copy_(original)
        if fresh:
            for tensor in self._outputs:
                if not any(tensor is restored for restored, _ in self._restored) and tensor.numel():
                    tensor.view(torch.uint8).fill_(NAN_BYTE) if tensor.dim() else tensor.fill_(-1)
        return self._arguments


def _like(source: torch.Tensor) -> torch.Tensor:
    copy = torch.empty_strided(source.shape, source.stride(), dtype=source.dtype)
    return copy.copy_(source)


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in _tensors(item)]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in _tensors(item)]
    return []


def _span(tensor: torch.Tensor) -> Addresses:
    start = tensor.data_ptr()
    if not tensor.numel():
        return start, start
    reach = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    return start, start + reach * tensor.element_size()


def _meet(a: Addresses, b: Addresses) -> bool:
    return a[0] < b[1] and b[0] < a[1]


def _words(error: BaseException) -> str:
    """The first line of what was raised; torch appends a C++ backtrace after it."""
    text = str(error).strip().split("\n", 1)[0]
    text = text.removesuffix("Exception raised from").strip()
    return f"{type(error).__name__}{': ' if text else ''}{text[:500]}"
