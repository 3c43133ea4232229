"""One walk over a function's body: its loops, array accesses, reductions, precision, calls and loop-invariant work.

Every expression is visited once and yields a `Value`: its type, and in which of the loops around it varies.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import tree_sitter
from tree_sitter import Node, QueryCursor

from kernel_lsp.domain import Access, Call, DoubleUse, Invariant, Language, Loop, Position, Reduction, Span
from kernel_lsp.source import affine, reductions
from kernel_lsp.source.affine import Polynomial, names_in, polynomial
from kernel_lsp.source.declarations import Definition
from kernel_lsp.source.kinds import BOOL, DOUBLE, FLOAT, INT, UNKNOWN, ValueType, folded, is_integer, value_type
from kernel_lsp.source.nest import Nest, OpenLoop, Variable, base_name
from kernel_lsp.source.nodes import (
    called,
    comparison,
    header_end,
    operands,
    operator,
    subscripts,
    unbracketed,
    unwrapped,
)
from kernel_lsp.source.parse import ParsedSource, grammar
from kernel_lsp.source.precision import Constant, Precision, Value
from kernel_lsp.source.vocabulary import (
    ABSOLUTE,
    ACCESSORS,
    CASTS,
    CHANGING_METHODS,
    DATA,
    DOUBLE_LITERAL,
    DOUBLE_MACRO,
    EXTREME,
    FLOAT_LITERAL,
    FLOAT_MACROS,
    MATH,
    MATH_CALL,
    OMP_COLLAPSE,
    OMP_PRAGMA,
    OMP_SHARES_LOOP,
    PARALLEL_CALL,
    PURE_METHODS,
    SIZES,
    template_arguments,
    without_templates,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the rest of the file tells about names in a body."""

    aliases: Mapping[str, str]
    globals: Mapping[str, ValueType]
    fields: Mapping[str, ValueType]
    returns: Mapping[str, ValueType]
    """Function of this file → its result."""
    changes: Mapping[str, frozenset[int]]
    """Function of this file → places of the parameters that it may write: non-const references."""
    doubles: frozenset[str]
    """Macros that stand for a literal of type double."""
    c_math_is_double: bool
    """`exp(x)` of a float is C's, for double. With `<math.h>`, which torch's headers bring in, it is overloaded."""


@dataclass(slots=True, eq=False)
class BodyFeatures:
    """As in `Features`, of one function. Loop ids begin at 0."""

    loops: list[Loop] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    reductions: list[Reduction] = field(default_factory=list)
    doubles: list[DoubleUse] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    invariants: list[Invariant] = field(default_factory=list)

    def moved(self, *, lines: int, loops: int) -> BodyFeatures:
        """The same body further down (`lines`), with more loops before it in the file."""
        if not lines and not loops:
            return self
        at = functools.partial(_span_moved, lines)
        to = functools.partial(_id_moved, loops)
        return BodyFeatures(
            loops=[
                replace(
                    loop,
                    id=loop.id + loops,
                    parent=to(loop.parent),
                    span=at(loop.span),
                    header_span=at(loop.header_span),
                    body_span=at(loop.body_span),
                )
                for loop in self.loops
            ],
            accesses=[replace(item, span=at(item.span), loop=to(item.loop)) for item in self.accesses],
            reductions=[replace(item, span=at(item.span), loop=item.loop + loops) for item in self.reductions],
            doubles=[replace(item, span=at(item.span), loop=to(item.loop)) for item in self.doubles],
            calls=[replace(item, span=at(item.span), loop=to(item.loop)) for item in self.calls],
            invariants=[replace(item, span=at(item.span), loop=item.loop + loops) for item in self.invariants],
        )


def _span_moved(lines: int, span: Span) -> Span:
    start, end = span.start, span.end
    return Span(
        start=Position(line=start.line + lines, column=start.column),
        end=Position(line=end.line + lines, column=end.column),
    )


def _id_moved(loops: int, loop: int | None) -> int | None:
    return None if loop is None else loop + loops


def analyse(parsed: ParsedSource, definition: Definition, around: Surroundings) -> BodyFeatures:
    return _Walk(parsed, definition, around).run()


@functools.cache
def _writes(language: Language) -> tree_sitter.Query:
    query: tree_sitter.Query = tree_sitter.Query(
        grammar(language),
        """
        (assignment_expression left: (identifier) @name)
        (update_expression argument: (identifier) @name)
        (pointer_expression "&" argument: (identifier) @name)
        (assignment_expression left: (subscript_expression) @element)
        (update_expression argument: (subscript_expression) @element)
        (assignment_expression left: (pointer_expression) @element)
        """,
    )
    return query


@dataclass(frozen=True, slots=True)
class _Header:
    """What a loop's header says; without `variable` the loop is not countable."""

    declared: tuple[tuple[str, ValueType], ...] = ()
    visited: tuple[Node, ...] = ()
    """Parts that run with every step."""
    variable: str | None = None
    lower: str | None = None
    upper: str | None = None
    step: str | None = None


