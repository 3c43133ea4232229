"""What a file declares: functions, types, constants, and the blocks that bind functions to Python."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tree_sitter import Node

from kernel_lsp.domain import Function, Parameter, TypeKind
from kernel_lsp.source.kinds import folded, is_const, kind_of
from kernel_lsp.source.nodes import TextOf, unwrapped
from kernel_lsp.source.parse import ParsedSource

BINDING_MACROS = frozenset(
    {"PYBIND11_MODULE", "TORCH_LIBRARY", "TORCH_LIBRARY_FRAGMENT", "TORCH_LIBRARY_IMPL"}
    | {"STABLE_TORCH_LIBRARY", "STABLE_TORCH_LIBRARY_FRAGMENT", "STABLE_TORCH_LIBRARY_IMPL"}
)
"""`MACRO(arguments) { … }` that parses as a function without a result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A function with its place in the tree."""

    function: Function
    node: Node
    """The `function_definition` itself, without template header."""
    body: Node
    in_class: bool
    """A member: not called by its name alone."""
    is_device: bool
    """Runs on the GPU: `__global__` or `__device__`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MacroBlock:
    """`PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { … }` and its like."""

    macro: str
    arguments: tuple[str, ...]
    node: Node
    body: Node


@dataclass(slots=True, kw_only=True)
class Declarations:
    """Of one file, in order of the text."""

    definitions: list[Definition] = field(default_factory=list)
    blocks: list[MacroBlock] = field(default_factory=list)
    includes: list[str] = field(default_factory=list)
    """With quotes or angle brackets."""
    aliases: dict[str, str] = field(default_factory=dict)
    """`typedef` and `using`, name → type as written."""
    fields: dict[str, str | None] = field(default_factory=dict)
    """Member of any class of the file → type; None where two classes disagree."""
    constants: dict[str, str] = field(default_factory=dict)
    """Variable at file level → type as written."""
    macros: dict[str, str] = field(default_factory=dict)
    """Object-like macro → its replacement."""
    prototypes: set[str] = field(default_factory=set)
    """Names of functions declared but not defined."""
    usings: set[str] = field(default_factory=set)
    """`std` of `using namespace std`, `std::exp` of `using std::exp`."""


def declarations(parsed: ParsedSource) -> Declarations:
    """Read every declaration outside function bodies."""
    reader = _Reader(parsed)
    reader.read(parsed.root, _Scope())
    return reader.found


@dataclass(frozen=True, slots=True)
class _Scope:
    names: tuple[str, ...] = ()
    in_class: bool = False
    is_static: bool = False
    is_extern_c: bool = False
    outer: Node | None = None
    """The template or linkage header that the next declaration belongs to."""
    is_template: bool = False


_TRANSPARENT = frozenset(
    {"preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif", "preproc_elifdef", "declaration_list", "ERROR"}
)


