"""What `PYBIND11_MODULE` and `TORCH_LIBRARY` blocks bind: Python's name → the C++ function behind it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from kernel_lsp.domain import Function
from kernel_lsp.source.declarations import Declarations, MacroBlock, parameter_list
from kernel_lsp.source.kinds import folded, kind_of
from kernel_lsp.source.parse import ParsedSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    python_name: str
    """`forward`, or `namespace::name` of an operator."""
    target: str | None
    """Name of the C++ function as written, without template arguments; None for a schema alone."""
    function: Function | None
    """The function itself where it is a lambda written in place."""
    is_operator: bool
    """Bound with TORCH_LIBRARY."""
    has_schema: bool
    """False for `m.impl`, which needs a `def` elsewhere."""


def bindings(parsed: ParsedSource, found: Declarations) -> tuple[Binding, ...]:
    """In order of the text; an operator's `def` and `impl` in one file are joined."""
    every = [binding for block in found.blocks for binding in _of_block(parsed, block, found)]
    joined: dict[str, Binding] = {}
    for binding in every:
        known = joined.get(binding.python_name)
        if known is None or known.target is None:
            joined[binding.python_name] = Binding(
                python_name=binding.python_name,
                target=binding.target,
                function=binding.function,
                is_operator=binding.is_operator,
                has_schema=binding.has_schema or (known is not None and known.has_schema),
            )
        elif binding.has_schema and not known.has_schema:
            joined[binding.python_name] = Binding(
                python_name=known.python_name,
                target=known.target,
                function=known.function,
                is_operator=known.is_operator,
                has_schema=True,
            )
    return tuple(joined.values())


_DISPATCH_KEY = re.compile(r"(?:\w+::)*(?:DispatchKey::\w+|k[A-Z]\w*)")
_SCHEMA_NAME = re.compile(r"\s*([\w:]+)")


def _of_block(parsed: ParsedSource, block: MacroBlock, found: Declarations) -> Iterator[Binding]:
    is_operator = "TORCH_LIBRARY" in block.macro
    module = block.arguments[-1] if block.arguments else "m"
    for call in _calls(block.body):
        called, arguments = call.child_by_field_name("function"), call.child_by_field_name("arguments")
        if called is None or arguments is None or called.type != "field_expression":
            continue
        member = called.child_by_field_name("field")
        method = "" if member is None else parsed.text_of(member)
        if method not in ("def", "impl") or _root(called, parsed) != module:
            continue
        operands = [child for child in arguments.named_children if child.type != "comment"]
        name = _string(operands[0], parsed) if operands else None
        match = None if name is None else _SCHEMA_NAME.match(name)
        if match is None:
            continue
        python_name = match[1]
        if is_operator and "::" not in python_name:
            python_name = f"{block.arguments[0]}::{python_name}"
        target = next((node for node in operands[1:] if not _DISPATCH_KEY.fullmatch(parsed.text_of(node))), None)
        lambda_node = None if target is None else _descendant(target, "lambda_expression")
        yield Binding(
            python_name=python_name,
            target=None if target is None or lambda_node is not None else _target(parsed.text_of(target)),
            function=None if lambda_node is None else _lambda(python_name, lambda_node, parsed, found),
            is_operator=is_operator,
            has_schema=method == "def",
        )


def _calls(node: Node) -> Iterator[Node]:
    """Every call, in order of the text, chained ones (`m.def(…).def(…)`) included."""
    for child in node.named_children:
        yield from _calls(child)
    if node.type == "call_expression":
        yield node


def _root(node: Node, parsed: ParsedSource) -> str:
    """`m` of `m.def(…).def`."""
    current: Node | None = node
    while current is not None and current.type in ("field_expression", "call_expression"):
        inner = current.child_by_field_name("argument") or current.child_by_field_name("function")
        current = inner
    return "" if current is None else parsed.text_of(current)


def _string(node: Node, parsed: ParsedSource) -> str | None:
    """A literal's contents, of several in a row joined; also inside a macro such as `TORCH_SELECTIVE_SCHEMA("…")`."""
    if node.type == "string_literal":
        return "".join(parsed.text_of(child) for child in node.named_children if child.type != "comment")
    if node.type == "raw_string_literal":
        content = _descendant(node, "raw_string_content")
        return None if content is None else parsed.text_of(content)
    if node.type in ("concatenated_string", "call_expression", "argument_list"):
        parts = [part for child in node.named_children if (part := _string(child, parsed)) is not None]
        return "".join(parts) if parts else None
    return None


def _descendant(node: Node, kind: str) -> Node | None:
    if node.type == kind:
        return node
    return next((found for child in node.named_children if (found := _descendant(child, kind)) is not None), None)


_TARGET = re.compile(r"(?:::)?((?:[A-Za-z_]\w*\s*::\s*)*[A-Za-z_]\w*)")


def _target(text: str) -> str | None:
    """`ns::f` of `&ns::f<float>`, `TORCH_FN(ns::f)`, `static_cast<Tensor (*)(Tensor)>(&ns::f)`."""
    before = None
    while before != text:
        before, text = text, re.sub(r"<[^<>]*>", "", text)
    inner = text.strip().rstrip(") \n").rpartition("(")[2].rpartition(",")[2].strip().lstrip("&").strip()
    match = _TARGET.fullmatch(inner)
    return None if match is None else re.sub(r"\s+", "", match[1])


def _lambda(name: str, node: Node, parsed: ParsedSource, found: Declarations) -> Function:
    declarator, body = node.child_by_field_name("declarator"), node.child_by_field_name("body")
    parameters = None if declarator is None else declarator.child_by_field_name("parameters")
    trailing = None if declarator is None else _descendant(declarator, "trailing_return_type")
    returns = "auto" if trailing is None else folded(parsed.text_of(trailing).removeprefix("->"))
    return Function(
        name=name.rpartition("::")[2],
        qualified_name=name.rpartition("::")[2],
        returns=returns,
        returns_kind=kind_of(returns, found.aliases),
        parameters=() if parameters is None else tuple(parameter_list(parameters, parsed, found.aliases)),
        span=parsed.span(node),
        name_span=parsed.lines.span(node.start_byte, node.start_byte + 1),
        body_span=parsed.span(node if body is None else body),
        is_static=True,
    )
