"""How an assignment carries its target on: `s = s + x`, `s = std::max(s, x)`, `if (x > s) s = x`."""

from __future__ import annotations

from tree_sitter import Node

from kernel_lsp.source.nodes import TextOf, called, comparison, operator, unbracketed
from kernel_lsp.source.vocabulary import EXTREME, FUSED, without_templates


def carried(target: Node, value: Node, text: TextOf) -> str | None:
    """The operator of `target = value` as a reduction: `+`, `-`, `*`, `max`, `min`; None where it is none."""
    name = plain(target, text)
    value = unbracketed(value)
    match value.type:
        case "binary_expression":
            return _of_sum(value, name, text)
        case "conditional_expression":
            return _of_choice(value, name, text)
        case "call_expression":
            return _of_call(value, name, text)
        case _:
            return None


def conditional(statement: Node, text: TextOf) -> tuple[Node, str] | None:
    """Target and operator of `if (x > m) m = x;`, what else happens in its block aside."""
    test, consequence = statement.child_by_field_name("condition"), statement.child_by_field_name("consequence")
    compared = None if test is None else comparison(test)
    if compared is None or consequence is None or statement.child_by_field_name("alternative") is not None:
        return None
    left, sign, right = compared
    sides = (plain(left, text), plain(right, text))
    for step in consequence.named_children if consequence.type == "compound_statement" else (consequence,):
        assignment = next(iter(step.named_children), None) if step.type == "expression_statement" else None
        if assignment is None or assignment.type != "assignment_expression" or operator(assignment) != "=":
            continue
        target, value = assignment.child_by_field_name("left"), assignment.child_by_field_name("right")
        if target is None or value is None:
            continue
        new = plain(value, text)
        if {plain(target, text), new} == set(sides) and sides[0] != sides[1]:
            return target, _extreme(sign, new == sides[0])
    return None


def plain(node: Node, text: TextOf) -> str:
    """Text without white space and outer parentheses, to be compared."""
    return "".join(text(unbracketed(node)).split())


def mentions(node: Node, target: str, text: TextOf) -> bool:
    """`target`, as `plain` gives it, stands in the expression."""
    within = "".join(text(node).split())
    found = within.find(target)
    while found >= 0:
        before, after = within[:found][-1:], within[found + len(target) :][:1]
        if not (before.isalnum() or before in ("_", ".")) and not (after.isalnum() or after == "_"):
            return True
        found = within.find(target, found + 1)
    return False


def _extreme(sign: str, takes_left: bool) -> str:
    """`x > m ? x : m` grows, `x < m ? x : m` shrinks."""
    return "max" if (sign[0] == ">") == takes_left else "min"


def _of_sum(node: Node, target: str, text: TextOf) -> str | None:
    first = operator(node)
    family = ("*",) if first == "*" else ("+", "-")
    terms: list[tuple[str, Node]] = []
    left: Node = node
    while left.type == "binary_expression" and (sign := operator(left)) in family:
        right, inner = left.child_by_field_name("right"), left.child_by_field_name("left")
        if right is None or inner is None:
            return None
        terms.append((sign, right))
        left = inner
    terms.append((family[0], left))
    carriers = [sign for sign, term in terms if plain(term, text) == target]
    others = [(sign, term) for sign, term in terms if plain(term, text) != target]
    if carriers != [family[0]] or not others or any(mentions(term, target, text) for _, term in others):
        return None
    return "-" if all(sign == "-" for sign, _ in others) else family[0]


def _of_choice(node: Node, target: str, text: TextOf) -> str | None:
    test, yes, no = (node.child_by_field_name(name) for name in ("condition", "consequence", "alternative"))
    compared = None if test is None else comparison(test)
    if compared is None or yes is None or no is None:
        return None
    left, sign, right = compared
    sides = (plain(left, text), plain(right, text))
    chosen = (plain(yes, text), plain(no, text))
    if set(sides) != set(chosen) or target not in sides or sides[0] == sides[1]:
        return None
    return _extreme(sign, chosen[0] == sides[0])


def _of_call(node: Node, target: str, text: TextOf) -> str | None:
    parts = called(node)
    if parts is None:
        return None
    function, operands = parts
    name = without_templates(text(function))
    extreme = EXTREME.fullmatch(name)
    if extreme is not None and len(operands) == 2:
        others = [operand for operand in operands if plain(operand, text) != target]
        if len(others) == 1 and not mentions(others[0], target, text):
            return "max" if extreme["max"] else "min"
    if FUSED.fullmatch(name) and len(operands) == 3 and plain(operands[2], text) == target:
        return None if any(mentions(operand, target, text) for operand in operands[:2]) else "+"
    return None