class _Reader:
    def __init__(self, parsed: ParsedSource) -> None:
        self.parsed = parsed
        self.text = parsed.text_of
        self.found = Declarations()

    def read(self, parent: Node, scope: _Scope) -> None:
        for node in parent.named_children:
            self.one(node, scope)

    def one(self, node: Node, scope: _Scope) -> None:
        match node.type:
            case "function_definition":
                self.function(node, scope)
            case "preproc_include":
                if (path := node.child_by_field_name("path")) is not None:
                    self.found.includes.append(self.text(path))
            case "template_declaration":
                inner = _Scope(
                    scope.names, scope.in_class, scope.is_static, scope.is_extern_c, scope.outer or node, True
                )
                self.read(node, inner)
            case "linkage_specification":
                value, body = node.child_by_field_name("value"), node.child_by_field_name("body")
                is_c = value is not None and self.text(value) == '"C"'
                if body is not None and body.type == "declaration_list":
                    self.read(body, _Scope(scope.names, scope.in_class, scope.is_static, is_c))
                elif body is not None:
                    self.one(body, _Scope(scope.names, scope.in_class, scope.is_static, is_c, node))
            case "namespace_definition":
                self.namespace(node, scope)
            case "class_specifier" | "struct_specifier" | "union_specifier":
                self.class_body(node, scope)
            case "declaration" | "field_declaration":
                self.declaration(node, scope)
            case "type_definition":
                self.typedef(node)
            case "alias_declaration":
                name, kind = node.child_by_field_name("name"), node.child_by_field_name("type")
                if name is not None and kind is not None:
                    self.found.aliases[self.text(name)] = self.text(kind)
            case "using_declaration":
                words = self.text(node).rstrip("; \n").split()
                self.found.usings.add(words[-1])
            case "preproc_def":
                name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
                if name is not None and value is not None:
                    self.found.macros[self.text(name)] = self.text(value).strip()
            case kind if kind in _TRANSPARENT:
                self.read(node, scope)

    def namespace(self, node: Node, scope: _Scope) -> None:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if body is None:
            return
        names = () if name is None else tuple(part.strip() for part in self.text(name).split("::"))
        self.read(body, _Scope(scope.names + names, False, scope.is_static or name is None, scope.is_extern_c))

    def class_body(self, node: Node, scope: _Scope) -> None:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if body is not None:
            names = scope.names if name is None else (*scope.names, self.text(name))
            self.read(body, _Scope(names, True, scope.is_static, False, None, scope.is_template))

    def declaration(self, node: Node, scope: _Scope) -> None:
        kind = node.child_by_field_name("type")
        if kind is None:
            return
        if kind.type in ("struct_specifier", "class_specifier", "union_specifier"):
            self.class_body(kind, scope)
        for declarator in node.children_by_field_name("declarator"):
            inner, stars, sizes = unwrapped(declarator, self.text)
            if inner is None:
                continue
            if inner.type == "function_declarator":
                name = inner.child_by_field_name("declarator")
                if name is not None and not scope.in_class:
                    self.found.prototypes.add(self.text(name).rpartition("::")[2])
                continue
            name_text = self.text(inner)
            written = self.text(kind) + stars + "*" * len(sizes)
            if not scope.in_class:
                self.found.constants[name_text] = written
            elif self.found.fields.setdefault(name_text, written) != written:
                self.found.fields[name_text] = None

    def typedef(self, node: Node) -> None:
        kind, declarator = node.child_by_field_name("type"), node.child_by_field_name("declarator")
        if kind is None or declarator is None:
            return
        if kind.type in ("struct_specifier", "class_specifier", "union_specifier"):
            self.class_body(kind, _Scope())
        inner, stars, sizes = unwrapped(declarator, self.text)
        if inner is not None and inner.type == "type_identifier":
            self.found.aliases[self.text(inner)] = self.text(kind) + stars + "*" * len(sizes)

    def function(self, node: Node, scope: _Scope) -> None:
        body = node.child_by_field_name("body")
        if body is None:
            return
        start = node.start_byte
        # Most of a keystroke's time would go into reading the other functions' heads again.
        key = ("head", self.parsed.data[start : body.start_byte], frozenset(self.found.aliases.items()))
        head: _Head | None = self.parsed.memo.get(key)
        if head is None:
            head = self._head(node)
            if head is None:
                return
            self.parsed.memo.put(key, head)
        if not head.has_type and not scope.in_class and "::" not in head.written and "operator" not in head.written:
            if head.written in BINDING_MACROS:
                self.found.blocks.append(
                    MacroBlock(macro=head.written, arguments=self._arguments(node), node=node, body=body)
                )
            return
        *qualifiers, name = head.written.split("::")
        span = self.parsed.lines.span
        self.found.definitions.append(
            Definition(
                function=Function(
                    name=name,
                    qualified_name="::".join((*scope.names, *qualifiers, name)),
                    returns=head.returns,
                    returns_kind=head.returns_kind,
                    parameters=head.parameters,
                    span=span(start if scope.outer is None else scope.outer.start_byte, node.end_byte),
                    name_span=span(start + head.name_start, start + head.name_end),
                    body_span=self.parsed.span(body),
                    is_static=scope.is_static or "static" in head.specifiers,
                    is_template=scope.is_template,
                    is_extern_c=scope.is_extern_c or 'extern "C"' in head.specifiers,
                    is_global="__global__" in head.specifiers,
                    is_device="__global__" in head.specifiers
                    or ("__device__" in head.specifiers and "__host__" not in head.specifiers),
                ),
                node=node,
                body=body,
                in_class=scope.in_class or bool(qualifiers),
                is_device="__global__" in head.specifiers or "__device__" in head.specifiers,
            )
        )

    def _head(self, node: Node) -> _Head | None:
        declarator = node.child_by_field_name("declarator")
        inner, stars, _ = unwrapped(declarator, self.text)
        if declarator is None or inner is None or inner.type != "function_declarator":
            return None
        name, parameters = inner.child_by_field_name("declarator"), inner.child_by_field_name("parameters")
        if name is None or parameters is None:
            return None
        returns = _returns(node, inner, declarator, stars, self.text)
        return _Head(
            written=re.sub(r"\s+|<.*>$", "", self.text(name)),
            name_start=name.start_byte - node.start_byte,
            name_end=name.end_byte - node.start_byte,
            has_type=node.child_by_field_name("type") is not None,
            specifiers=frozenset(
                self.text(child) for child in node.children if child.end_byte <= declarator.start_byte
            ),
            returns=returns,
            returns_kind=kind_of(returns, self.found.aliases),
            parameters=tuple(parameter_list(parameters, self.parsed, self.found.aliases)),
        )

    def _arguments(self, node: Node) -> tuple[str, ...]:
        """Of a binding macro, which parse as the types of unnamed parameters."""
        inner, _, _ = unwrapped(node.child_by_field_name("declarator"), self.text)
        parameters = None if inner is None else inner.child_by_field_name("parameters")
        return () if parameters is None else tuple(self.text(child).strip() for child in parameters.named_children)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    """A function up to its body, wherever it stands."""

    written: str
    """Its name, with qualifiers and without template arguments."""
    name_start: int
    name_end: int
    """In bytes from the function's first."""
    has_type: bool
    specifiers: frozenset[str]
    """The words before the declarator."""
    returns: str
    returns_kind: TypeKind
    parameters: tuple[Parameter, ...]


