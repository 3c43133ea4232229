"""Byte columns ↔ the positions of the client, which counts in UTF-8, UTF-16 or UTF-32 units."""

from __future__ import annotations

from lsprotocol import types

from kernel_lsp.domain import Position, Span
from kernel_lsp.source.lines import LineIndex, decode, encode

Encoding = types.PositionEncodingKind


class TextIndex:
    """One text, seen by the product in bytes and by the client in its own units."""

    __slots__ = ("_encoding", "_lines", "data")

    def __init__(self, data: bytes, encoding: Encoding) -> None:
        self.data = data
        self._encoding = encoding
        self._lines = LineIndex(data)

    def to_client(self, position: Position) -> types.Position:
        """A column past the line's end, or a line past the last, means the nearest end."""
        line = min(position.line, len(self._lines.starts) - 1)
        text = self._line(line)
        if position.line > line:
            return types.Position(line=line, character=self._units(text))
        return types.Position(line=line, character=self._units(text[: _floor(text, position.column)]))

    def to_range(self, span: Span) -> types.Range:
        return types.Range(start=self.to_client(span.start), end=self.to_client(span.end))

    def from_client(self, position: types.Position) -> Position:
        """A character within a wider one means its beginning."""
        line = min(position.line, len(self._lines.starts) - 1)
        text = self._line(line)
        if position.line > line:
            return Position(line=line, column=len(text))
        return Position(line=line, column=self._bytes(text, position.character))

    def offset(self, position: types.Position) -> int:
        """Byte offset in the text."""
        return self._lines.offset(self.from_client(position))

    def line_end(self, line: int) -> types.Position:
        return self.to_client(Position(line=line, column=len(self._line(line))))

    def _line(self, line: int) -> bytes:
        """Its bytes without the terminator; none for a line past the last."""
        start = self._lines.offset(Position(line=line, column=0))
        end = self._lines.offset(Position(line=line, column=len(self.data)))
        return self.data[start:end]

    def _units(self, text: bytes) -> int:
        if self._encoding == Encoding.Utf8 or text.isascii():
            return len(text)
        characters = decode(text)
        return len(characters) if self._encoding == Encoding.Utf32 else sum(map(_utf16_units, characters))

    def _bytes(self, text: bytes, units: int) -> int:
        if self._encoding == Encoding.Utf8 or text.isascii():
            return _floor(text, units)
        counted, taken = 0, 0
        for character in decode(text):
            counted += 1 if self._encoding == Encoding.Utf32 else _utf16_units(character)
            if counted > units:
                break
            taken += len(encode(character))
        return taken


def _utf16_units(character: str) -> int:
    return 2 if ord(character) > 0xFFFF else 1


def _floor(text: bytes, column: int) -> int:
    """The nearest beginning of a character at or before `column`."""
    column = min(column, len(text))
    while 0 < column < len(text) and text[column] & 0xC0 == 0x80:
        column -= 1
    return column
