"""Reading C++ for rewrites: statements, declarations and their uses, and `for` loops with a known range.

A thin layer over the syntax tree that answers what a rewrite asks: which declaration does this name mean, is it
ever changed, what does this loop run over.
"""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tree_sitter import Node

from kernel_lsp.source.parse import ParsedSource, parse


def words(text: str) -> frozenset[str]:
    """The words of a table."""
    return frozenset(text.split())


SCALAR_TYPES = words(
    """
    float double int long short char bool unsigned signed size_t ssize_t ptrdiff_t auto scalar_t acc_t acc_type
    accscalar_t opmath_t T int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t
    """
)

FLOATING_TYPES = frozenset(["float", "double", "scalar_t", "acc_t", "accscalar_t", "opmath_t", "T"])

INTEGER_TYPES = words(
    """
    int long short char bool unsigned signed size_t ssize_t ptrdiff_t int8_t int16_t int32_t int64_t uint8_t uint16_t
    uint32_t uint64_t
    """
)

LOOPS = ("for_statement", "while_statement", "do_statement", "for_range_loop")

_QUALIFIERS = frozenset(("const", "constexpr", "static", "volatile", "register", "inline"))


@dataclass(frozen=True, slots=True)
class Declaration:
    name: str
    type: str
    """Without qualifiers, namespaces `std::` and `at::` and declarator: `float`, `vector<float>`, `Tensor`."""
    identifier: Node
    """The name where it is declared."""
    statement: Node
    """The declaration, or the parameter."""
    scope: Node
    """The node that ends its life: a block, a `for`, a function."""
    initial: Node | None
    is_pointer: bool
    is_reference: bool
    is_array: bool
    is_const: bool
    """`const` or `constexpr` is written before the type; for a pointer this concerns what it points to."""
    is_parameter: bool

    @property
    def key(self) -> str:
        """Unlike for two variables of one name."""
        return f"{self.name}@{self.identifier.start_byte}"

    @property
    def is_scalar(self) -> bool:
        return (
            not (self.is_pointer or self.is_array)
            and bool(words := self.type.split())
            and all(word in SCALAR_TYPES for word in words)
        )

    @property
    def is_floating(self) -> bool:
        return self.is_scalar and self.type in FLOATING_TYPES

    @property
    def is_integer(self) -> bool:
        return self.is_scalar and all(word in INTEGER_TYPES for word in self.type.split())


@dataclass(frozen=True, slots=True)
class ForLoop:
    """`for (T v = lower; v < upper; v += step) body`, its variable changed by nothing else."""

    node: Node
    variable: Declaration
    lower: Node
    upper: Node
    inclusive: bool
    """`<=`."""
    step: Node | int
    body: Node

    @property
    def name(self) -> str:
        return self.variable.name

    @property
    def range(self) -> list[Node]:
        """The expressions that its iterations depend on: start, end, and the step where it is one."""
        return [self.lower, self.upper, *([] if isinstance(self.step, int) else [self.step])]


