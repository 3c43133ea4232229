"""One measured call on a GPU: by events on the current stream, held against the host's clock. Runs in children only.

Two clocks, because each can be deceived. Events around the call tell how long the stream was busy with it. The stream
has other work before it (the flush, a lead), so that the host's issuing of launches does not count as long as it keeps
ahead, as in triton's `do_bench`. But events see one stream. So the call is made a second time on an idle device and
timed by the host until the whole device is idle again: work on other streams and in the call's own waiting is in it.
Where that exceeds the first by more than issuing and synchronising explain, it counts instead: a call then takes as
long as its caller waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from kernel_lsp.worker.ground import Measured

LEAD_CYCLES = 200_000
"""Clock cycles, some 0.1 ms: what the host may take to issue a call before that shows in its events."""

SHORT_US = 200.0
"""Calls below this are repeated by the host's clock, so that one synchronisation is spread over many."""

REPEATED_US = 1000.0
"""Total that they are brought to."""

MOST_REPEATED = 100

SYNCHRONISING_US = 30.0
"""What launching on an idle device and waiting for it add to a sequence of calls, generously: some 10 us here."""

ISSUING_US = 15.0
"""What the host may take for one of several calls that follow each other before it is its speed that counts."""

SLACK = 1.1
"""Ratio of the two clocks that is no evidence: the GPU may clock lower for one call than for another."""

DEFAULT_CACHE = 64 * 2**20


def counted(event_us: float, host_us: float, calls: int) -> tuple[float, bool]:
    """Time per call, and whether it is the host's: see the module's docstring. `calls` were behind `host_us` each."""
    explained = event_us * SLACK + SYNCHRONISING_US / calls + ISSUING_US
    return (host_us, True) if host_us > explained else (event_us, False)


class CudaStopwatch:
    """Times calls on the current stream of this process."""

    def __init__(self) -> None:
        self._buffer: torch.Tensor | None = None

    def time(
        self, function: Callable[..., Any], arguments: Sequence[Any], *, cold_cache: bool, once: bool = False
    ) -> Measured:
        if cold_cache:
            self._flush()
        if once:
            # Its arguments are spent by one call: both clocks look at the same one, launches included.
            torch.cuda.synchronize()
            return self._both(function, arguments)
        torch.cuda._sleep(LEAD_CYCLES)
        start, end = _event(), _event()
        start.record()
        result = function(*arguments)
        end.record()
        torch.cuda.synchronize()
        event_us = float(start.elapsed_time(end)) * 1e3
        if cold_cache:
            self._flush()
            torch.cuda.synchronize()
        host_us, calls = _waited(function, arguments, 1), 1
        if host_us < SHORT_US and counted(event_us, host_us, calls)[1]:
            # One short call is mostly launch and wait; several tell what each of them takes.
            calls = min(MOST_REPEATED, max(2, int(REPEATED_US / host_us)))
            host_us = _waited(function, arguments, calls)
        us, elsewhere = counted(event_us, host_us, calls)
        return Measured(us=us, result=result, elsewhere=elsewhere)

    def _both(self, function: Callable[..., Any], arguments: Sequence[Any]) -> Measured:
        start, end = _event(), _event()
        begin = time.perf_counter_ns()
        start.record()
        result = function(*arguments)
        end.record()
        torch.cuda.synchronize()
        host_us = (time.perf_counter_ns() - begin) / 1e3
        us, elsewhere = counted(float(start.elapsed_time(end)) * 1e3, host_us, 1)
        return Measured(us=us, result=result, elsewhere=elsewhere)

    def _flush(self) -> None:
        """Write through twice the second-level cache."""
        if self._buffer is None:
            size = getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0) or DEFAULT_CACHE
            self._buffer = torch.empty(2 * size, dtype=torch.uint8, device="cuda")
        self._buffer.zero_()


def _event() -> Any:
    return torch.cuda.Event(enable_timing=True)


def _waited(function: Callable[..., Any], arguments: Sequence[Any], calls: int) -> float:
    """Microseconds per call from an idle device to an idle device; results are let go of as they come."""
    begin = time.perf_counter_ns()
    for _ in range(calls):
        function(*arguments)
    torch.cuda.synchronize()
    return (time.perf_counter_ns() - begin) / 1e3 / calls
