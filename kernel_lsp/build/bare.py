"""A source without its comments and blank lines, which is what is compiled, and the way back to the lines it has.

An edit that only moves code down, or says something else about it, then changes nothing that a build depends on: the
same artifact serves, and its line tables, the compiler's messages and the vectoriser's remarks are read through the
lines of the text as it is now.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_left
from dataclasses import dataclass, replace
from pathlib import Path

from kernel_lsp.build.content import TOKENS
from kernel_lsp.domain import CompilerMessage, Location, Position, Span, VectorRemark

_NUMBERED = re.compile(r"\b__LINE__\b|\bassert\s*\(")
"""What puts line numbers into the program itself: they must be the file's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bare:
    text: str
    """Comments turned to blanks, blank lines left out; what is left keeps its columns."""
    lines: tuple[int, ...]
    """For each line of `text`, its zero-based line in the source."""

    def line(self, number: int) -> int:
        """The source's line for one of `text`; past the end it is the last."""
        return self.lines[min(number, len(self.lines) - 1)] if self.lines else 0

    def number(self, line: int) -> int:
        """The line of `text` that holds, or follows, a line of the source."""
        return bisect_left(self.lines, line)

    def message(self, message: CompilerMessage, path: Path) -> CompilerMessage:
        """`message` about `text`, which was compiled as `path`, at its places in the source."""
        return replace(
            message,
            location=None if message.location is None else self._location(message.location, path),
            related=tuple((self._location(place, path), note) for place, note in message.related),
        )

    def remark(self, remark: VectorRemark, path: Path) -> VectorRemark:
        if remark.location.path != path:
            return remark
        cause = remark.cause_line
        return replace(
            remark,
            location=self._location(remark.location, path),
            cause_line=None if cause is None else self.line(cause),
        )

    def _location(self, location: Location, path: Path) -> Location:
        if location.path != path:
            return location
        start, end = location.span.start, location.span.end
        return replace(location, span=Span(start=self._position(start), end=self._position(end)))

    def _position(self, position: Position) -> Position:
        return Position(line=self.line(position.line), column=position.column)


@functools.lru_cache(maxsize=64)
def bare(text: str) -> Bare:
    """Lines that hold nothing but comments go; in a literal, after a backslash, and where the program asks for its
    own line numbers, they stay."""
    lines: list[tuple[int, str]] = []
    current: list[str] = []
    number = first_of_line = 0
    fixed = keep_all = bool(_NUMBERED.search(text))

    def end(*, within: bool = False) -> None:
        """`within` a literal: its blank lines are part of it."""
        nonlocal number, first_of_line, fixed
        line = "".join(current)
        if fixed or within or line.strip(" \t\r\f\v"):
            lines.append((first_of_line, line))
        number += 1
        first_of_line = number
        fixed = keep_all or within or line.rstrip(" \t\r").endswith("\\")
        current.clear()

    for token in TOKENS.finditer(text):
        content = token[0]
        if token.lastgroup == "newline":
            end()
        elif token.lastgroup == "comment":
            first, *rest = content.split("\n")
            current.append(_blank(first))
            in_directive = "".join(current).lstrip().startswith("#") or (fixed and not keep_all)
            for part in rest:
                if in_directive:
                    # A directive ends with its line, and a comment within it must not end it. What follows the
                    # comment loses its line, which hardly any directive tells of.
                    number += 1
                else:
                    end()
                current.append(_blank(part))
        else:
            first, *rest = content.split("\n")
            current.append(first)
            for part in rest:
                end(within=True)
                current.append(part)
    if current:
        end()
    return Bare(text="".join(f"{line}\n" for _, line in lines), lines=tuple(line for line, _ in lines))


def _blank(text: str) -> str:
    """As many blanks as it has bytes: columns are counted in bytes. A tab stays one."""
    return "".join("\t" if c == "\t" else " " * len(c.encode("utf-8", "surrogatepass")) for c in text)
