"""What user code prints: kept up to a limit, the end of it, while the writer never blocks."""

from __future__ import annotations

import asyncio
import os

_CHUNK = 1 << 20


class Printed:
    """Drains the reading end of a pipe in the running event loop and keeps its last `limit` bytes."""

    def __init__(self, descriptor: int, limit: int) -> None:
        self._descriptor = descriptor
        self._limit = limit
        self._kept = bytearray()
        self._dropped = 0
        self._open = True
        os.set_blocking(descriptor, False)
        asyncio.get_running_loop().add_reader(descriptor, self._drain)

    def tail(self) -> str:
        """The last that was printed, whole lines where something was dropped before them."""
        self._drain()
        text = self._kept.decode(errors="replace")
        if not self._dropped:
            return text
        _, _, whole = text.partition("\n")
        return f"[{self._dropped} bytes before this were dropped]\n{whole or text}"

    def close(self) -> None:
        if self._open:
            self._open = False
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)

    def _drain(self) -> None:
        # One chunk per turn of the loop: a kernel that prints without end must not keep us from its time limit.
        if not self._open:
            return
        try:
            chunk = os.read(self._descriptor, _CHUNK)
        except BlockingIOError:
            return
        if not chunk:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            return
        self._kept += chunk
        if (excess := len(self._kept) - self._limit) > 0:
            del self._kept[:excess]
            self._dropped += excess