class Code:
    """One parsed text and the questions about its names."""

    def __init__(self, source: ParsedSource) -> None:
        self.source = source
        self._found: dict[int, Declaration | None] = {}
        """Declaration of the identifier at each byte that was asked for."""
        self._fixed: dict[str, bool] = {}
        """Declaration's key → whether it keeps its value."""

    def text(self, node: Node) -> str:
        return self.source.text_of(node)

    @cached_property
    def _identifiers(self) -> dict[str, list[Node]]:
        found: dict[str, list[Node]] = defaultdict(list)
        for node in walk(self.source.root):
            if node.type == "identifier":
                found[self.text(node)].append(node)
        return found

    @cached_property
    def names(self) -> frozenset[str]:
        """Every word of the text, comments and macros included: a new name must not be among them."""
        return frozenset(re.findall(r"[A-Za-z_]\w*", self.source.text))

    def fresh(self, wanted: str) -> str:
        """`wanted`, or with underscores where the text uses it."""
        while wanted in self.names:
            wanted += "_"
        return wanted

    # --- declarations ---------------------------------------------------------------------------------------

    def declaration(self, identifier: Node) -> Declaration | None:
        """What the name at `identifier` was declared as; None for what the file does not declare."""
        place = identifier.start_byte
        if place not in self._found:
            self._found[place] = self._declaration(identifier)
        return self._found[place]

    def _declaration(self, identifier: Node) -> Declaration | None:
        name = self.text(identifier)
        inner: Node = identifier
        around = identifier.parent
        while around is not None:
            for declared in self._declared_in(around, before=inner):
                if declared.name == name:
                    return declared
            inner, around = around, around.parent
        return None

    def declared(self, statement: Node) -> list[Declaration]:
        """The variables of one declaration statement."""
        scope = statement.parent
        return [] if scope is None else list(self._of_declaration(statement, scope))

    def parameter(self, node: Node) -> Declaration | None:
        """The variable of a parameter's declaration."""
        function = enclosing(node, "function_definition", "lambda_expression")
        if function is None:
            return None
        return self._of_parts(node, function, node.child_by_field_name("declarator"), parameter=True)

    def uses(self, declaration: Declaration, within: Node | None = None) -> list[Node]:
        """Every identifier that means this declaration, its own excluded, in order."""
        region = within or declaration.scope
        return [
            node
            for node in self._identifiers.get(declaration.name, ())
            if region.start_byte <= node.start_byte < region.end_byte
            and node.start_byte != declaration.identifier.start_byte
            and (found := self.declaration(node)) is not None
            and found.key == declaration.key
        ]

    def mentions(self, node: Node, declaration: Declaration) -> bool:
        return bool(self.uses(declaration, node))

    def writes(self, declaration: Declaration, within: Node | None = None) -> list[Node]:
        """The uses that change it, or may: assigned, stepped, or its address or a non-const reference taken."""
        return [use for use in self.uses(declaration, within) if self.is_write(use)]

    def is_fixed(self, declaration: Declaration) -> bool:
        """It keeps the value that it was given."""
        known = self._fixed.get(declaration.key)
        if known is None:
            known = self._fixed[declaration.key] = not self.writes(declaration)
        return known

    def is_write(self, use: Node) -> bool:
        node = use
        while node.parent is not None and node.parent.type == "parenthesized_expression":
            node = node.parent
        parent = node.parent
        if parent is None:
            return False
        if parent.type == "assignment_expression":
            return parent.child_by_field_name("left") == node
        if parent.type == "update_expression":
            return True
        if parent.type == "pointer_expression":
            operator = parent.child_by_field_name("operator")
            return operator is not None and self.text(operator) == "&"
        if parent.type == "init_declarator":
            declarator = parent.child_by_field_name("declarator")
            statement = parent.parent
            return (
                declarator is not None
                and declarator.type == "reference_declarator"
                and statement is not None
                and not re.match(r"(constexpr|const)\b", self.text(statement))
            )
        return False

    def _declared_in(self, around: Node, before: Node) -> Iterator[Declaration]:
        """What `around` declares for a name that stands in its child `before`, the nearest first."""
        if around.type in ("compound_statement", "translation_unit", "declaration_list", "case_statement"):
            for child in reversed(around.named_children):
                if child.start_byte <= before.start_byte and child.type == "declaration":
                    yield from self._of_declaration(child, around)
        elif around.type == "for_statement":
            initializer = around.child_by_field_name("initializer")
            if initializer is not None and initializer.type == "declaration":
                yield from self._of_declaration(initializer, around)
        elif around.type == "for_range_loop":
            declared = self._of_parts(around, around, around.child_by_field_name("declarator"), parameter=False)
            if declared is not None:
                yield declared
        elif around.type in ("function_definition", "lambda_expression"):
            declarator = around.child_by_field_name("declarator")
            for parameter in _parameters(declarator):
                declared = self._of_parts(
                    parameter, around, parameter.child_by_field_name("declarator"), parameter=True
                )
                if declared is not None:
                    yield declared

    def _of_declaration(self, statement: Node, scope: Node) -> Iterator[Declaration]:
        if statement.type != "declaration":
            return
        for declarator in reversed(statement.children_by_field_name("declarator")):
            declared = self._of_parts(statement, scope, declarator, parameter=False)
            if declared is not None:
                yield declared

    def _of_parts(self, statement: Node, scope: Node, declarator: Node | None, parameter: bool) -> Declaration | None:
        type_node = statement.child_by_field_name("type")
        if declarator is None or type_node is None:
            return None
        initial = None
        node: Node | None = declarator
        pointer = reference = array = False
        while node is not None and node.type != "identifier":
            if node.type == "init_declarator":
                initial = node.child_by_field_name("value")
            elif node.type == "pointer_declarator":
                pointer = True
            elif node.type == "reference_declarator":
                reference = True
            elif node.type == "array_declarator":
                array = True
            elif node.type == "function_declarator":
                return None
            node = node.child_by_field_name("declarator") or next(
                (c for c in node.named_children if c.type.endswith("declarator") or c.type == "identifier"), None
            )
        if node is None:
            return None
        head = self.source.data[statement.start_byte : declarator.start_byte].decode()
        words = [re.sub(r"^(::)?(std|at|torch|c10)::", "", word) for word in self.text(type_node).split()]
        return Declaration(
            name=self.text(node),
            type=" ".join(word for word in words if word not in _QUALIFIERS),
            identifier=node,
            statement=statement,
            scope=scope,
            initial=initial,
            is_pointer=pointer or (parameter and array),
            is_reference=reference,
            is_array=array and not parameter,
            is_const=re.search(r"\b(const|constexpr)\b", head) is not None,
            is_parameter=parameter,
        )

    # --- loops ----------------------------------------------------------------------------------------------

    def loop(self, node: Node) -> ForLoop | str:
        """The counted loop at a `for` statement, or why it is not one."""
        initializer = node.child_by_field_name("initializer")
        condition = node.child_by_field_name("condition")
        update = node.child_by_field_name("update")
        body = node.child_by_field_name("body")
        if node.type != "for_statement" or None in (initializer, condition, update, body):
            return "the loop has no start, end or step"
        assert initializer is not None
        assert condition is not None
        assert update is not None
        assert body is not None
        if initializer.type != "declaration":
            return "the loop's variable is declared outside it"
        declared = list(self._of_declaration(initializer, node))
        if len(declared) != 1 or declared[0].initial is None or not declared[0].is_scalar:
            return "the loop has more than one variable or none"
        variable = declared[0]
        assert variable.initial is not None
        upper = self._upper(condition, variable)
        step = self._step(update, variable)
        if upper is None or step is None:
            return f"the end or the step of `{variable.name}` is not plain"
        changed = [use for use in self.writes(variable) if body.start_byte <= use.start_byte < body.end_byte]
        if changed:
            return f"`{variable.name}` is changed in the loop's body"
        return ForLoop(
            node=node,
            variable=variable,
            lower=variable.initial,
            upper=upper[0],
            inclusive=upper[1],
            step=step,
            body=body,
        )

    def _upper(self, condition: Node, variable: Declaration) -> tuple[Node, bool] | None:
        if condition.type != "binary_expression":
            return None
        operator = self.text(_field(condition, "operator"))
        left, right = _field(condition, "left"), _field(condition, "right")
        if operator in ("<", "<=", "!=") and self.text(left) == variable.name:
            return right, operator == "<="
        if operator in (">", ">=") and self.text(right) == variable.name:
            return left, operator == ">="
        return None

    def _step(self, update: Node, variable: Declaration) -> Node | int | None:
        if update.type == "update_expression" and self.text(update) in (f"++{variable.name}", f"{variable.name}++"):
            return 1
        if update.type == "assignment_expression" and self.text(_field(update, "left")) == variable.name:
            if self.text(_field(update, "operator")) == "+=":
                return _field(update, "right")
            right = _field(update, "right")
            if right.type == "binary_expression" and self.text(_field(right, "left")) == variable.name:
                return _field(right, "right") if self.text(_field(right, "operator")) == "+" else None
        return None

    def loops(self, within: Node | None = None) -> list[Node]:
        """Every `for` statement with an end, outer before inner."""
        return [node for node in walk(within or self.source.root) if node.type == "for_statement"]

    @cached_property
    def has_overloaded_math(self) -> bool:
        """`exp(x)` of a float gives a float: `<math.h>`, which torch's headers bring in, overloads the C functions."""
        return re.search(rb'#\s*include\s*[<"](math\.h|torch/|ATen/|c10/)', self.source.data) is not None

    # --- functions ------------------------------------------------------------------------------------------

    def functions(self, name: str) -> list[tuple[Code, Node]]:
        """Definitions of functions of that name, in this text or in a header that it includes by a relative path."""
        found = [(self, node) for node in self._definitions if self.function_name(node) == name]
        for header in self._headers:
            found += header.functions(name)
        return found

    @cached_property
    def _definitions(self) -> list[Node]:
        return [node for node in walk(self.source.root) if node.type == "function_definition"]

    def function_name(self, definition: Node) -> str | None:
        """Without namespaces."""
        node = definition.child_by_field_name("declarator")
        while node is not None and node.type not in ("identifier", "qualified_identifier"):
            node = node.child_by_field_name("declarator") or next(
                (c for c in node.named_children if c.type.endswith("declarator")), None
            )
        return None if node is None else self.text(node).rpartition("::")[2]

    @cached_property
    def _headers(self) -> list[Code]:
        found = []
        for node in self.source.root.named_children:
            path = node.child_by_field_name("path") if node.type == "preproc_include" else None
            if path is None or path.type != "string_literal":
                continue
            header = self.source.path.parent / self.text(path).strip('"')
            with contextlib.suppress(OSError, UnicodeDecodeError):
                if header != self.source.path:
                    found.append(Code(parse(header, header.read_bytes().decode("utf-8"))))
        return found


