"""Let a sum, product, maximum or minimum be taken in vectors, in another order than written."""

from __future__ import annotations

from collections.abc import Mapping

from kernel_lsp.domain import Features, Finding, TextEdit
from kernel_lsp.optimize.dependence import Dependence
from kernel_lsp.optimize.preparation import prepared
from kernel_lsp.optimize.rewriting import Declined, innermost_of
from kernel_lsp.optimize.vectors import vectorised
from kernel_lsp.source.edits import apply, difference
from kernel_lsp.source.parse import ParsedSource


def rewrite(
    source: ParsedSource, features: Features, finding: Finding | None, parameters: Mapping[str, int]
) -> tuple[TextEdit, ...] | Declined:
    code, nests = prepared(source, finding)
    dependence = Dependence(code)
    edits: list[TextEdit] = []
    reason = "there is no innermost loop with a plain range"
    for nest in nests:
        for loop in innermost_of(code, nest):
            result = vectorised(code, dependence, loop)
            if isinstance(result, Declined):
                reason = result.reason
            else:
                edits += result
    return difference(source.text, apply(code.source.text, edits)) if edits else Declined(reason)
