"""Byte offsets ↔ positions. Lines end at \\n, \\r\\n or \\r and nowhere else, as in the language server protocol."""

from __future__ import annotations

import itertools
from bisect import bisect_right

from kernel_lsp.domain import Position, Span


def encode(text: str) -> bytes:
    """UTF-8; an unpaired surrogate, which an editor may send while a character is being typed, is kept."""
    return text.encode("utf-8", "surrogatepass")


def decode(data: bytes) -> str:
    """The inverse of `encode`.

    Raises:
        UnicodeDecodeError: where `data` does not end or begin at a character.
    """
    return data.decode("utf-8", "surrogatepass")


class LineIndex:
    """Where the lines of one text begin."""

    __slots__ = ("_data", "starts")

    def __init__(self, data: bytes) -> None:
        self._data = data
        # The lines of `bytes`, unlike those of `str`, end exactly where ours do.
        self.starts = list(itertools.accumulate(map(len, data.splitlines(keepends=True)), initial=0))
        """Byte offset of each line's first byte."""
        if data and data[-1] not in b"\r\n":
            self.starts.pop()

    def position(self, offset: int) -> Position:
        line = bisect_right(self.starts, offset) - 1
        return Position(line=line, column=offset - self.starts[line])

    def span(self, start: int, end: int) -> Span:
        return Span(start=self.position(start), end=self.position(end))

    def offset(self, position: Position) -> int:
        """A column past the line's last byte means its end, a line past the last the end of the text."""
        if position.line >= len(self.starts):
            return len(self._data)
        start = self.starts[position.line]
        return min(start + position.column, self._end(position.line))

    def _end(self, line: int) -> int:
        """Of the line's text, its terminator not included."""
        if line + 1 == len(self.starts):
            return len(self._data)
        end = self.starts[line + 1]
        return end - 2 if self._data[end - 2 : end] == b"\r\n" else end - 1
