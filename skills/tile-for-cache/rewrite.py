"""Block two loops of a matmul-like nest so that a small tile of results stays in registers."""

from __future__ import annotations

from collections.abc import Mapping

from kernel_lsp.domain import Features, Finding, TextEdit
from kernel_lsp.optimize.blocking import middle_loops, plan, tiled
from kernel_lsp.optimize.dependence import Dependence
from kernel_lsp.optimize.preparation import prepared
from kernel_lsp.optimize.rewriting import Declined, edit, innermost_of
from kernel_lsp.optimize.strides import shared_uses, strided_uses
from kernel_lsp.optimize.syntax import Code, ForLoop, enclosing_loops
from kernel_lsp.source.edits import apply, difference
from kernel_lsp.source.parse import ParsedSource


def rewrite(
    source: ParsedSource, features: Features, finding: Finding | None, parameters: Mapping[str, int]
) -> tuple[TextEdit, ...] | Declined:
    code, nests = prepared(source, finding)
    dependence = Dependence(code)
    reason = "no two loops around a sum can be blocked"
    for nest in nests:
        for innermost in innermost_of(code, nest):
            for inner, outer in _pairs(code, dependence, innermost):
                planned = plan(code, dependence, inner, outer)
                if isinstance(planned, Declined):
                    reason = planned.reason
                    continue
                text = tiled(planned, parameters["rows"], parameters["columns"])
                if isinstance(text, Declined):
                    reason = text.reason
                    continue
                tiled_text = apply(code.source.text, (edit(code, outer.node, text),))
                return difference(source.text, tiled_text)
    return Declined(reason)


def _pairs(code: Code, dependence: Dependence, innermost: ForLoop) -> list[tuple[ForLoop, ForLoop]]:
    """(columns, rows), the best first: memory is walked along the columns, and what is loaded serves all rows."""
    around = [loop for node in enclosing_loops(innermost.node) if isinstance(loop := code.loop(node), ForLoop)]
    found: list[tuple[int, int, int, ForLoop, ForLoop]] = []
    for i, inner in enumerate(around):
        for outer in around[i + 1 :]:
            if middle_loops(code, outer, inner) is not None:
                strided = strided_uses(dependence, innermost, inner)
                found.append((strided, -shared_uses(dependence, innermost, inner, outer), len(found), inner, outer))
    return [(inner, outer) for *_, inner, outer in sorted(found, key=lambda entry: entry[:3])]
