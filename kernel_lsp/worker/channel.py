"""A child's end of the private descriptor: framed messages, one question and one answer at a time."""

from __future__ import annotations

import os
from typing import Any

from kernel_lsp import wire


class Channel:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def receive(self, kind: Any) -> Any | None:
        """The next message, a value of the union `kind`; None when the parent has closed its end."""
        header = self._exactly(wire.HEADER_BYTES)
        if header is None:
            return None
        body = self._exactly(wire.body_length(header))
        return None if body is None else wire.loads(kind, body)

    def send(self, message: Any) -> None:
        data = memoryview(wire.frame(message))
        while data:
            data = data[os.write(self._descriptor, data) :]

    def _exactly(self, count: int) -> bytes | None:
        taken = bytearray()
        while len(taken) < count:
            chunk = os.read(self._descriptor, count - len(taken))
            if not chunk:
                return None
            taken += chunk
        return bytes(taken)