def parameter_list(node: Node, parsed: ParsedSource, aliases: dict[str, str]) -> Iterator[Parameter]:
    text = parsed.text_of
    for child in node.named_children:
        if not child.type.endswith("parameter_declaration"):
            continue
        declarator, default = child.child_by_field_name("declarator"), child.child_by_field_name("default_value")
        inner, _, _ = unwrapped(declarator, text)
        name = inner if inner is not None and inner.type == "identifier" else None
        end = child.end_byte
        if default is not None:
            # The type ends before the `=`.
            end = next(part.start_byte for part in child.children if part.type == "=")
        data = parsed.data
        if name is None:
            written = data[child.start_byte : end]
        else:
            written = data[child.start_byte : name.start_byte] + b" " + data[name.end_byte : end]
        kind = re.sub(r"\s+\[", "[", folded(written.decode("utf-8", "replace")))
        if kind == "void":
            continue
        yield Parameter(
            name="" if name is None else text(name),
            type=kind,
            kind=kind_of(kind, aliases),
            is_const=is_const(kind),
            default=None if default is None else text(default).strip(),
        )


_NOT_OF_THE_TYPE = frozenset(
    {"storage_class_specifier", "attribute_specifier", "attribute_declaration", "virtual", "comment"}
    | {"launch_bounds", "__global__", "__device__", "__host__", "__forceinline__", "__noinline__"}
    | {"ms_call_modifier", "ms_declspec_modifier", "template_parameter_list", "explicit_function_specifier"}
)


def _returns(node: Node, function: Node, declarator: Node, stars: str, text: TextOf) -> str:
    trailing = next((child for child in function.children if child.type == "trailing_return_type"), None)
    if trailing is not None:
        return folded(text(trailing).removeprefix("->"))
    parts = [
        part
        for child in node.children
        if child.end_byte <= declarator.start_byte and child.type not in _NOT_OF_THE_TYPE
        if (part := text(child)) not in ("constexpr", "inline", "static")
    ]
    return folded(" ".join(parts) + stars)