_ANY_HEADER = _Header()
_UNKNOWN = Value()
_CONSTANT = Value(is_constant=True)
_INT_CONSTANT = Value(INT, is_constant=True)
_TRUTH = Value(BOOL, is_constant=True)
_COMPARISONS = frozenset({"<", ">", "<=", ">=", "==", "!=", "&&", "||", "<=>"})
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_LOOPS = frozenset({"for_statement", "for_range_loop", "while_statement", "do_statement"})
_ELEMENTS = frozenset({"subscript_expression", "pointer_expression"})
_LISTS = frozenset({"argument_list", "initializer_list"})
_COMPUTED = frozenset({"lambda_expression", "parenthesized_expression", "subscript_expression", "call_expression"})
"""What is called has no name of its own."""
_NO_INDEX = frozenset({"lambda_expression", "conditional_expression", "new_expression", "string_literal"})


class _Walk:
    def __init__(self, parsed: ParsedSource, definition: Definition, around: Surroundings) -> None:
        self.parsed = parsed
        self.text = parsed.text_of
        self.span = parsed.span
        self.around = around
        self.aliases = around.aliases
        self.definition = definition
        self.function = definition.function.qualified_name
        self.found = BodyFeatures()
        self.loops: list[Loop | None] = []
        self.nest = self._nest()
        self.open = self.nest.loops
        self.precision = Precision(parsed)
        self.is_parallel = definition.is_device
        self.results = [value_type(definition.function.returns, around.aliases)]
        """Result type of the function and of the lambdas around this place."""
        self.pragma = ""
        """An OpenMP directive that the next statement stands under."""
        self.simd_levels = 0
        """Number of further loops that a `simd` directive covers."""

    def _nest(self) -> Nest:
        written: dict[str, list[int]] = {}
        stored: dict[str, list[int]] = {}
        captures = QueryCursor(_writes(self.parsed.language)).captures(self.definition.node)
        for node in captures.get("name", ()):
            written.setdefault(self.text(node), []).append(node.start_byte)
        for node in captures.get("element", ()):
            stored.setdefault(base_name(self.text(node)), []).append(node.start_byte)
        for positions in (*written.values(), *stored.values()):
            positions.sort()
        return Nest(written, stored)

    def run(self) -> BodyFeatures:
        self.nest.enter()
        for parameter in self.definition.function.parameters:
            if parameter.name:
                kind = value_type(re.sub(r"\[[^\]]*\]", "*", parameter.type), self.aliases)
                self.nest.declare(parameter.name, Variable(kind, is_const=parameter.is_const))
        self.visit(self.definition.body)
        self.nest.leave()
        self.found.loops = [loop for loop in self.loops if loop is not None]
        self.found.doubles = sorted(self.precision.uses, key=lambda use: use.span)
        return self.found

    @property
    def here(self) -> int | None:
        """The innermost loop."""
        return self.open[-1].id if self.open else None

    # --- dispatch -------------------------------------------------------------------------------------------

    def visit(self, node: Node) -> Value:
        handler = _HANDLERS.get(node.type)
        return self.children(node) if handler is None else handler(self, node)

    def children(self, node: Node) -> Value:
        return _joined([self.visit(child) for child in node.named_children])

    def skip(self, node: Node) -> Value:
        return _CONSTANT

    def name_elsewhere(self, node: Node) -> Value:
        """`ns::constant`: not followed."""
        return _UNKNOWN

    # --- statements -----------------------------------------------------------------------------------------

    def block(self, node: Node) -> Value:
        self.nest.enter()
        self.sequence(node)
        self.nest.leave()
        return _UNKNOWN

    def sequence(self, node: Node) -> Value:
        """Statements in a row, of which an OpenMP directive concerns the next."""
        for child in node.named_children:
            kind = child.type
            if kind == "preproc_call":
                text = self.text(child)
                if OMP_PRAGMA.match(text):
                    self.pragma = text
            elif kind in _LOOPS or kind == "comment":
                self.visit(child)
            else:
                pragma, self.pragma = self.pragma, ""
                before = self.is_parallel
                self.is_parallel = before or "parallel" in pragma
                self.visit(child)
                self.is_parallel = before
        return _UNKNOWN

    def declaration(self, node: Node) -> Value:
        kind = node.child_by_field_name("type")
        if kind is None:
            return self.children(node)
        written = self.text(kind)
        is_const = any(child.type == "type_qualifier" for child in node.children)
        for declarator in node.children_by_field_name("declarator"):
            self._declarator(declarator, written, is_const)
        return _UNKNOWN

    def _declarator(self, declarator: Node, written: str, is_const: bool) -> None:
        inner, stars, sizes = unwrapped(declarator, self.text)
        if inner is None:
            return
        initial = declarator.child_by_field_name("value") if declarator.type == "init_declarator" else None
        mark = len(self.precision.uses)
        value = _CONSTANT if initial is None else self._initial(initial)
        depth, everywhere = len(self.open), self.nest.all_open
        if inner.type == "structured_binding_declarator":
            for child in inner.named_children:
                self.nest.declare(self.text(child), Variable(UNKNOWN, depth, everywhere))
            return
        kind = value_type(written + stars, self.aliases, tuple(folded(size) for size in sizes))
        if inner.type == "function_declarator":
            # `Tensor y(x);` parses as a function's declaration where `x` could be a type.
            name = inner.child_by_field_name("declarator")
            if name is not None:
                self.nest.declare(self.text(name), Variable(kind, depth, everywhere))
            return
        name_text = self.text(inner)
        if kind.name == "" and kind.depth == 0:
            kind = value.type
        else:
            self.precision.store(kind, value, mark, inner)
        is_element = (
            "&" in stars and initial is not None and initial.type in ("subscript_expression", "pointer_expression")
        )
        variable = Variable(kind, depth, value.varies, is_element=is_element, is_const=is_const)
        if sizes:
            variable.varies = 0  # It stands in one place of the stack.
        elif not is_element and (initial is None or self.nest.is_written(name_text)):
            variable.varies = everywhere
        elif initial is not None:
            variable.definition = self._meaning(kind, value, initial)
        self.nest.declare(name_text, variable)

    def _initial(self, node: Node) -> Value:
        """`= e`, `(e)` or `{e}`."""
        if node.type not in _LISTS:
            return self.visit(node)
        values = [self.visit(child) for child in operands(node)]
        return values[0] if len(values) == 1 else _joined(values)

    def _meaning(self, kind: ValueType, value: Value, initial: Node) -> Polynomial | None:
        """What an integer or a pointer that is set once stands for; None where its own name says as much."""
        if not (kind.depth or kind.is_integer or kind.name == "") or initial.type in _NO_INDEX:
            return None
        if kind.layout == "accessor":
            return self._row(initial)
        if not kind.depth and not value.varies:
            return None
        text = self.text(initial)
        meaning = self.nest.meaning(text[1:-1] if initial.type in _LISTS else text)
        if len(meaning) == 1:
            ((monomial, _),) = meaning.items()
            if len(monomial) == 1 and not monomial[0].isidentifier():
                return None
        return meaning

    def _row(self, initial: Node) -> Polynomial | None:
        """`auto row = a[i]` of an accessor."""
        base, indices = subscripts(initial)
        if not indices or base.type != "identifier":
            return None
        name = self.text(base)
        variable = self.nest.names.get(name)
        return None if variable is None else self.nest.address(name, variable.type, [self._index(i) for i in indices])

    def returned(self, node: Node) -> Value:
        for child in node.named_children:
            mark = len(self.precision.uses)
            self.precision.store(self.results[-1], self.visit(child), mark)
        return _UNKNOWN

    def condition(self, node: Node) -> Value:
        self.nest.enter()
        self.children(node)
        if self.open and (found := reductions.conditional(node, self.text)) is not None:
            target, sign = found
            self._reduction(target, sign, node, _UNKNOWN)
        self.nest.leave()
        return _UNKNOWN

    # --- loops ----------------------------------------------------------------------------------------------

    def loop(self, node: Node) -> Value:
        body = node.child_by_field_name("body")
        if body is None:
            return self.children(node)
        parallel_before, simd_before = self.is_parallel, self.simd_levels
        self._directed()
        is_simd = self.simd_levels > 0
        self.nest.enter()
        header = _HEADERS[node.type](self, node) if node.type in _HEADERS else _ANY_HEADER
        if header.variable is not None and self.nest.is_written_between(
            header.variable, body.start_byte, body.end_byte
        ):
            # The body moves it too, so its steps are not those of the header.
            header = _Header(declared=header.declared, visited=header.visited)
        current = self._opened(node, header)
        for part in header.visited:
            self.visit(part)
        self.simd_levels = max(0, self.simd_levels - 1)
        self.visit(body)
        if node.type == "do_statement" and (test := node.child_by_field_name("condition")) is not None:
            self.visit(test)
        self.nest.close_loop()
        self.precision.loop = self.here
        self.nest.leave()
        self.loops[current.id] = Loop(
            id=current.id,
            function=self.function,
            parent=self.here,
            span=self.span(node),
            header_span=self.parsed.lines.span(node.start_byte, header_end(node, body)),
            body_span=self.span(body),
            variable=header.variable,
            lower=header.lower,
            upper=header.upper,
            step=header.step,
            is_parallel=self.is_parallel,
            is_innermost=current.is_innermost,
            declares=tuple(current.declares),
            assigns=tuple(current.assigns),
            is_simd=is_simd,
        )
        self.is_parallel, self.simd_levels = parallel_before, simd_before
        return _UNKNOWN

    def _directed(self) -> None:
        """Take in the OpenMP directive before a loop."""
        pragma, self.pragma = self.pragma, ""
        if not pragma:
            return
        if OMP_SHARES_LOOP.search(pragma) or "parallel" in pragma:
            self.is_parallel = True
        if "simd" in pragma:
            collapse = OMP_COLLAPSE.search(pragma)
            self.simd_levels = int(collapse[1]) if collapse else 1

    def _opened(self, node: Node, header: _Header) -> OpenLoop:
        """Open the loop and bind the names of its header."""
        if self.open:
            self.open[-1].is_innermost = False
        lower = None if header.lower is None else self.nest.meaning(header.lower)
        varies = 0 if lower is None else self.nest.polynomial_varies(lower) & self.nest.all_open
        current = OpenLoop(
            id=len(self.loops),
            depth=len(self.open),
            start=node.start_byte,
            end=node.end_byte,
            variable=header.variable,
        )
        self.loops.append(None)
        self.open.append(current)
        self.precision.loop = current.id
        own = 1 << current.depth
        for name, kind in header.declared:
            is_counter = name == header.variable
            bits = own | (varies if is_counter else self.nest.all_open)
            self.nest.declare(name, Variable(kind, current.depth, bits, lower=lower if is_counter else None))
        if header.variable is not None and all(name != header.variable for name, _ in header.declared):
            # `for (i = 0; …)` with `i` from outside: every loop around it is left with another `i`.
            outer = self.nest.names.get(header.variable)
            self.nest.assigned(header.variable, inside=False)
            kind = INT if outer is None else outer.type
            self.nest.rebind(header.variable, Variable(kind, current.depth, own | varies, lower=lower))
        return current

    def for_header(self, node: Node) -> _Header:
        initial, test, step = (node.child_by_field_name(name) for name in ("initializer", "condition", "update"))
        declared: list[tuple[str, ValueType]] = []
        starts: dict[str, Node] = {}
        if initial is not None and initial.type == "declaration":
            kind_node = initial.child_by_field_name("type")
            written = "" if kind_node is None else self.text(kind_node)
            for declarator in initial.children_by_field_name("declarator"):
                inner, stars, _ = unwrapped(declarator, self.text)
                value_node = declarator.child_by_field_name("value")
                value = _CONSTANT if value_node is None else self.visit(value_node)
                if inner is not None and inner.type == "identifier":
                    kind = value_type(written + stars, self.aliases)
                    declared.append((self.text(inner), value.type if kind.name == "" else kind))
                    if value_node is not None:
                        starts[self.text(inner)] = value_node
        elif initial is not None and initial.type == "assignment_expression" and operator(initial) == "=":
            left, right = initial.child_by_field_name("left"), initial.child_by_field_name("right")
            if left is not None and right is not None:
                self.visit(right)
                starts[self.text(left)] = right
        elif initial is not None:
            self.visit(initial)
        header = _Header(declared=tuple(declared), visited=tuple(part for part in (test, step) if part is not None))
        return header if test is None or step is None else self._counted(header, starts, test, step)

    def _counted(self, header: _Header, starts: Mapping[str, Node], test: Node, step: Node) -> _Header:
        """With variable and bounds, where the header counts upwards."""
        compared = comparison(test)
        if compared is None:
            return header
        left, sign, right = compared
        if self.text(left) not in starts:
            left, sign, right = right, _MIRRORED.get(sign, sign), left
        name = self.text(left)
        by = self._step(step, name)
        if name not in starts or by is None or sign not in ("<", "<=", "!="):
            return header
        upper = self.text(right)
        if name in names_in(upper):
            return header
        return _Header(
            declared=header.declared,
            visited=header.visited,
            variable=name,
            lower=self.text(starts[name]),
            upper=_one_more(upper) if sign == "<=" else upper,
            step=by,
        )

    def _step(self, node: Node, name: str) -> str | None:
        """`c` of `i += c`, `i = i + c`, `i++`; None where it is no step upwards as far as can be seen."""
        if node.type == "update_expression":
            argument = node.child_by_field_name("argument")
            is_up = argument is not None and self.text(argument) == name and operator(node) == "++"
            return "1" if is_up else None
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if node.type != "assignment_expression" or left is None or right is None or self.text(left) != name:
            return None
        sign = operator(node)
        if sign == "+=":
            by = self.text(right)
        elif sign == "=":
            by = affine.text(affine.add(polynomial(self.text(right)), {(name,): 1}, -1))
        else:
            return None
        value = polynomial(by)
        if name in names_in(by) or (value.keys() <= {()} and value.get((), 0) <= 0):
            return None
        return by

    def range_header(self, node: Node) -> _Header:
        over, kind_node = node.child_by_field_name("right"), node.child_by_field_name("type")
        inner, stars, _ = unwrapped(node.child_by_field_name("declarator"), self.text)
        value = _UNKNOWN if over is None else self.visit(over)
        if inner is None or over is None:
            return _ANY_HEADER
        if inner.type != "identifier":
            return _Header(declared=tuple((self.text(child), UNKNOWN) for child in inner.named_children))
        name = self.text(inner)
        bounds = self._irange(over)
        if bounds is not None:
            return _Header(declared=((name, INT),), variable=name, lower=bounds[0], upper=bounds[1], step="1")
        kind = value_type(("" if kind_node is None else self.text(kind_node)) + stars, self.aliases)
        return _Header(declared=((name, value.type.element() if kind.name == "" else kind),))

    def _irange(self, node: Node) -> tuple[str, str] | None:
        """The bounds of `c10::irange(n)`."""
        parts = called(node)
        if parts is None or self.text(parts[0]).rpartition("::")[2] != "irange":
            return None
        texts = [self.text(operand) for operand in parts[1]]
        if len(texts) == 1:
            return "0", texts[0]
        return (texts[0], texts[1]) if len(texts) == 2 else None

    def while_header(self, node: Node) -> _Header:
        test = node.child_by_field_name("condition")
        return _Header(visited=() if test is None else (test,))

    # --- values ---------------------------------------------------------------------------------------------

    def identifier(self, node: Node) -> Value:
        name = self.text(node)
        variable = self.nest.names.get(name)
        if variable is not None:
            return Value(variable.type, self.nest.varies(name), name=node)
        if name in self.around.doubles or DOUBLE_MACRO.fullmatch(name):
            return Value(DOUBLE, constants=(Constant(node, name, "literal"),), is_constant=True)
        if name in FLOAT_MACROS:
            return Value(FLOAT, is_constant=True)
        return Value(self.around.globals.get(name, UNKNOWN), self.nest.varies(name), name=node)

    def number(self, node: Node) -> Value:
        text = self.text(node)
        if text.isdigit():
            return _INT_CONSTANT
        if DOUBLE_LITERAL.fullmatch(text):
            return Value(DOUBLE, constants=(Constant(node, text, "literal"),), is_constant=True)
        return Value(FLOAT, is_constant=True) if FLOAT_LITERAL.fullmatch(text) else _INT_CONSTANT

    def truth(self, node: Node) -> Value:
        return _TRUTH

    def bracketed(self, node: Node) -> Value:
        values = [self.visit(child) for child in operands(node)]
        return values[0] if len(values) == 1 else _joined(values)

    def unary(self, node: Node) -> Value:
        argument = node.child_by_field_name("argument")
        if argument is None:
            return self.children(node)
        value = self.visit(argument)
        if operator(node) == "!":
            return Value(BOOL, value.varies, is_constant=value.is_constant)
        return value

    def binary(self, node: Node) -> Value:
        left_node, right_node = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left_node is None or right_node is None:
            return self.children(node)
        mark = len(self.found.invariants)
        left, right = self.visit(left_node), self.visit(right_node)
        sign = operator(node)
        is_constant = left.is_constant and right.is_constant
        if sign in _COMPARISONS:
            self.precision.compare(left, right)
            return Value(BOOL, left.varies | right.varies, is_constant=is_constant)
        value = self.precision.meet(left, right, sign)._replace(is_constant=is_constant)
        if sign in ("/", "%") and not right.is_constant:
            self._invariant(node, value.varies, sign, mark)
        return value

    def ternary(self, node: Node) -> Value:
        test, yes, no = (node.child_by_field_name(name) for name in ("condition", "consequence", "alternative"))
        if test is None or yes is None or no is None:
            return self.children(node)
        varies = self.visit(test).varies
        value = self.precision.choose(self.visit(yes), self.visit(no))
        return value._replace(varies=value.varies | varies)

    def assignment(self, node: Node) -> Value:
        left_node, right_node = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left_node is None or right_node is None:
            return self.children(node)
        sign = operator(node)
        mark = len(self.precision.uses)
        right = self.visit(right_node)
        left = self.target(left_node, reads=sign != "=")
        name = left_node if left_node.type == "identifier" else None
        if sign == "=":
            self.precision.store(left.type, right, mark, name)
        elif left.type.is_double:
            self.precision.store(left.type, right, mark, left.name)
        else:
            mark = len(self.precision.uses)
            self.precision.store(left.type, self.precision.meet(left, right, sign[0]), mark)
        if self.open:
            self._accumulation(node, left_node, sign, right_node, right)
        return Value(left.type, left.varies | right.varies)

    def target(self, node: Node, *, reads: bool) -> Value:
        """What is assigned to."""
        node = unbracketed(node)
        if node.type == "identifier":
            self.nest.assigned(self.text(node))
            return self.identifier(node)
        if node.type == "subscript_expression":
            return self._element(node, reads=reads, writes=True)
        if node.type == "pointer_expression":
            return self._pointee(node, reads=reads, writes=True)
        return self.visit(node)

    def update(self, node: Node) -> Value:
        argument = node.child_by_field_name("argument")
        if argument is None:
            return self.children(node)
        value = self.target(argument, reads=True)
        return Value(value.type, value.varies | self.nest.all_open)

    def pointer(self, node: Node) -> Value:
        """`*p` or `&x`."""
        if operator(node) != "&":
            return self._pointee(node, reads=True, writes=False)
        argument = node.child_by_field_name("argument")
        if argument is None:
            return _UNKNOWN
        if argument.type == "subscript_expression":
            value = self._element(argument, reads=False, writes=False)
            return Value(value.type.pointed_at(), value.varies)
        value = self.visit(argument)
        if argument.type == "identifier" and node.parent is not None and node.parent.type == "argument_list":
            # Whoever is given the address may write there.
            variable = self.nest.names.get(self.text(argument))
            if variable is not None and not variable.is_const:
                self.nest.assigned(self.text(argument))
        return Value(value.type.pointed_at(), self.nest.all_open)

    def member(self, node: Node) -> Value:
        owner, name = node.child_by_field_name("argument"), node.child_by_field_name("field")
        value = _UNKNOWN if owner is None else self.visit(owner)
        kind = UNKNOWN if name is None else self.around.fields.get(self.text(name), UNKNOWN)
        return Value(kind, value.varies)

    def cast(self, node: Node) -> Value:
        kind, operand = node.child_by_field_name("type"), node.child_by_field_name("value")
        if kind is None or operand is None:
            return self.children(node)
        written = self.text(kind)
        return self._converted(node, f"({written})", written, operand)

    def _converted(self, node: Node, shown: str, written: str, operand: Node) -> Value:
        mark = len(self.precision.uses)
        value = self.visit(operand)
        kind = value_type(written, self.aliases)
        if kind.is_float:
            self.precision.store(kind, value, mark)
        if not kind.is_double:
            return Value(kind, value.varies, is_constant=value.is_constant)
        constants = value.constants
        if value.is_float_data:
            self.precision.note(node, shown, "cast")
        elif not value.type.is_double:
            constants = (Constant(node, shown, "cast"),)
        return Value(kind, value.varies, constants, is_constant=value.is_constant)

    def new(self, node: Node) -> Value:
        kind = node.child_by_field_name("type")
        self.children(node)
        name = "" if kind is None else self.text(kind)
        return Value(value_type(name, self.aliases).pointed_at(), self.nest.all_open)

    def size_of(self, node: Node) -> Value:
        return _INT_CONSTANT

    def lambda_(self, node: Node) -> Value:
        self.nest.enter()
        declarator, body = node.child_by_field_name("declarator"), node.child_by_field_name("body")
        result = UNKNOWN
        if declarator is not None:
            parameters = declarator.child_by_field_name("parameters")
            for child in () if parameters is None else parameters.named_children:
                inner, stars, _ = unwrapped(child.child_by_field_name("declarator"), self.text)
                kind = child.child_by_field_name("type")
                if inner is not None and inner.type == "identifier" and kind is not None:
                    written = value_type(self.text(kind) + stars, self.aliases)
                    self.nest.declare(self.text(inner), Variable(written, len(self.open), self.nest.all_open))
            trailing = next((c for c in declarator.children if c.type == "trailing_return_type"), None)
            if trailing is not None:
                result = value_type(self.text(trailing).removeprefix("->"), self.aliases)
        self.results.append(result)
        if body is not None:
            self.visit(body)
        self.results.pop()
        self.nest.leave()
        return Value(varies=self.nest.all_open)

    # --- arrays ---------------------------------------------------------------------------------------------

    def subscript(self, node: Node) -> Value:
        return self._element(node, reads=True, writes=False)

    def _element(self, node: Node, *, reads: bool, writes: bool) -> Value:
        base, index_nodes = subscripts(node)
        if not index_nodes:
            return self.children(node)
        value = self.visit(base)
        varies = value.varies
        for index in index_nodes:
            varies |= self.visit(index).varies
        kind = value.type
        if kind.is_tensor or kind.is_map:
            # A tensor's subscript is a view of it, made by a call; a map's is a search.
            return Value(kind if kind.is_tensor else UNKNOWN, varies)
        array = self.text(base)
        varies |= self.nest.stores_vary(base_name(array))
        if kind.layout == "array" and (local := self.nest.names.get(array)) is not None:
            varies |= (1 << local.depth) - 1  # Filled anew with every step of the loops around it.
        count = len(index_nodes)
        if count >= kind.depth and (reads or writes):
            indices = [self._index(index) for index in index_nodes]
            shape = kind if kind.depth else ValueType(kind.name, count, "pointer")
            self._access(node, (array, "][".join(indices)), self.nest.address(array, shape, indices), reads, writes)
        return Value(kind.element(count), varies)

    def _index(self, node: Node) -> str:
        """Without its brackets."""
        return self.text(node)[1:-1].strip()

    def _pointee(self, node: Node, *, reads: bool, writes: bool) -> Value:
        argument = node.child_by_field_name("argument")
        if argument is None:
            return _UNKNOWN
        value = self.visit(argument)
        kind = value.type
        if kind.depth != 1:
            return Value(kind.element(), value.varies)
        inner = unbracketed(argument)
        array, index = self._base_and_offset(inner)
        self._access(node, (array, index), self.nest.meaning(self.text(inner)), reads, writes)
        return Value(kind.element(), value.varies | self.nest.stores_vary(base_name(array)))

    def _base_and_offset(self, node: Node) -> tuple[str, str]:
        """`p` and `i * n + j` of `p + i * n + j`."""
        left = node
        while left.type == "binary_expression" and operator(left) in ("+", "-"):
            inner = left.child_by_field_name("left")
            if inner is None:
                break
            left = inner
        if left is node:
            return folded(self.text(node)), "0"
        rest = self.parsed.data[left.end_byte : node.end_byte].decode("utf-8", "replace")
        return self.text(left), folded(rest.strip().removeprefix("+"))

    def _access(self, node: Node, written: tuple[str, str], address: Polynomial, reads: bool, writes: bool) -> None:
        self.found.accesses.append(
            Access(
                array=written[0],
                index=written[1],
                span=self.span(node),
                loop=self.here,
                is_read=reads,
                is_write=writes,
                strides=self.nest.strides(address),
            )
        )

    # --- calls ----------------------------------------------------------------------------------------------

    def call(self, node: Node) -> Value:
        parts = called(node)
        if parts is None:
            return self.children(node)
        function, arguments = parts
        if function.type == "field_expression":
            return self._method(node, function, arguments)
        written = self.text(function)
        if len(arguments) == 1 and (kind := self._cast_to(function, written)) is not None:
            return self._converted(node, folded(written), kind, arguments[0])
        if function.type in (
            "lambda_expression",
            "parenthesized_expression",
            "subscript_expression",
            "call_expression",
        ):
            self.visit(function)
            for argument in arguments:
                self.visit(argument)
            return Value(varies=self.nest.all_open)
        name = without_templates(written)
        self.found.calls.append(
            Call(name=name, receiver=None, span=self.span(node), function=self.function, loop=self.here)
        )
        mark = len(self.found.invariants)
        before = self.is_parallel
        self.is_parallel = before or PARALLEL_CALL.fullmatch(name) is not None
        values = [self.visit(argument) for argument in arguments]
        self.is_parallel = before
        self._changed(name, arguments)
        value = self._result(function, name, values)
        math = MATH_CALL.fullmatch(name)
        if math is not None and math["base"] in MATH and not value.is_constant:
            self._invariant(node, value.varies, name, mark)
        return value

    def _cast_to(self, function: Node, written: str) -> str | None:
        """The type that `float(x)`, `static_cast<float>(x)` or `scalar_t(x)` converts to."""
        if function.type == "template_function":
            return template_arguments(written) if written.partition("<")[0].strip() in CASTS else None
        if function.type == "primitive_type" or is_integer(written):
            return written
        is_type = written in self.aliases or written.endswith("_t")
        return written if function.type == "identifier" and is_type else None

    def _changed(self, name: str, arguments: list[Node]) -> None:
        """Variables that a call may write through a reference."""
        places: Iterable[int] = self.around.changes.get(name.rpartition("::")[2], ())
        if name in ("std::swap", "swap"):
            places = range(len(arguments))
        for place in places:
            if place < len(arguments) and arguments[place].type == "identifier":
                self.nest.assigned(self.text(arguments[place]))

    def _result(self, function: Node, name: str, values: list[Value]) -> Value:
        joined = _joined(values)
        if name in ABSOLUTE and len(values) == 1:
            return values[0]
        math = MATH_CALL.fullmatch(name)
        # A function of that name in this file hides the library's.
        if math is not None and name not in self.around.returns:
            value = self._mathematical(function, math, values)
            return value._replace(varies=joined.varies, is_constant=joined.is_constant)
        if EXTREME.fullmatch(name) and len(values) == 2:
            arguments = template_arguments(self.text(function))
            value = (
                Value(value_type(arguments, self.aliases)) if arguments else self.precision.meet(values[0], values[1])
            )
            return value._replace(varies=joined.varies, is_constant=joined.is_constant)
        if "numeric_limits" in name:
            limited = re.search(r"numeric_limits\s*<([^<>]*)>", self.text(function))
            kind = UNKNOWN if limited is None else value_type(limited[1], self.aliases)
            return Value(kind, is_constant=True)
        return Value(self.around.returns.get(name.rpartition("::")[2], UNKNOWN), self.nest.all_open)

    def _mathematical(self, function: Node, math: re.Match[str], values: list[Value]) -> Value:
        """The type of a function of `<cmath>`; where it stands varies with its arguments alone."""
        if math["float"]:
            return Value(FLOAT)
        name = math.group()
        if any(value.is_float_data for value in values):
            if not math["std"] and self.around.c_math_is_double:
                self.precision.note(function, name, "function")
                return Value(DOUBLE, crept=True)
            met = values[0]
            for value in values[1:]:
                met = self.precision.meet(met, value)
            if met.type.is_float and any(value.type.is_integer for value in values):
                # `std::pow(float, int)` is computed in double.
                self.precision.note(function, name, "function")
                return Value(DOUBLE, crept=True)
            return Value(met.type, crept=met.crept, name=met.name)
        if not all(value.type.is_double or value.type.is_integer for value in values):
            return _UNKNOWN
        if any(value.type.is_double and not value.constants for value in values):
            return Value(DOUBLE)
        constants = tuple(constant for value in values for constant in value.constants)
        return Value(DOUBLE, constants=constants or (Constant(function, name, "function"),))

    def _method(self, node: Node, function: Node, arguments: list[Node]) -> Value:
        owner, member = function.child_by_field_name("argument"), function.child_by_field_name("field")
        if owner is None or member is None:
            return self.children(node)
        written = self.text(member)
        name = without_templates(written)
        self.found.calls.append(
            Call(name=name, receiver=self.text(owner), span=self.span(node), function=self.function, loop=self.here)
        )
        receiver = self.visit(owner)
        varies = receiver.varies
        for argument in arguments:
            varies |= self.visit(argument).varies
        if name in CHANGING_METHODS and owner.type == "identifier":
            self.nest.assigned(self.text(owner))
        if name not in PURE_METHODS:
            varies |= self.nest.all_open
        return Value(self._method_type(name, template_arguments(written), receiver.type), varies)

    def _method_type(self, name: str, template: str, receiver: ValueType) -> ValueType:
        if name in SIZES:
            return ValueType("int64_t")
        if name in ("sizes", "strides"):
            return ValueType("int64_t", 1, "pointer")
        if name in DATA:
            return value_type(template, self.aliases).pointed_at() if template else receiver
        if name in ACCESSORS:
            element, _, rest = template.partition(",")
            dimensions = re.match(r"\s*(\d+)", rest)
            if dimensions is not None:
                return ValueType(value_type(element, self.aliases).name, int(dimensions[1]), "accessor")
        if name == "item" and template:
            return value_type(template, self.aliases)
        return receiver if name == "get" else UNKNOWN

    # --- reductions and invariant work ----------------------------------------------------------------------

    def _invariant(self, node: Node, varies: int, operation: str, mark: int) -> None:
        """Note work whose operands the innermost loop does not change, in place of its parts noted since `mark`."""
        if not self.open or varies >> (len(self.open) - 1) & 1:
            return
        del self.found.invariants[mark:]
        self.found.invariants.append(
            Invariant(text=folded(self.text(node)), span=self.span(node), operation=operation, loop=self.open[-1].id)
        )

    def _accumulation(self, node: Node, left: Node, sign: str, right: Node, value: Value) -> None:
        parent = node.parent
        statement = parent if parent is not None and parent.type == "expression_statement" else node
        if sign in ("+=", "-=", "*="):
            if not reductions.mentions(right, reductions.plain(left, self.text), self.text):
                self._reduction(left, sign[0], statement, value)
        elif sign == "=" and (found := reductions.carried(left, right, self.text)) is not None:
            self._reduction(left, found, statement, value)

    def _reduction(self, target: Node, sign: str, statement: Node, value: Value) -> None:
        """Note a reduction, unless its target changes with the innermost loop."""
        target = unbracketed(target)
        inner = self.open[-1]
        own = 1 << inner.depth
        through_memory = False
        if target.type == "identifier":
            name = self.text(target)
            variable = self.nest.names.get(name)
            kind = self.around.globals.get(name, UNKNOWN) if variable is None else variable.type
            if kind.depth or (variable is not None and variable.depth > inner.depth and not variable.is_element):
                return
            if name == inner.variable or (kind.is_integer and sign in ("+", "-", "*") and not value.varies & own):
                return  # It steps evenly, so the compiler knows it from the loop's count.
            through_memory = variable is not None and variable.is_element
            if variable is not None and through_memory and variable.varies & own:
                return
        elif target.type in ("subscript_expression", "pointer_expression"):
            span = self.span(target)
            access = next((access for access in reversed(self.found.accesses) if access.span == span), None)
            if access is None or self._moves(access, inner):
                return
            through_memory = True
            kind = self._element_type(target)
        elif target.type == "field_expression":
            owner, member = target.child_by_field_name("argument"), target.child_by_field_name("field")
            root = None if owner is None else self.nest.names.get(base_name(self.text(owner)))
            if owner is None or member is None or (root is not None and root.depth > inner.depth):
                return
            if owner.type != "identifier" and self.nest.symbol_varies(self.text(owner)) & own:
                return
            kind = self.around.fields.get(self.text(member), UNKNOWN)
        else:
            return
        self.found.reductions.append(
            Reduction(
                target=folded(self.text(target)),
                operator=sign,
                span=self.span(statement),
                loop=inner.id,
                through_memory=through_memory,
                type=kind.name or None,
            )
        )

    def _moves(self, access: Access, inner: OpenLoop) -> bool:
        """The element changes from one step of `inner` to the next, as far as can be seen."""
        if inner.variable is not None:
            return access.strides[0][1] != "0"
        varies = self.nest.polynomial_varies(self.nest.meaning(access.array))
        for index in access.index.split("]["):
            varies |= self.nest.polynomial_varies(self.nest.meaning(index))
        return bool(varies >> inner.depth & 1)

    def _element_type(self, target: Node) -> ValueType:
        base, indices = subscripts(target)
        if not indices:
            argument = target.child_by_field_name("argument")
            base = target if argument is None else unbracketed(argument)
        name = base_name(self.text(base))
        variable = self.nest.names.get(name)
        kind = self.around.globals.get(name, UNKNOWN) if variable is None else variable.type
        return kind.element(max(1, len(indices)))


