"""Promise the compiler that pointer parameters do not overlap."""

from __future__ import annotations

from collections.abc import Mapping

from tree_sitter import Node

from kernel_lsp.domain import Features, Finding, TextEdit
from kernel_lsp.optimize.dependence import Dependence
from kernel_lsp.optimize.rewriting import Declined, insertion, nest_at
from kernel_lsp.optimize.syntax import Code, Declaration, enclosing, walk
from kernel_lsp.source.parse import ParsedSource


def rewrite(
    source: ParsedSource, features: Features, finding: Finding | None, parameters: Mapping[str, int]
) -> tuple[TextEdit, ...] | Declined:
    code = Code(source)
    dependence = Dependence(code)
    edits: list[TextEdit] = []
    seen: set[int] = set()
    for nest in nest_at(code, finding):
        function = enclosing(nest, "function_definition")
        if function is None or function.start_byte in seen:
            continue
        seen.add(function.start_byte)
        pointers = _pointers(code, function)
        places = [_place(dependence, pointer) for pointer in pointers]
        pointers = [p for p, place in zip(pointers, places, strict=True) if places.count(place) == 1]
        written = [p for p in pointers if _is_written(code, dependence, p, function)]
        others = {p.type for p in pointers if p not in written}
        if not written or (len(written) < 2 and not others):
            continue
        for pointer in pointers:
            if "restrict" not in code.text(pointer.statement):
                edits.append(insertion(code, pointer.identifier.start_byte, "__restrict__ "))
    if not edits:
        return Declined("no function that writes through one pointer has another that could overlap it")
    return tuple(edits)


def _pointers(code: Code, function: Node) -> list[Declaration]:
    """Pointer parameters, and pointers to a tensor's data taken in the function, each the only one to its memory."""
    found = []
    for node in walk(function):
        if node.type == "parameter_declaration" and enclosing(node, "lambda_expression") is None:
            declared = code.parameter(node)
        elif node.type == "declaration" and "data_ptr" in code.text(node):
            variables = code.declared(node)
            declared = variables[0] if len(variables) == 1 else None
        else:
            continue
        if declared is not None and declared.is_pointer and "**" not in code.text(declared.statement):
            found.append(declared)
    return found


def _place(dependence: Dependence, pointer: Declaration) -> str:
    """The memory that a pointer leads to: two to the same may not both be promised to be the only one."""
    found = None if pointer.initial is None else dependence.base(pointer.initial)
    return pointer.key if found is None else found[0].key


def _is_written(code: Code, dependence: Dependence, pointer: Declaration, function: Node) -> bool:
    if pointer.is_const:
        return False
    for use in code.uses(pointer):
        access = use.parent
        found = dependence.use(access) if access is not None else None
        if found is not None and found.is_write:
            return True
    return False
