"""C's arithmetic conversions, as far as they tell where a `double` creeps in among floats."""

from __future__ import annotations

import math
from typing import NamedTuple

from tree_sitter import Node

from kernel_lsp.domain import DoubleUse
from kernel_lsp.source.kinds import DOUBLE, FLOAT, INT, UNKNOWN, ValueType
from kernel_lsp.source.parse import ParsedSource
from kernel_lsp.source.vocabulary import DOUBLE_LITERAL

_NARROWED = frozenset({"+", "-", "*", "/"})
"""Done in float by g++ where one operand is a float, the other a literal that float holds exactly, and the result goes
straight into a float. Source: `convert_to_real` in gcc's convert.cc; seen in the code that g++ 12 gives."""


class Constant(NamedTuple):
    """Something of type double that is harmless until it meets a float."""

    node: Node
    text: str
    why: str
    """As in `DoubleUse.why`."""


class Value(NamedTuple):
    """What an expression yields."""

    type: ValueType = UNKNOWN
    varies: int = 0
    """Bit d: it changes with the steps of the loop at depth d."""
    constants: tuple[Constant, ...] = ()
    """Of type double in it, not yet met by a float."""
    crept: bool = False
    """A double only because a constant or function of that type met a float."""
    narrows: bool = False
    """So simple that the compiler does it in float if the result goes straight into a float."""
    name: Node | None = None
    """The plain variable that it is, or the one that makes it a double."""
    is_constant: bool = False
    """Known when compiling."""

    @property
    def is_float_data(self) -> bool:
        return self.crept or self.type.is_float


class Precision:
    """Collects the uses of double among floats of one function, in the order in which they are met."""

    def __init__(self, parsed: ParsedSource) -> None:
        self.uses: list[DoubleUse] = []
        self.loop: int | None = None
        """The innermost loop at present."""
        self._parsed = parsed
        self._variables: set[tuple[str, int | None]] = set()

    def note(self, node: Node, text: str, why: str) -> None:
        self.uses.append(DoubleUse(text=text, span=self._parsed.span(node), why=why, loop=self.loop))

    def note_variable(self, name: Node) -> None:
        """Once for each variable and loop."""
        text = self._parsed.text_of(name)
        if (text, self.loop) not in self._variables:
            self._variables.add((text, self.loop))
            self.note(name, text, "variable")

    def meet(self, left: Value, right: Value, sign: str = "") -> Value:
        """`left sign right` under the usual arithmetic conversions."""
        varies = left.varies | right.varies
        a, b = left.type, right.type
        if a.depth or b.depth:
            # A pointer and an integer give a pointer, two pointers their distance.
            return Value(INT if a.depth and b.depth else a if a.depth else b, varies)
        if left.is_float_data and right.is_float_data:
            crept = left.crept or right.crept
            return Value(DOUBLE if crept else FLOAT, varies, crept=crept)
        if left.is_float_data:
            return self._float_meets(left, right, sign, varies)
        if right.is_float_data:
            return self._float_meets(right, left, sign, varies)
        if a.is_double or b.is_double:
            return _double_meets(left, right, varies)
        if b.name in (a.name, "bool"):
            return Value(a, varies)
        if a.is_integer:
            return Value(INT if b.is_integer and a.name != "bool" else b, varies)
        return Value(a if b.is_integer else UNKNOWN, varies)

    def _float_meets(self, floating: Value, other: Value, sign: str, varies: int) -> Value:
        if other.constants:
            for constant in other.constants:
                self.note(*constant)
            simple = sign in _NARROWED and not floating.crept and is_exact(other)
            return Value(DOUBLE, varies, crept=True, narrows=simple)
        if other.type.is_double:
            if other.name is None:
                return Value(DOUBLE, varies)
            self.note_variable(other.name)
            return Value(DOUBLE, varies, name=other.name)
        if other.type.is_integer:
            return Value(floating.type, varies, crept=floating.crept)
        return Value(UNKNOWN, varies)

    def compare(self, left: Value, right: Value) -> None:
        """A literal that float holds exactly is compared in float."""
        if not is_exact(left) and not is_exact(right):
            self.meet(left, right)

    def choose(self, yes: Value, no: Value) -> Value:
        """`c ? yes : no`. Each branch is converted by itself, so going straight into a float costs nothing."""
        mark = len(self.uses)
        value = self.meet(yes, no)
        return value._replace(narrows=len(self.uses) > mark and not yes.crept and not no.crept)

    def store(self, kind: ValueType, value: Value, mark: int, name: Node | None = None) -> None:
        """`value`, whose uses were noted since `mark`, goes into something of type `kind`, the variable `name`."""
        if kind.is_float and value.narrows:
            del self.uses[mark:]
        elif kind.is_double:
            # Meant to be double: its constants are right, but float data is drawn in.
            self.uses[mark:] = [use for use in self.uses[mark:] if use.why in ("cast", "variable")]
            if value.is_float_data and name is not None:
                self.note_variable(name)


def _double_meets(left: Value, right: Value, varies: int) -> Value:
    double, other = (left, right) if left.type.is_double else (right, left)
    if other.type.is_double or other.type.is_integer:
        # A plain double among constants makes the whole a double that is meant.
        if all(value.constants or value.type.is_integer for value in (left, right)):
            return Value(DOUBLE, varies, left.constants + right.constants)
        plain = next((value.name for value in (double, other) if value.type.is_double and not value.constants), None)
        return Value(DOUBLE, varies, name=plain)
    return Value(UNKNOWN, varies)


def is_exact(value: Value) -> bool:
    """It is one literal whose value a float holds exactly."""
    if len(value.constants) != 1 or not value.is_constant:
        return False
    text = value.constants[0].text
    if DOUBLE_LITERAL.fullmatch(text) is None:
        return False
    number = float(text.replace("'", ""))
    mantissa, exponent = math.frexp(number)
    return number == 0 or (mantissa * 2**24 % 1 == 0 and -125 <= exponent <= 128)
