"""What g++'s vectoriser says of each loop, from `-fopt-info-vec-optimized-missed`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kernel_lsp.domain import Location, Span, VectorRemark

_REMARK = re.compile(r"(?P<file>[^\s].*?):(?P<line>\d+):\d+: (?P<kind>optimized|missed): \s*(?P<text>.*)")
_WIDTH = re.compile(r"(?:loop|outer loop) vectorized using (?P<bytes>\d+|variable length) ?byte vectors")
_CALL = re.compile(r"statement clobbers memory: (?:[\w.]+ = )?(?P<name>[\w:.]+) \(")
_STATEMENT = re.compile(r":? *\**(?:MEM|[\w.]*_\d+\b|\*_).*$")
"""The compiler's internal form of a statement: `_17 = *_16;`, `MEM[(float *)…]`."""

_VAGUE = ("control flow in loop", "multiple nested loops", "no grouped stores in basic block")
"""Reasons that say little; a more telling one for the same loop is preferred."""


@dataclass(frozen=True, slots=True)
class _Reason:
    text: str
    line: int | None
    """Zero-based, where it is not the loop's."""


@dataclass(slots=True)
class _Loop:
    file: str
    line: int
    reasons: list[_Reason]


def parse(text: str, files: Iterable[Path]) -> tuple[VectorRemark, ...]:
    """One remark for each loop line in `files`: vectorised in any of its copies, else the most telling reason.

    gcc 12 prints `couldn't vectorize loop` at the loop, then the reason at the statement that stood in the way.
    """
    own = {str(file): file for file in files}
    widths: dict[tuple[str, int], int] = {}
    missed: dict[tuple[str, int], list[_Reason]] = {}
    loop: _Loop | None = None
    for line in text.splitlines():
        remark = _REMARK.fullmatch(line)
        if remark is None:
            continue
        place = (remark["file"], int(remark["line"]) - 1)
        if remark["kind"] == "optimized":
            if width := _WIDTH.search(remark["text"]):
                size = int(width["bytes"]) if width["bytes"].isdigit() else 0
                widths[place] = max(widths.get(place, 0), size)
        elif remark["text"].startswith("couldn't vectorize loop"):
            loop = _Loop(file=place[0], line=place[1], reasons=missed.setdefault(place, []))
        elif loop is not None and (reason := _reason(remark["text"])):
            elsewhere = place[0] == loop.file and place[1] != loop.line
            loop.reasons.append(_Reason(reason, place[1] if elsewhere else None))
    found = []
    for place in sorted({*widths, *missed}):
        if place[0] not in own:
            continue
        location = Location(path=own[place[0]], span=Span.line(place[1]))
        if place in widths:
            found.append(VectorRemark(location=location, vectorized=True, reason=_width(widths[place])))
        else:
            best = _best(missed[place])
            found.append(VectorRemark(location=location, vectorized=False, reason=best.text, cause_line=best.line))
    return tuple(found)


def _width(size: int) -> str:
    return f"{size}-byte vectors" if size else "vectors of variable length"


def _best(reasons: list[_Reason]) -> _Reason:
    telling = [reason for reason in reasons if not reason.text.startswith(_VAGUE)]
    return (telling or reasons or [_Reason("the compiler gives no reason", None)])[0]


def _reason(text: str) -> str:
    """The compiler's reason without its internal names; empty for what is no reason."""
    if call := _CALL.match(text):
        name = call["name"].removeprefix("__builtin_")
        return f"calls {name}, which has no vector form here"
    if text.startswith("splitting region"):
        return ""
    if text.startswith("statement clobbers memory"):
        return "a statement in it may write any memory"
    text = text.removeprefix("not vectorized:").strip().removeprefix("failed:").strip()
    text = text.removeprefix("relevant stmt not supported:").strip() or "a statement has no vector form"
    return _STATEMENT.sub("", text).strip(" .:")
