"""What a loop nest needs before it can run in vectors or tiles: data by pointers, sums in variables.

Each of these steps alone often gains nothing that can be measured, so the skills that need them take them along.
"""

from __future__ import annotations

from tree_sitter import Node

from kernel_lsp.domain import Finding
from kernel_lsp.optimize.pointers import as_pointers
from kernel_lsp.optimize.registers import in_registers
from kernel_lsp.optimize.rewriting import Declined, nest_at
from kernel_lsp.optimize.syntax import Code
from kernel_lsp.source.edits import apply
from kernel_lsp.source.parse import ParsedSource, parse


def prepared(source: ParsedSource, finding: Finding | None) -> tuple[Code, list[Node]]:
    """The prepared text, and those of its nests that the finding is about."""
    code = Code(source)
    every = nest_at(code, None)
    # Preparation adds statements inside and around nests, but no nest: their order and number stay.
    wanted = [every.index(nest) for nest in nest_at(code, finding)]
    edits = as_pointers(code)
    if not isinstance(edits, Declined):
        code = Code(parse(source.path, apply(code.source.text, edits)))
    every = nest_at(code, None)
    edits = in_registers(code, [every[position] for position in wanted])
    if not isinstance(edits, Declined):
        code = Code(parse(source.path, apply(code.source.text, edits)))
    every = nest_at(code, None)
    return code, [every[position] for position in wanted]
