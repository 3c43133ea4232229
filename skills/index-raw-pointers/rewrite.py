"""Replace tensor accessors by pointers to contiguous data, so that the last index is known to have stride 1."""

from __future__ import annotations

from collections.abc import Mapping

from kernel_lsp.domain import Features, Finding, TextEdit
from kernel_lsp.optimize.pointers import as_pointers
from kernel_lsp.optimize.rewriting import Declined
from kernel_lsp.optimize.syntax import Code
from kernel_lsp.source.parse import ParsedSource


def rewrite(
    source: ParsedSource, features: Features, finding: Finding | None, parameters: Mapping[str, int]
) -> tuple[TextEdit, ...] | Declined:
    return as_pointers(Code(source))
