"""One measured call: caches flushed, short calls repeated, nothing else inside the clock."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kernel_lsp.worker.ground import Measured

SHORT_US = 20.0
"""Calls below this are repeated until the total is above it several times over: perf_counter's own cost is some 50 ns,
the interpreter's jitter a few microseconds."""

REPEATED_US = 200.0
"""Total that a repeated short call is brought to."""

DEFAULT_CACHE = 32 * 2**20
"""Last-level cache taken for granted where the system does not tell its size."""

MOST_FLUSHED = 512 * 2**20
"""Bytes; some servers have more last-level cache than that, and a flush must not take longer than the measurement."""

_libc = ctypes.CDLL(None)
_libc.memchr.restype = ctypes.c_void_p
_libc.memchr.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]


class HostStopwatch:
    """Times calls in this process by the wall; its buffer for flushing is made at the first cold call."""

    def __init__(self) -> None:
        self._flush_bytes = min(2 * last_level_cache_bytes(), MOST_FLUSHED)
        self._buffer: ctypes.Array[ctypes.c_char] | None = None

    def time(
        self, function: Callable[..., Any], arguments: Sequence[Any], *, cold_cache: bool, once: bool = False
    ) -> Measured:
        """One call, or with a short one (unless `once`) the mean of several that follow each other."""
        if cold_cache:
            self._flush()
        start = time.perf_counter_ns()
        result = function(*arguments)
        us = (time.perf_counter_ns() - start) / 1e3
        if us < SHORT_US and not once:
            count = max(2, int(REPEATED_US / max(us, 0.2)))
            start = time.perf_counter_ns()
            for _ in range(count):
                result = function(*arguments)
            us = (time.perf_counter_ns() - start) / 1e3 / count
        return Measured(us=us, result=result)

    def _flush(self) -> None:
        """Read through twice the last-level cache, by this thread alone.

        Reading with all of torch's threads would leave them spinning beside a kernel that has threads of its own.
        """
        if self._buffer is None:
            self._buffer = ctypes.create_string_buffer(self._flush_bytes)
            # Written once, so that its pages are memory and not one shared page of zeros.
            ctypes.memset(self._buffer, 1, self._flush_bytes)
        _libc.memchr(ctypes.addressof(self._buffer), 2, self._flush_bytes)


def last_level_cache_bytes() -> int:
    """Size of the largest cache of the first processor, as the kernel tells it."""
    sizes = [DEFAULT_CACHE]
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        try:
            text = path.read_text().strip()
            sizes.append(int(text.rstrip("KMG")) * {"K": 2**10, "M": 2**20, "G": 2**30}.get(text[-1:], 1))
        except (OSError, ValueError):
            continue
    return max(sizes[1:], default=DEFAULT_CACHE)