def _one_more(text: str) -> str:
    """The exclusive bound for `i <= text`."""
    value = polynomial(text)
    return str(value.get((), 0) + 1) if value.keys() <= {()} else f"({text}) + 1"


def _joined(values: list[Value]) -> Value:
    """What several values have in common."""
    varies, is_constant = 0, True
    for value in values:
        varies |= value.varies
        is_constant = is_constant and value.is_constant
    return Value(varies=varies, is_constant=is_constant)


_HEADERS: Mapping[str, Callable[[_Walk, Node], _Header]] = {
    "for_statement": _Walk.for_header,
    "for_range_loop": _Walk.range_header,
    "while_statement": _Walk.while_header,
}

_Handler: TypeAlias = Callable[[_Walk, Node], Value]
_HANDLERS: Mapping[str, _Handler] = {
    "compound_statement": _Walk.block,
    "declaration": _Walk.declaration,
    "if_statement": _Walk.condition,
    "return_statement": _Walk.returned,
    "identifier": _Walk.identifier,
    "number_literal": _Walk.number,
    "unary_expression": _Walk.unary,
    "binary_expression": _Walk.binary,
    "conditional_expression": _Walk.ternary,
    "assignment_expression": _Walk.assignment,
    "update_expression": _Walk.update,
    "pointer_expression": _Walk.pointer,
    "subscript_expression": _Walk.subscript,
    "field_expression": _Walk.member,
    "cast_expression": _Walk.cast,
    "call_expression": _Walk.call,
    "new_expression": _Walk.new,
    "sizeof_expression": _Walk.size_of,
    "lambda_expression": _Walk.lambda_,
    "qualified_identifier": _Walk.name_elsewhere,
    **dict.fromkeys(_LOOPS, _Walk.loop),
    **dict.fromkeys(("true", "false"), _Walk.truth),
    **dict.fromkeys(("parenthesized_expression", "condition_clause"), _Walk.bracketed),
    **dict.fromkeys(("preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif"), _Walk.sequence),
    **dict.fromkeys(("comment", "char_literal", "null", "string_literal", "raw_string_literal"), _Walk.skip),
    **dict.fromkeys(("concatenated_string", "primitive_type", "type_identifier", "type_descriptor"), _Walk.skip),
    **dict.fromkeys(("template_argument_list", "preproc_call", "preproc_def"), _Walk.skip),
}
