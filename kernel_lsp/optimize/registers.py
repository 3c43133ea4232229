"""Keeping an element that a loop accumulates into in a local variable."""

from __future__ import annotations

import re

from tree_sitter import Node

from kernel_lsp.domain import TextEdit
from kernel_lsp.optimize.dependence import Dependence, Use, may_be_same
from kernel_lsp.optimize.rewriting import Declined, edit, indent_of, innermost_of, insertion, newline
from kernel_lsp.optimize.syntax import Code, ForLoop, enclosing_loops, is_within, strip
from kernel_lsp.optimize.types import element_type


def in_registers(code: Code, nests: list[Node]) -> tuple[TextEdit, ...] | Declined:
    """Each `a[i] += …` in the innermost loops of the nests through a local variable, stored once after the loop."""
    dependence = Dependence(code)
    edits: list[TextEdit] = []
    done: set[int] = set()
    reason = "no loop accumulates into an array element"
    for nest in nests:
        for innermost in innermost_of(code, nest):
            uses = dependence.effects(innermost.body, innermost.node).uses
            for use in uses:
                if not _accumulates(use, uses):
                    continue
                loop = _outermost_invariant(code, dependence, use, innermost)
                if loop is None or use.place is None or loop.node.start_byte in done:
                    continue
                result = _in_register(code, dependence, use, loop)
                if isinstance(result, Declined):
                    reason = result.reason
                    continue
                done.add(loop.node.start_byte)
                edits += result
    return tuple(edits) if edits else Declined(reason)


def _accumulates(use: Use, uses: list[Use]) -> bool:
    """The element is written and also read: `a[i] += x`, or `a[i] = std::max(a[i], x)`."""
    return use.is_write and any(
        other.is_read and other.place == use.place and other.index == use.index for other in uses
    )


def _outermost_invariant(code: Code, dependence: Dependence, use: Use, innermost: ForLoop) -> ForLoop | None:
    """The outermost loop throughout which the accumulated element stays the same."""
    if use.index is None or use.place is None:
        return None
    found: ForLoop | None = None
    for node in [innermost.node, *enclosing_loops(innermost.node)]:
        loop = code.loop(node)
        if not isinstance(loop, ForLoop) or is_within(use.place.owner.statement, loop.body):
            break
        changed = set(dependence.effects(loop.body, loop.node).scalars)
        if not all(index is not None and dependence.is_invariant(index, loop.node, changed) for index in use.index):
            break
        found = loop
    return found


def _in_register(code: Code, dependence: Dependence, use: Use, loop: ForLoop) -> list[TextEdit] | Declined:
    assert use.place is not None
    element = code.text(use.node)
    effects = dependence.effects(loop.body, loop.node)
    if effects.obstacle is not None:
        return Declined(effects.obstacle)
    same: list[Node] = []
    for other in effects.uses:
        if other.place is None:
            return Declined(f"`{code.text(other.node)}` may be `{element}`")
        if not may_be_same(use.place, other.place):
            continue
        if other.index != use.index or other.place.view != use.place.view or other.place.key != use.place.key:
            return Declined(f"`{code.text(other.node)}` may be `{element}`")
        same.append(other.node)
    kind = element_type(code, use.node)
    if kind == "bool":
        return Declined(f"`{element}` is no number")
    if loop.node.parent is None or loop.node.parent.type != "compound_statement":
        return Declined(f"the loop over `{loop.name}` stands in no block that could hold the variable")
    name = code.fresh(f"{_base_name(code, use)}_value")
    indent, end = indent_of(code, loop.node), newline(code)
    edits = [edit(code, node, name) for node in same]
    before = _initial_store(code, loop.node, element)
    if before is not None and kind is not None:
        statement, value = before
        edits.append(edit(code, statement, f"{kind} {name} = {code.text(value)};"))
    else:
        edits.append(insertion(code, loop.node.start_byte, f"{kind or 'auto'} {name} = {element};{end}{indent}"))
    edits.append(insertion(code, loop.node.end_byte, f"{end}{indent}{element} = {name};"))
    return edits


def _base_name(code: Code, use: Use) -> str:
    """The name that the access is written with: `out` in `out[i * n + j]`."""
    assert use.place is not None
    found = re.match(r"\W*(\w+)", code.text(use.node))
    return use.place.name if found is None else found[1]


def _initial_store(code: Code, loop: Node, element: str) -> tuple[Node, Node] | None:
    """The statement `element = value;` directly before the loop, and the value."""
    before = loop.prev_named_sibling
    while before is not None and before.type == "comment":
        before = before.prev_named_sibling
    if before is None or before.type != "expression_statement" or not before.named_children:
        return None
    assignment = strip(before.named_children[0])
    left, right = assignment.child_by_field_name("left"), assignment.child_by_field_name("right")
    operator = assignment.child_by_field_name("operator")
    if assignment.type != "assignment_expression" or left is None or right is None or operator is None:
        return None
    if code.text(operator) != "=" or code.text(left) != element or element in code.text(right):
        return None
    return before, right
