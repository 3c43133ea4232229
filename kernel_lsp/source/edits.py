"""Edits of spans: apply them, and find the few that lead from one text to another."""

from __future__ import annotations

import difflib
import hashlib
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from kernel_lsp.domain import TextEdit
from kernel_lsp.source.lines import LineIndex, decode, encode

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")


def digest(text: str) -> str:
    """SHA-256 of the text in UTF-8, hex."""
    return hashlib.sha256(encode(text)).hexdigest()


def overlap(edits: Iterable[TextEdit]) -> tuple[TextEdit, TextEdit] | None:
    """Two edits that change the same place, or None. Two insertions at one point are in order and no overlap."""
    ordered = _ordered(edits)
    for before, after in itertools.pairwise(ordered):
        if after.span.start < before.span.end or after.span.end < after.span.start:
            return before, after
    return None


def apply(text: str, edits: Iterable[TextEdit]) -> str:
    """`text` with all `edits` made; each span refers to `text` as it is, not to the result of an earlier edit.

    Raises:
        ValueError: where two edits overlap or a span does not begin and end at a character.
    """
    ordered = _ordered(edits)
    if (clash := overlap(ordered)) is not None:
        raise ValueError(f"two edits overlap at line {clash[1].span.start.line + 1}")
    data = encode(text)
    lines = LineIndex(data)
    parts: list[bytes] = []
    done = 0
    for edit in ordered:
        start, end = lines.offset(edit.span.start), lines.offset(edit.span.end)
        parts += (data[done:start], encode(edit.new_text))
        done = end
    parts.append(data[done:])
    return decode(b"".join(parts))


def difference(before: str, after: str) -> tuple[TextEdit, ...]:
    """Edits that turn `before` into `after`: one for each run of changed lines, cut down to the characters that differ.

    `apply(before, difference(before, after)) == after` for every pair of texts.
    """
    lines = LineIndex(encode(before))
    edits: list[TextEdit] = []
    byte, index = 0, 0
    for start, end, new_text in _changes(before, after):
        first = byte + len(encode(before[index:start]))
        last = first + len(encode(before[start:end]))
        edits.append(TextEdit(span=lines.span(first, last), new_text=new_text))
        byte, index = last, end
    return tuple(edits)


def _ordered(edits: Iterable[TextEdit]) -> list[TextEdit]:
    # Stable: insertions at one point keep their order, and come before a replacement that starts there.
    return sorted(edits, key=lambda edit: (edit.span.start, edit.span.end != edit.span.start))


def _changes(before: str, after: str) -> Iterator[tuple[int, int, str]]:
    """(start, end, replacement) in characters of `before`, in order."""
    old, new = _LINE.findall(before), _LINE.findall(after)
    old_starts, new_starts = _starts(old), _starts(new)
    # Equal ends are cut off first: what lies between is short for a rewrite, and matching is quadratic.
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    matcher = difflib.SequenceMatcher(None, old[head : len(old) - tail], new[head : len(new) - tail], autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag != "equal":
            start, end = old_starts[head + a], old_starts[head + b]
            yield _trimmed(before, start, end, after[new_starts[head + c] : new_starts[head + d]])


def _trimmed(before: str, start: int, end: int, new: str) -> tuple[int, int, str]:
    old = before[start:end]
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    # No position lies between \r and \n.
    if _splits_line_end(before, start + head):
        head -= 1
    if _splits_line_end(before, end - tail):
        tail -= 1
    return start + head, end - tail, new[head : len(new) - tail]


def _splits_line_end(text: str, index: int) -> bool:
    return text[index - 1 : index + 1] == "\r\n"


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    """Length of the common beginning."""
    length = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        length += 1
    return length


def _starts(lines: list[str]) -> list[int]:
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    return starts
