"""The kernel's child: loads the artifact and calls it with what it is given, knowing nothing of what is expected."""

from __future__ import annotations

import itertools
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from kernel_lsp.domain import Device
from kernel_lsp.worker import call as calling
from kernel_lsp.worker.channel import Channel
from kernel_lsp.worker.exchange import (
    Call,
    Faulted,
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
from kernel_lsp.worker.ground import Ground, Loan
from kernel_lsp.worker.host import Host
from kernel_lsp.worker.tensors import NAN_BYTE, describe, revive, store

Addresses = tuple[int, int]


def serve(channel: Channel, folder: Path, shared: Path, device: Device) -> None:
    """Answer until the parent closes its end. Results go to `folder`, arguments lie in `shared`."""
    ground = _ground(device)
    child = KernelChild(folder, shared, ground)
    torch.set_grad_enabled(False)
    while (request := channel.receive(KernelRequest)) is not None:
        reply: KernelReply
        try:
            reply = child.answer(request)
        except BaseException as error:
            fault = ground.fault(error)
            reply = Raised(text=_words(error)) if fault is None else Faulted(what=fault)
        channel.send(reply)


def _ground(device: Device) -> Ground:
    """Started before anything is asked, so that children start CUDA at the same time."""
    if device is Device.CPU:
        return Host()
    from kernel_lsp.worker import cuda

    # Where this fails it fails in the reference's child too, which is asked first and says why.
    cuda.start()
    return cuda.Cuda()


class KernelChild:
    def __init__(self, folder: Path, shared: Path, ground: Ground) -> None:
        self._folder = folder
        self._shared = shared
        self._ground = ground
        self._numbers = itertools.count()
        self._kernel: calling.Kernel
        self._loans: list[Loan] = []
        self._last: Any = None
        self._timed: tuple[_Timed, ...] = ()

    def answer(self, request: KernelRequest) -> Ready | Returned | Lapped | Ran:
        match request:
            case Load():
                self._kernel = calling.load(request.artifact, request.entry, request.entry_name)
                self._ground.load(request.artifact, request.entry)
                return Ready()
            case Call():
                return self._call(request)
            case SetUp():
                self._forget()
                self._timed = tuple(_Timed(call, self._copy) for call in request.calls)
                for timed in self._timed:
                    self._kernel(*timed.ready())
                self._ground.settle()
                return Ready()
            case Lap():
                return self._lap(request)
            case Run():
                return self._run(request.seconds)

    def _call(self, request: Call) -> Returned:
        loan = self._ground.lend(self._shared)
        arguments = [revive(value, loan.take) for value in request.arguments]
        spans = [[_span(t) for t in _tensors(argument)] for argument in arguments]
        try:
            with loan.call(request.poison, request.busy):
                result = self._kernel(*arguments)
        except BaseException:
            self._loans.append(loan)
            raise
        overlaps = tuple(self._overlaps(result, spans))
        value = describe(result, self._keep)
        # The result of this call stays alive until the next one is done, so that memory handed out twice shows. The
        # arguments before it may go: results that lie in them have been seen and reported.
        del arguments
        self._forget()
        self._loans, self._last = [loan], result
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
        for loan in self._loans:
            loan.end()
        self._loans = []

    def _copy(self, stored: StoredTensor) -> torch.Tensor:
        return self._ground.copy(stored, self._shared)

    def _keep(self, tensor: torch.Tensor) -> StoredTensor:
        return store(tensor.detach().contiguous(), self._folder, f"r{next(self._numbers)}.bin")

    def _lap(self, request: Lap) -> Lapped:
        timed = self._timed[request.which]
        arguments = timed.ready(fresh=request.keep)
        lap = self._ground.stopwatch.time(self._kernel, arguments, cold_cache=request.cold_cache, once=timed.changes)
        self._ground.settle()
        returned = None
        if request.keep:
            returned = Returned(
                value=describe(lap.result, self._keep),
                arguments=tuple(describe(argument, self._keep) for argument in arguments),
            )
        return Lapped(us=lap.us, elsewhere=lap.elsewhere, returned=returned)

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
            self._ground.settle()
            us.append((time.perf_counter_ns() - start) / 1e3)
        after = resource.getrusage(resource.RUSAGE_SELF)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Ran(us=tuple(us), cpu_us=cpu * 1e6)


class _Timed:
    """One call's arguments in memory of the ordinary kind, restored where the kernel changes them by contract."""

    def __init__(self, call: Call, copy: Callable[[StoredTensor], torch.Tensor]) -> None:
        self._restored: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._outputs: list[torch.Tensor] = []

        def take(stored: StoredTensor) -> torch.Tensor:
            tensor = copy(stored)
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
