"""Findings while someone types: of each function by itself, and anew only where it changed."""

from __future__ import annotations

from dataclasses import replace

from kernel_lsp.diagnose.diagnosis import diagnose, rank
from kernel_lsp.domain import Features, Finding, Position, Span
from kernel_lsp.source.features import Part, parts
from kernel_lsp.source.parse import ParsedSource


def from_text(parsed: ParsedSource) -> tuple[Finding, ...]:
    """What `diagnose` finds in the features of the whole text, function by function.

    Without measurements no rule looks beyond the function, so what was found in a body stays true while its text does.
    """
    found: list[Finding] = []
    for part in parts(parsed):
        key = ("findings", part.body)
        known: tuple[Finding, ...] | None = parsed.memo.get(key)
        if known is None:
            known = diagnose(_alone(part))
            parsed.memo.put(key, known)
        found += [_moved(finding, part) for finding in known]
    return tuple(sorted(found, key=rank))


def _alone(part: Part) -> Features:
    body = part.body
    return Features(
        functions=(part.function,),
        loops=tuple(body.loops),
        accesses=tuple(body.accesses),
        reductions=tuple(body.reductions),
        doubles=tuple(body.doubles),
        includes=(),
        syntax_errors=(),
        calls=tuple(body.calls),
        invariants=tuple(body.invariants),
    )


def _moved(finding: Finding, part: Part) -> Finding:
    start, end = finding.span.start, finding.span.end
    return replace(
        finding,
        span=Span(
            start=Position(line=start.line + part.lines, column=start.column),
            end=Position(line=end.line + part.lines, column=end.column),
        ),
        loop=None if finding.loop is None else finding.loop + part.loops,
    )
