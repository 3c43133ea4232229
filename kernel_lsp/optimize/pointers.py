"""Tensor accessors as pointers to contiguous data, so that the last index is known to have stride 1."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tree_sitter import Node

from kernel_lsp.domain import TextEdit
from kernel_lsp.optimize.rewriting import Declined, bracketed, edit, indent_of, newline
from kernel_lsp.optimize.syntax import Code, Declaration, arguments, indices, strip, walk

_ACCESSOR = re.compile(r"(\w+)\.(?:packed_)?accessor(?:32|64)?<\s*([\w:]+)\s*,\s*(\d+)[^<>]*>\(\)")
_FRESH = re.compile(r"(?:torch|at)::(?:empty|zeros|ones|full)\s*\(")


def as_pointers(code: Code) -> tuple[TextEdit, ...] | Declined:
    """Every accessor of the file that can be, as a pointer, and its elements by row-major indices."""
    edits: list[TextEdit] = []
    reason = "no tensor is read or written through an accessor"
    for node in walk(code.source.root):
        if node.type != "declaration":
            continue
        for declared in code.declared(node):
            initial = declared.initial
            taken = None if initial is None else _ACCESSOR.fullmatch(code.text(initial))
            if taken is None or len(code.declared(node)) != 1:
                continue
            result = _as_pointer(code, declared, *taken.groups())
            if isinstance(result, Declined):
                reason = result.reason
            else:
                edits += result
    return tuple(edits) if edits else Declined(reason)


def _as_pointer(code: Code, accessor: Declaration, tensor: str, kind: str, rank: str) -> list[TextEdit] | Declined:
    owner = _declaration_of(code, accessor, tensor)
    if owner is None:
        return Declined(f"`{tensor}` is not declared in this file")
    elements: list[tuple[Node, list[Node]]] = []
    written = False
    for use in code.uses(accessor):
        element, listed = _element(use)
        if len(listed) != int(rank):
            return Declined(f"`{code.text(use.parent or use)}` on line {use.start_point[0] + 1} is not a whole index")
        elements.append((element, listed))
        written = written or code.is_write(element)
    initial = "" if owner.initial is None else code.text(owner.initial)
    is_contiguous = code.is_fixed(owner) and (_FRESH.match(initial) is not None or initial.endswith(".contiguous()"))
    if written and not is_contiguous:
        return Declined(f"`{tensor}` is written, and may not be contiguous")
    indent, end = indent_of(code, accessor.statement), newline(code)
    lines: list[str] = []
    if not is_contiguous:
        copy = code.fresh(f"{tensor}_contiguous")
        lines.append(f"const auto {copy} = {tensor}.contiguous();")
        tensor_now = copy
    else:
        tensor_now = tensor
    sizes = []
    for dimension in range(1, int(rank)):
        size = _size(code, accessor, owner, tensor, dimension)
        if size is None:
            size = code.fresh(f"{tensor}_size{dimension}")
            lines.append(f"const int64_t {size} = {tensor}.size({dimension});")
        sizes.append(size)
    lines.append(f"{'' if written else 'const '}{kind}* {accessor.name} = {tensor_now}.data_ptr<{kind}>();")
    edits = [edit(code, accessor.statement, f"{end}{indent}".join(lines))]
    for element, listed in elements:
        if any(code.uses(accessor, index) for index in listed):
            return Declined(f"`{accessor.name}` is indexed by its own elements")
        edits.append(edit(code, element, f"{accessor.name}[{_row_major([code.text(i) for i in listed], sizes)}]"))
    return edits


def _declaration_of(code: Code, accessor: Declaration, tensor: str) -> Declaration | None:
    assert accessor.initial is not None
    for node in walk(accessor.initial):
        if node.type == "identifier" and code.text(node) == tensor:
            return code.declaration(node)
    return None


def _element(use: Node) -> tuple[Node, list[Node]]:
    """The whole `a[i][j]` around a use of `a`, and its indices."""
    node, listed = use, []
    while node.parent is not None and node.parent.type == "subscript_expression":
        if node.parent.child_by_field_name("argument") != node or len(indices(node.parent)) != 1:
            break
        node = node.parent
        listed.append(indices(node)[0])
    return node, listed


def _size(code: Code, accessor: Declaration, owner: Declaration, tensor: str, dimension: int) -> str | None:
    """The function's own name for a size of the tensor."""
    listed = _listed_sizes(code, owner)
    return listed[dimension] if dimension < len(listed) else _named_sizes(code, accessor, tensor).get(dimension)


def _listed_sizes(code: Code, owner: Declaration) -> list[str]:
    """Of `torch::zeros({n, m}, …)`: what stands in the braces, where these are names of fixed values or numbers."""
    initial = owner.initial
    if initial is None or initial.type != "call_expression" or not arguments(initial):
        return []
    shape = arguments(initial)[0]
    if shape.type != "initializer_list":
        return []
    sizes = []
    for node in shape.named_children:
        declared = code.declaration(node) if node.type == "identifier" else None
        fixed = declared is not None and declared.is_integer and code.is_fixed(declared)
        if not fixed and node.type != "number_literal":
            return []
        sizes.append(code.text(node))
    return sizes


def _named_sizes(code: Code, accessor: Declaration, tensor: str) -> dict[int, str]:
    """Dimension → name, of `const int64_t rows = x.size(0);` before the accessor is taken."""
    found: dict[int, str] = {}
    for statement in accessor.scope.named_children:
        if statement.start_byte >= accessor.statement.start_byte:
            break
        for declared in code.declared(statement):
            if declared.initial is None or not code.is_fixed(declared):
                continue
            size = re.fullmatch(re.escape(tensor) + r"\.size\((\d+)\)", code.text(strip(declared.initial)))
            if size is not None:
                found.setdefault(int(size[1]), declared.name)
    return found


def _row_major(listed: Sequence[str], sizes: Sequence[str]) -> str:
    """`(n * height + h) * width + w`."""
    text = listed[0]
    for index, size in zip(listed[1:], sizes, strict=True):
        text = f"{bracketed(text)} * {bracketed(size)} + {index}"
    return text
