"""What the text alone tells of a file; a body is analysed again only where it changed."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from kernel_lsp.domain import Features, Function, Span
from kernel_lsp.source.body import BodyFeatures, Surroundings, analyse
from kernel_lsp.source.declarations import Declarations, declarations
from kernel_lsp.source.kinds import UNKNOWN, ValueType, value_type
from kernel_lsp.source.parse import ParsedSource

MAX_SYNTAX_ERRORS = 100

_DOUBLE_MACRO = re.compile(r"\(?\s*[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?\s*\)?")
_C_MATH_HEADERS = re.compile(r"[<\"](?:math\.h|Python\.h|torch/|ATen/|c10/|pybind11/)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One function of a file and what its body tells."""

    function: Function
    body: BodyFeatures
    """As analysed: on lines that may have moved since, and with loops counted from 0."""
    lines: int
    """How far down the body has moved since it was analysed."""
    loops: int
    """Loops before it in the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """A body that was analysed, and where it stood then."""

    body: BodyFeatures
    line: int


def parts(parsed: ParsedSource) -> list[Part]:
    """Function after function. Bodies that are the same in an earlier version of the file are the same objects."""
    return _parts(parsed, declarations(parsed))


def features(parsed: ParsedSource) -> Features:
    """Of the whole file."""
    found = declarations(parsed)
    bodies = [part.body.moved(lines=part.lines, loops=part.loops) for part in _parts(parsed, found)]
    return Features(
        functions=tuple(definition.function for definition in found.definitions),
        loops=tuple(item for body in bodies for item in body.loops),
        accesses=tuple(item for body in bodies for item in body.accesses),
        reductions=tuple(item for body in bodies for item in body.reductions),
        doubles=tuple(item for body in bodies for item in body.doubles),
        includes=tuple(found.includes),
        syntax_errors=tuple(syntax_errors(parsed)),
        calls=tuple(item for body in bodies for item in body.calls),
        invariants=tuple(item for body in bodies for item in body.invariants),
    )


def _parts(parsed: ParsedSource, found: Declarations) -> list[Part]:
    around = _surroundings(found)
    facts = _facts(around)
    result: list[Part] = []
    loops = 0
    for definition in found.definitions:
        node = definition.node
        start = parsed.position(node.start_byte)
        text = parsed.data[node.start_byte : node.end_byte]
        told = frozenset((name, facts[name]) for name in facts.keys() & _words(text))
        key = ("body", text, definition.function.qualified_name, start.column, told, around.c_math_is_double)
        known: _Known | None = parsed.memo.get(key)
        if known is None:
            known = _Known(body=analyse(parsed, definition, around), line=start.line)
            parsed.memo.put(key, known)
        lines = start.line - known.line
        result.append(Part(function=definition.function, body=known.body, lines=lines, loops=loops))
        loops += len(known.body.loops)
    return result


def _surroundings(found: Declarations) -> Surroundings:
    aliases = found.aliases
    functions = [definition.function for definition in found.definitions]
    returns: dict[str, ValueType] = {}
    for function in functions:
        result = UNKNOWN if function.is_template else value_type(function.returns, aliases)
        known = returns.setdefault(function.name, result)
        if known != result:
            returns[function.name] = UNKNOWN
    return Surroundings(
        aliases=aliases,
        globals={name: value_type(written, aliases) for name, written in found.constants.items()},
        fields={name: value_type(written, aliases) for name, written in found.fields.items() if written},
        returns=returns,
        changes={function.name: places for function in functions if (places := _changed(function))},
        doubles=frozenset(name for name, value in found.macros.items() if _DOUBLE_MACRO.fullmatch(value)),
        c_math_is_double="std" not in found.usings
        and not any(_C_MATH_HEADERS.match(include) for include in found.includes),
    )


def _changed(function: Function) -> frozenset[int]:
    return frozenset(
        place for place, parameter in enumerate(function.parameters) if "&" in parameter.type and not parameter.is_const
    )


def _facts(around: Surroundings) -> dict[str, tuple[object, ...]]:
    """What the file tells of each name, so that a body is analysed again only if that changed of a name in it."""
    facts: dict[str, tuple[object, ...]] = {}
    for name in around.aliases:
        facts[name] = (value_type(name, around.aliases),)
    for role, known in enumerate((around.globals, around.fields, around.returns, around.changes)):
        for name, fact in known.items():
            facts[name] = (*facts.get(name, ()), role, fact)
    for name in around.doubles:
        facts[name] = (*facts.get(name, ()), "double")
    return facts


_WORD = re.compile(rb"[A-Za-z_]\w*")


@functools.lru_cache(maxsize=2048)
def _words(text: bytes) -> frozenset[str]:
    return frozenset(word.decode() for word in _WORD.findall(text))


_MACRO = re.compile(rb"\b[A-Z][A-Z0-9_]{2,}\b")
_CLOSING = frozenset({")", "]", "}", ";", ">"})


def syntax_errors(parsed: ParsedSource) -> Iterator[Span]:
    """Where the text is no C++, at most `MAX_SYNTAX_ERRORS`.

    Passed over is what may well be right: a line with a macro's name, since what it expands to cannot be seen here,
    and declarations outside of functions that the grammar does not know, as long as their brackets match.
    """
    if parsed.root.has_error:
        yield from itertools.islice(
            (parsed.span(node) for node, in_body in _broken(parsed.root, False) if _is_wrong(parsed, node, in_body)),
            MAX_SYNTAX_ERRORS,
        )


def _broken(node: Node, in_body: bool) -> Iterator[tuple[Node, bool]]:
    for child in node.children:
        if child.is_missing or child.is_error:
            yield child, in_body
        elif child.has_error:
            yield from _broken(child, in_body or child.type == "compound_statement")


def _is_wrong(parsed: ParsedSource, node: Node, in_body: bool) -> bool:
    data, start = parsed.data, node.start_byte
    if node.is_missing and node.type not in _CLOSING and not (in_body and node.type == "identifier"):
        return False  # `= {}` of a default argument lacks a type, says the grammar.
    line = data.rfind(b"\n", 0, start) + 1
    begin = data.rfind(b"\n", 0, max(0, line - 1)) + 1
    if node.is_missing and (parent := node.parent) is not None and parent.type != "translation_unit":
        begin = min(begin, parent.start_byte)
    if _MACRO.search(data[begin : max(node.end_byte, start + 1)]):
        return False
    text = data[start : node.end_byte]
    pairs = ((b"(", b")"), (b"[", b"]"), (b"{", b"}"))
    return in_body or node.is_missing or any(text.count(a) != text.count(b) for a, b in pairs)
