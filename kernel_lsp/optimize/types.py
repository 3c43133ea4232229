"""The arithmetic type of an expression, as far as the text shows it."""

from __future__ import annotations

import re

from tree_sitter import Node

from kernel_lsp.optimize.dependence import Dependence
from kernel_lsp.optimize.syntax import INTEGER_TYPES, Code, arguments, strip, words

_WRAPPED = re.compile(r"(?:vector|array|span|(?:Packed)?(?:Generic)?TensorAccessor\w*)<\s*(?:const\s+)?([\w:]+)")
_TEMPLATE = re.compile(
    r"(?:data_ptr|mutable_data_ptr|const_data_ptr|data|accessor|packed_accessor\w*)<\s*(?:const\s+)?([\w:]+)"
)
_SAME_TYPE = words(
    """
    abs fabs exp exp2 expm1 log log2 log10 log1p sqrt rsqrt cbrt pow sin cos tan tanh erf erfc floor ceil round
    trunc fma min max fmin fmax clamp
    """
)
"""Overloaded on their argument's type under `std::`."""


def expression_type(code: Code, dependence: Dependence, node: Node) -> str | None:
    """`float`, `double`, `scalar_t`, `int64_t`…; None where it cannot be told."""
    node = strip(node)
    match node.type:
        case "number_literal":
            return _literal_type(code.text(node))
        case "identifier":
            declared = code.declaration(node)
            if declared is None or declared.is_pointer or declared.is_array or not declared.is_scalar:
                return None
            if declared.type == "auto":
                return None if declared.initial is None else expression_type(code, dependence, declared.initial)
            return declared.type
        case "subscript_expression":
            return element_type(code, node)
        case "pointer_expression":
            inner = node.child_by_field_name("argument")
            return element_type(code, inner) if inner is not None and code.text(node).startswith("*") else None
        case "unary_expression":
            inner = node.child_by_field_name("argument")
            return None if inner is None else expression_type(code, dependence, inner)
        case "binary_expression":
            left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
            return None if left is None or right is None else _common(code, dependence, left, right)
        case "conditional_expression":
            yes, no = node.child_by_field_name("consequence"), node.child_by_field_name("alternative")
            return None if yes is None or no is None else _common(code, dependence, yes, no)
        case "cast_expression":
            kind = node.child_by_field_name("type")
            return None if kind is None else code.text(kind)
        case "call_expression":
            return _call_type(code, dependence, node)
    return None


def element_type(code: Code, node: Node) -> str | None:
    """The type of what an array, pointer, tensor accessor or vector expression holds."""
    node = strip(node)
    while node.type in ("subscript_expression", "pointer_expression", "field_expression"):
        inner = node.child_by_field_name("argument")
        if inner is None:
            return None
        node = strip(inner)
    if node.type == "binary_expression":
        left = node.child_by_field_name("left")
        return None if left is None else element_type(code, left)
    if node.type == "call_expression":
        return _template_type(code.text(node))
    if node.type != "identifier":
        return None
    declared = code.declaration(node)
    if declared is None:
        return None
    if declared.is_pointer or declared.is_array:
        if declared.type != "auto":
            return declared.type
    elif (wrapped := _WRAPPED.match(declared.type)) is not None:
        return wrapped[1]
    if declared.initial is None:
        return None
    return _template_type(code.text(declared.initial)) or element_type(code, declared.initial)


def _template_type(text: str) -> str | None:
    found = _TEMPLATE.search(text)
    return None if found is None else found[1]


def _literal_type(text: str) -> str | None:
    if text.lower().startswith("0x") and "p" not in text.lower():
        return "int"
    if re.fullmatch(r"[\d']+[uUlLzZ]*", text):
        return "int"
    return "float" if text[-1] in "fF" else "double" if text[-1] not in "lL" else None


def _common(code: Code, dependence: Dependence, left: Node, right: Node) -> str | None:
    """Of two operands: the floating type before the integer one; two different floating types give the wider."""
    types = {expression_type(code, dependence, left), expression_type(code, dependence, right)}
    if None in types:
        return None
    floating = {kind for kind in types if kind is not None and not is_integer(kind)}
    if len(floating) == 1:
        return floating.pop()
    if not floating:
        return "int64_t" if len(types) > 1 else types.pop()
    return "double" if "double" in floating else None


def _call_type(code: Code, dependence: Dependence, node: Node) -> str | None:
    function = node.child_by_field_name("function")
    given = arguments(node)
    if function is None:
        return None
    text = code.text(function)
    if (cast := re.fullmatch(r"static_cast<\s*([\w: ]+?)\s*>", text)) is not None:
        return cast[1]
    if function.type == "primitive_type" or text in ("scalar_t", "int64_t", "size_t", "T", "acc_t"):
        return text
    if (item := re.search(r"\bitem<\s*([\w:]+)\s*>$", text)) is not None:
        return item[1]
    name = dependence.name_of(node)
    if name is not None and name.endswith("f") and name[:-1] in _SAME_TYPE:
        return "float"
    if name in _SAME_TYPE and given and not dependence.is_defined_here(node):
        kinds = {expression_type(code, dependence, argument) for argument in given}
        overloaded = text.startswith("std::") or name in ("min", "max", "clamp") or code.has_overloaded_math
        return (kinds.pop() if len(kinds) == 1 else None) if overloaded else "double"
    for owner, definition in code.functions(name or ""):
        returns = definition.child_by_field_name("type")
        return None if returns is None else owner.text(returns)
    return None


def is_integer(kind: str) -> bool:
    return all(word.removeprefix("std::") in INTEGER_TYPES for word in kind.split())
