"""Reading single nodes of the syntax tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tree_sitter import Node

TextOf: TypeAlias = Callable[[Node], str]
"""`ParsedSource.text_of`."""


def operator(node: Node) -> str:
    found = node.child_by_field_name("operator")
    return "" if found is None else found.type


def operands(arguments: Node) -> list[Node]:
    """Of a call's argument list."""
    return [child for child in arguments.named_children if child.type != "comment"]


def unbracketed(node: Node) -> Node:
    """Without outer parentheses."""
    while node.type in ("parenthesized_expression", "condition_clause"):
        inner = operands(node)
        if len(inner) != 1:
            break
        node = inner[0]
    return node


def subscripts(node: Node) -> tuple[Node, list[Node]]:
    """Base and bracketed indices of `a[i][j]`."""
    indices: list[Node] = []
    while node.type == "subscript_expression":
        base, index = node.child_by_field_name("argument"), node.child_by_field_name("indices")
        if base is None or index is None:
            break
        indices.append(index)
        node = base
    return node, indices[::-1]


def comparison(node: Node) -> tuple[Node, str, Node] | None:
    """The sides of `a < b`, parentheses aside."""
    node = unbracketed(node)
    if node.type != "binary_expression" or (sign := operator(node)) not in ("<", "<=", ">", ">=", "!="):
        return None
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    return None if left is None or right is None else (left, sign, right)


def called(node: Node) -> tuple[Node, list[Node]] | None:
    """What a call calls and its operands."""
    if node.type != "call_expression":
        return None
    function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
    return None if function is None or arguments is None else (function, operands(arguments))


def header_end(loop: Node, body: Node) -> int:
    """Byte offset where a loop's header ends."""
    if loop.type == "do_statement":
        return loop.start_byte + len("do")
    before = body.prev_sibling
    while before is not None and before.type == "comment":
        before = before.prev_sibling
    return loop.start_byte if before is None else before.end_byte


def unwrapped(node: Node | None, text: TextOf) -> tuple[Node | None, str, tuple[str, ...]]:
    """The name or function inside a declarator, the `*` and `&` around it, and the sizes of its array brackets."""
    stars = ""
    sizes: tuple[str, ...] = ()
    while node is not None:
        match node.type:
            case "identifier":
                break
            case "pointer_declarator" | "abstract_pointer_declarator":
                stars += "*" + "".join(
                    f" {text(child)}" for child in node.children if child.type.endswith(("qualifier", "modifier"))
                )
                node = node.child_by_field_name("declarator")
            case "reference_declarator" | "abstract_reference_declarator":
                stars += node.children[0].type
                node = next(iter(node.named_children), None)
            case "array_declarator" | "abstract_array_declarator":
                size = node.child_by_field_name("size")
                sizes = ("" if size is None else text(size), *sizes)
                node = node.child_by_field_name("declarator")
            case "init_declarator" | "attributed_declarator" | "parenthesized_declarator" | "variadic_declarator":
                node = node.child_by_field_name("declarator") or next(iter(node.named_children), None)
            case _:
                break
    return node, stars, sizes
