"""Exchange loops so that the innermost one walks along memory."""

from __future__ import annotations

from collections.abc import Mapping

from kernel_lsp.domain import Features, Finding, TextEdit
from kernel_lsp.optimize.blocking import interchanged, plan
from kernel_lsp.optimize.dependence import Dependence
from kernel_lsp.optimize.rewriting import (
    Declined,
    edit,
    header_edit,
    header_text,
    innermost_of,
    nest_at,
)
from kernel_lsp.optimize.strides import strided_uses
from kernel_lsp.optimize.syntax import Code, ForLoop, enclosing_loops, statements
from kernel_lsp.source.parse import ParsedSource


def rewrite(
    source: ParsedSource, features: Features, finding: Finding | None, parameters: Mapping[str, int]
) -> tuple[TextEdit, ...] | Declined:
    code = Code(source)
    dependence = Dependence(code)
    reason = "no loop around the innermost one would walk along memory better"
    for nest in nest_at(code, finding):
        for innermost in innermost_of(code, nest):
            obstacle = dependence.effects(innermost.body, innermost.node).obstacle
            if obstacle is not None:
                reason = obstacle
                continue
            better = _better(code, dependence, innermost)
            if better is None:
                continue
            planned = plan(code, dependence, better)
            if not isinstance(planned, Declined):
                text = interchanged(planned, parameters["block"])
                return text if isinstance(text, Declined) else (edit(code, better.node, text),)
            swapped = _swapped(code, dependence, better, innermost)
            if not isinstance(swapped, Declined):
                return swapped
            reason = planned.reason if swapped.reason == planned.reason else f"{planned.reason}; {swapped.reason}"
    return Declined(reason)


def _better(code: Code, dependence: Dependence, innermost: ForLoop) -> ForLoop | None:
    """The loop around `innermost` that would make the fewest strided accesses as the innermost one."""
    around = [loop for node in enclosing_loops(innermost.node) if isinstance(loop := code.loop(node), ForLoop)]
    counted = [(strided_uses(dependence, innermost, loop), order, loop) for order, loop in enumerate(around)]
    if not counted:
        return None
    fewest, _, best = min(counted, key=lambda entry: entry[:2])
    return best if fewest < strided_uses(dependence, innermost, innermost) else None


def _swapped(code: Code, dependence: Dependence, outer: ForLoop, inner: ForLoop) -> tuple[TextEdit, ...] | Declined:
    """The headers of two loops, one the other's whole body, exchanged."""
    if statements(outer.body) != [inner.node]:
        return Declined(f"`{inner.name}` is not the whole body of `{outer.name}`")
    if any(code.mentions(part, outer.variable) for part in inner.range):
        return Declined(f"the range of `{inner.name}` depends on `{outer.name}`")
    if (reason := dependence.carried(inner, outer.node)) is not None:
        return Declined(reason)
    return (header_edit(code, outer, header_text(code, inner)), header_edit(code, inner, header_text(code, outer)))
