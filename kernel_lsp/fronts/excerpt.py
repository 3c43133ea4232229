"""Lines of source with carets under a span, as compilers print them. Pure text."""

from __future__ import annotations

import re
import unicodedata

from kernel_lsp.domain import Span

TAB = 4
"""Columns that a tab is shown as."""

_LINE_END = re.compile(r"\r\n|\n|\r")


def excerpt(text: str, span: Span) -> tuple[str, ...]:
    """The span's first line with a gutter, and carets under what the span covers of it; empty past the text's end."""
    lines = _LINE_END.split(text)
    if span.start.line >= len(lines):
        return ()
    line = lines[span.start.line]
    start = _characters(line, span.start.column)
    end = _characters(line, span.end.column) if span.end.line == span.start.line else len(line.rstrip())
    shown, before, covered = printable(line), printable(line[:start]), printable(line[start:end])
    number = str(span.start.line + 1)
    gutter = " " * len(number)
    return (
        f"{gutter} |",
        f"{number} | {shown}".rstrip(),
        f"{gutter} | {' ' * width(before)}{'^' * max(1, width(covered))}",
    )


def source_line(text: str, number: int) -> str:
    """Zero-based line `number` without indentation; empty past the text's end."""
    lines = _LINE_END.split(text)
    return printable(lines[number].strip()) if number < len(lines) else ""


def printable(text: str) -> str:
    """`text` without what a terminal would obey: a source or a kernel's output may hold escape sequences."""
    return "".join(
        " " * TAB if character == "\t" else character if _is_shown(character) else "\N{REPLACEMENT CHARACTER}"
        for character in text
    )


def width(text: str) -> int:
    """Terminal columns: two for wide characters, none for combining ones."""
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def _is_shown(character: str) -> bool:
    return character == " " or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _characters(line: str, column: int) -> int:
    """Characters in the first `column` UTF-8 bytes of `line`."""
    return len(line.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "ignore"))
