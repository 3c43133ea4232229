"""Compute before a loop what is the same in each of its iterations; divide once, then multiply."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tree_sitter import Node

from kernel_lsp.domain import Features, Finding, TextEdit
from kernel_lsp.optimize.dependence import Dependence, Effects, may_be_same
from kernel_lsp.optimize.rewriting import Declined, edit, indent_of, innermost_of, insertion, nest_at, newline, removal
from kernel_lsp.optimize.syntax import Code, ForLoop, arguments, statements, strip, walk
from kernel_lsp.optimize.types import expression_type, is_integer
from kernel_lsp.source.parse import ParsedSource

CHEAP = frozenset(
    ["min", "max", "abs", "fabs", "fabsf", "fmin", "fmax", "fminf", "fmaxf", "static_cast", "size", "data_ptr", "data"]
)
"""Calls that cost no more than the register that would hold their result."""


def rewrite(
    source: ParsedSource, features: Features, finding: Finding | None, parameters: Mapping[str, int]
) -> tuple[TextEdit, ...] | Declined:
    code = Code(source)
    dependence = Dependence(code)
    edits: list[TextEdit] = []
    reason = "the innermost loops compute nothing costly that stays the same"
    for nest in nest_at(code, finding):
        for loop in innermost_of(code, nest):
            effects = dependence.effects(loop.body, loop.node)
            if effects.obstacle is not None:
                reason = effects.obstacle
                continue
            if loop.node.parent is None or loop.node.parent.type != "compound_statement":
                reason = f"the loop over `{loop.name}` stands in no block that could hold the value"
                continue
            edits += _Hoisting(code, dependence, loop, effects).edits(reciprocal=bool(parameters["reciprocal"]))
    return tuple(edits) if edits else Declined(reason)


class _Hoisting:
    """What one loop can have computed before it."""

    def __init__(self, code: Code, dependence: Dependence, loop: ForLoop, effects: Effects) -> None:
        self.code = code
        self.dependence = dependence
        self.loop = loop
        self.effects = effects
        self.before: list[str] = []
        self.moved: set[str] = set()
        """Keys of variables whose declarations go before the loop."""

    def edits(self, *, reciprocal: bool) -> list[TextEdit]:
        edits: list[TextEdit] = []
        moved: list[Node] = []
        for statement in statements(self.loop.body):
            if self._can_move(statement):
                moved.append(statement)
                self.before.append(self.code.text(statement))
                edits.append(removal(self.code, statement))
                self.moved.update(declared.key for declared in self.code.declared(statement))
        named: dict[str, str] = {}
        for statement in statements(self.loop.body):
            if statement in moved:
                continue
            for expression, kind in self._costly(statement, reciprocal=reciprocal):
                edits += self._named(expression, kind, named)
        if not self.before:
            return []
        indent, end = indent_of(self.code, self.loop.node), newline(self.code)
        text = "".join(f"{line}{end}{indent}" for line in self.before)
        return [insertion(self.code, self._start(), text), *edits]

    def _start(self) -> int:
        """Before the loop and the pragmas that belong to it."""
        node = self.loop.node
        before = node.prev_named_sibling
        while before is not None and self.code.text(before).startswith(("#pragma", "_Pragma")):
            node, before = before, before.prev_named_sibling
        return node.start_byte

    def _can_move(self, statement: Node) -> bool:
        """A declaration of what never changes, made of what does not change in the loop, and worth the move."""
        declared = self.code.declared(statement)
        return bool(declared) and all(
            d.initial is not None
            and not d.is_array
            and self.code.is_fixed(d)
            and self._is_invariant(d.initial)
            and any(self._is_costly(node) for node in walk(d.initial))
            for d in declared
        )

    def _costly(self, statement: Node, *, reciprocal: bool) -> Iterator[tuple[Node, str]]:
        """Invariant calls and divisions, outermost first; and divisors of the loop, once as `divide`."""
        stack = [statement]
        while stack:
            node = stack.pop()
            if self._is_costly(node) and self._is_invariant(node):
                yield node, "value"
                continue
            if reciprocal and self._is_division(node) and self._is_invariant(_field(node, "right")):
                yield node, "divide"
                stack.append(_field(node, "left"))
                continue
            stack.extend(reversed(node.named_children))

    def _is_costly(self, node: Node) -> bool:
        if node.type == "call_expression":
            name = self.dependence.name_of(node)
            return bool(arguments(node)) and name not in CHEAP and self.dependence.impurity(node) is None
        return self._is_division(node)

    def _is_division(self, node: Node) -> bool:
        """Of floating-point numbers: an integer one could be by zero where the loop would not have run."""
        if node.type != "binary_expression" or self.code.text(_field(node, "operator")) != "/":
            return False
        kind = expression_type(self.code, self.dependence, node)
        return kind is not None and not is_integer(kind)

    def _is_invariant(self, expression: Node) -> bool:
        for node in walk(expression):
            if node.type in ("lambda_expression", "assignment_expression", "update_expression"):
                return False
            if node.type == "call_expression" and self.dependence.impurity(node) is not None:
                return False
            if node.type == "identifier":
                declared = self.code.declaration(node)
                if declared is None or declared.key in self.moved:
                    continue
                start, end = self.loop.node.start_byte, self.loop.node.end_byte
                if declared.key in self.effects.scalars or start <= declared.identifier.start_byte < end:
                    return False
            use = self.dependence.use(node)
            if use is not None and not self._is_left_alone(use.place):
                return False
        return True

    def _is_left_alone(self, place: object) -> bool:
        """The loop writes nothing that may be this memory."""
        writes = [use for use in self.effects.uses if use.is_write]
        return place is not None and not any(
            use.place is None or may_be_same(use.place, place)  # type: ignore[arg-type]
            for use in writes
        )

    def _named(self, node: Node, kind: str, named: dict[str, str]) -> list[TextEdit]:
        if kind == "value":
            text = self.code.text(node)
            if text not in named:
                named[text] = self._name(_word_for(self.code, node))
                self.before.append(f"const auto {named[text]} = {text};")
            return [edit(self.code, node, named[text])]
        divisor = _field(node, "right")
        text = self.code.text(strip(divisor))
        result = expression_type(self.code, self.dependence, node)
        if result not in ("float", "double", "scalar_t"):
            return []
        if text not in named:
            word = re.sub(r"\W+", "_", text).strip("_")
            named[text] = self._name(f"inverse_{word}" if re.fullmatch(r"\w{1,20}", word) else "inverse")
            one = {"float": "1.0f", "double": "1.0"}.get(result, f"{result}(1)")
            self.before.append(f"const {result} {named[text]} = {one} / {self.code.text(divisor)};")
        operator = _field(node, "operator")
        return [edit(self.code, operator, "*"), edit(self.code, divisor, named[text])]

    def _name(self, wanted: str) -> str:
        taken = {line.split(" = ")[0].split()[-1] for line in self.before}
        name = self.code.fresh(wanted)
        while name in taken:
            name += "_"
        return name


def _word_for(code: Code, node: Node) -> str:
    """A name for a hoisted value: `sqrt_value`, `ratio`."""
    if node.type == "call_expression":
        function = node.child_by_field_name("function")
        words = re.findall(r"\w+", "" if function is None else code.text(function))
        return f"{words[-1]}_value" if words else "value"
    return "ratio"


def _field(node: Node, name: str) -> Node:
    child = node.child_by_field_name(name)
    assert child is not None
    return child