def walk(node: Node) -> Iterator[Node]:
    """`node` and all below it, in the order of the text."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(current.named_children))


def statements(body: Node) -> list[Node]:
    """The statements of a block, or the one that stands in its place; comments left out."""
    if body.type != "compound_statement":
        return [body]
    return [child for child in body.named_children if child.type != "comment"]


def enclosing(node: Node, *kinds: str) -> Node | None:
    """The nearest node around `node` of one of the kinds."""
    around = node.parent
    while around is not None and around.type not in kinds:
        around = around.parent
    return around


def enclosing_loops(node: Node, until: Node | None = None) -> list[Node]:
    """The `for` statements around `node` within one function, innermost first; `until` is the last one looked at."""
    found = []
    around = node.parent
    while around is not None and around.type != "function_definition":
        if around.type in LOOPS:
            found.append(around)
        if around == until:
            break
        around = around.parent
    return found


def is_within(node: Node, region: Node) -> bool:
    return region.start_byte <= node.start_byte and node.end_byte <= region.end_byte


def strip(node: Node) -> Node:
    """Without the parentheses around it."""
    while node.type == "parenthesized_expression" and node.named_children:
        node = node.named_children[0]
    return node


def arguments(call: Node) -> list[Node]:
    given = call.child_by_field_name("arguments")
    return [] if given is None else [child for child in given.named_children if child.type != "comment"]


def indices(subscript: Node) -> list[Node]:
    """The index expressions of `a[i]`, under either grammar's name for them."""
    listed = subscript.child_by_field_name("indices")
    if listed is not None:
        return [child for child in listed.named_children if child.type != "comment"]
    single = subscript.child_by_field_name("index")
    return [] if single is None else [single]


def _field(node: Node, name: str) -> Node:
    child = node.child_by_field_name(name)
    assert child is not None, f"{node.type} has no {name}"
    return child


def _parameters(declarator: Node | None) -> list[Node]:
    while declarator is not None:
        listed = declarator.child_by_field_name("parameters")
        if listed is not None:
            return [
                child
                for child in listed.named_children
                if child.type in ("parameter_declaration", "optional_parameter_declaration")
            ]
        declarator = declarator.child_by_field_name("declarator") or next(
            (c for c in declarator.named_children if c.type.endswith("declarator")), None
        )
    return []
