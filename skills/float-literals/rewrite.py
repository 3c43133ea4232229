"""Keep float arithmetic in float: `0.5` → `0.5f`, `exp` → `std::exp`, and double variables to float."""

from __future__ import annotations

from collections.abc import Mapping

from kernel_lsp.domain import Features, Finding, TextEdit
from kernel_lsp.optimize.precision import in_float
from kernel_lsp.optimize.rewriting import Declined
from kernel_lsp.source.edits import difference
from kernel_lsp.source.parse import ParsedSource


def rewrite(
    source: ParsedSource, features: Features, finding: Finding | None, parameters: Mapping[str, int]
) -> tuple[TextEdit, ...] | Declined:
    mended = in_float(source, features, variables=bool(parameters["variables"]))
    if mended is source:
        return Declined("no double literal, function or cast is mixed with float data")
    return difference(source.text, mended.text)
