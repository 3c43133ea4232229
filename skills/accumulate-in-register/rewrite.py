"""Keep an element that a loop accumulates into in a local variable, and store it once."""

from __future__ import annotations

from collections.abc import Mapping

from kernel_lsp.domain import Features, Finding, TextEdit
from kernel_lsp.optimize.registers import in_registers
from kernel_lsp.optimize.rewriting import Declined, nest_at
from kernel_lsp.optimize.syntax import Code
from kernel_lsp.source.parse import ParsedSource


def rewrite(
    source: ParsedSource, features: Features, finding: Finding | None, parameters: Mapping[str, int]
) -> tuple[TextEdit, ...] | Declined:
    code = Code(source)
    return in_registers(code, nest_at(code, finding))
