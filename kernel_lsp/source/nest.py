"""The names and loops around a place in a function: where a value varies, and by what strides an index moves."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

from kernel_lsp.source import affine
from kernel_lsp.source.affine import Polynomial, names_in, polynomial
from kernel_lsp.source.kinds import ValueType

UNKNOWN_STEP = "?"
"""A factor that cannot be seen, but stays the same in all loops."""

UNTOLD = "??"
"""Something of which nothing can be said."""

EVERY_LOOP = -1
"""As a set of loops: all of them."""


@dataclass(slots=True)
class Variable:
    type: ValueType
    depth: int = 0
    """Number of loops open where it is declared."""
    varies: int = 0
    """Bit d: its value changes with the steps of the loop at depth d, of those open at its declaration."""
    definition: Polynomial | None = None
    """What it stands for in an index; None where it stands for itself."""
    lower: Polynomial | None = None
    """Of a loop's variable: where it begins."""
    is_element: bool = False
    """A reference to an array element, so that writing it writes memory."""
    is_const: bool = False


@dataclass(slots=True)
class OpenLoop:
    """A loop that is being walked."""

    id: int
    depth: int
    """Number of loops around it."""
    start: int
    end: int
    """Byte offsets."""
    variable: str | None
    is_innermost: bool = True
    declares: dict[str, None] = field(default_factory=dict)
    assigns: dict[str, None] = field(default_factory=dict)


class Nest:
    """What is in scope at one place; it follows the walk through the function."""

    def __init__(self, written: Mapping[str, list[int]], stored: Mapping[str, list[int]]) -> None:
        """`written`: variable → sorted byte offsets where it is assigned or its address taken; `stored`: the same for
        arrays whose elements are assigned."""
        self.loops: list[OpenLoop] = []
        self.names: dict[str, Variable] = {}
        self._definitions: dict[str, Polynomial] = {}
        self._undo: list[list[tuple[str, Variable | None]]] = []
        self._written = written
        self._stored = stored

    # --- scopes ---------------------------------------------------------------------------------------------

    def enter(self) -> None:
        self._undo.append([])

    def leave(self) -> None:
        for name, before in reversed(self._undo.pop()):
            self._bind(name, before)

    def declare(self, name: str, variable: Variable) -> None:
        self.rebind(name, variable)
        if self.loops:
            self.loops[-1].declares[name] = None

    def rebind(self, name: str, variable: Variable) -> None:
        """Until the scope ends, `name` means `variable`."""
        self._undo[-1].append((name, self.names.get(name)))
        self._bind(name, variable)

    def _bind(self, name: str, variable: Variable | None) -> None:
        if variable is None:
            self.names.pop(name, None)
        else:
            self.names[name] = variable
        if variable is None or variable.definition is None:
            self._definitions.pop(name, None)
        else:
            self._definitions[name] = variable.definition

    def close_loop(self) -> OpenLoop:
        closed = self.loops.pop()
        if self.loops:
            self.loops[-1].declares |= closed.declares
        return closed

    def assigned(self, name: str, *, inside: bool = True) -> None:
        """Note a write of a plain variable in every loop that it outlives; not `inside`, the innermost is left out."""
        variable = self.names.get(name)
        if variable is not None and variable.is_element:
            return
        depth = 0 if variable is None else variable.depth
        for loop in self.loops[depth : None if inside else -1]:
            if loop.variable != name:
                loop.assigns[name] = None

    # --- what varies ----------------------------------------------------------------------------------------

    @property
    def all_open(self) -> int:
        """The set of all open loops."""
        return (1 << len(self.loops)) - 1

    def is_written(self, name: str) -> bool:
        """Anywhere in the function, its initialisation aside."""
        return name in self._written

    def is_written_between(self, name: str, start: int, end: int) -> bool:
        return _any_between(self._written.get(name), start, end)

    def varies(self, name: str) -> int:
        """The open loops with whose steps the value of a variable changes."""
        variable = self.names.get(name)
        bits = 0 if variable is None else variable.varies
        if (positions := self._written.get(name)) is not None:
            for loop in self.loops[0 if variable is None else variable.depth :]:
                if name != loop.variable and _any_between(positions, loop.start, loop.end):
                    bits |= 1 << loop.depth
        return bits

    def stores_vary(self, array: str) -> int:
        """The open loops in which elements of `array` are written."""
        positions = self._stored.get(array)
        if positions is None:
            return 0
        return sum(1 << loop.depth for loop in self.loops if _any_between(positions, loop.start, loop.end))

    def symbol_varies(self, symbol: str) -> int:
        """The same for a symbol of a polynomial: a name, or an opaque expression."""
        if symbol.isidentifier():
            return self.varies(symbol)
        if symbol == UNKNOWN_STEP:
            return 0
        if symbol == UNTOLD or "++" in symbol or "--" in symbol:
            return EVERY_LOOP
        bits = 0
        for name in names_in(symbol):
            bits |= self.varies(name)
        if "[" in symbol:
            bits |= self.stores_vary(base_name(symbol))
        return bits

    def polynomial_varies(self, value: Polynomial) -> int:
        bits = 0
        for monomial in value:
            for symbol in monomial:
                bits |= self.symbol_varies(symbol)
        return bits

    # --- indices --------------------------------------------------------------------------------------------

    def meaning(self, text: str) -> Polynomial:
        """An index or pointer expression, with variables that are set once replaced by what they stand for."""
        return affine.substitute(polynomial(text), self._definitions)

    def address(self, array: str, kind: ValueType, indices: list[str]) -> Polynomial:
        """Of `array[i][j]…`, in elements."""
        address = self.meaning(array)
        for place, index in enumerate(indices):
            part = self.meaning(index)
            factor = self._level(array, kind, place)
            product = part if factor is None else affine.multiply(part, factor)
            address = affine.add(address, {(UNTOLD,): 1} if product is None else product)
        return address

    def _level(self, array: str, kind: ValueType, place: int) -> Polynomial | None:
        """Elements that one step of the index at `place` moves; None for one."""
        if place == kind.depth - 1:
            return None
        if kind.layout == "accessor":
            return {(f"{self._root(array)}.stride({kind.level + place})",): 1}
        if kind.layout == "array":
            size: Polynomial = {(): 1}
            for extent in kind.sizes[place + 1 :]:
                product = affine.multiply(size, polynomial(extent))
                size = {(UNKNOWN_STEP,): 1} if product is None else product
            return size
        return {(UNKNOWN_STEP,): 1}

    def _root(self, array: str) -> str:
        """The accessor that a row of it, `auto row = a[i]`, comes from."""
        for monomial in self._definitions.get(array, ()):
            if len(monomial) == 1 and (known := self.names.get(monomial[0])) and known.type.layout == "accessor":
                return monomial[0]
        return array

    def strides(self, address: Polynomial) -> tuple[tuple[str, str], ...]:
        """(variable, coefficient) for each open loop with a variable, innermost first."""
        if not self.loops:
            return ()
        bits = {symbol: self.symbol_varies(symbol) for monomial in address for symbol in monomial}
        strides: list[tuple[str, str]] = []
        for loop in reversed(self.loops):
            if loop.variable is None:
                continue
            here = address
            moved = self._moved_along(loop, bits)
            if moved:
                here = affine.substitute(address, moved)
                for monomial in here:
                    for symbol in monomial:
                        if symbol not in bits:
                            bits[symbol] = self.symbol_varies(symbol)
            strides.append((loop.variable, _coefficient(here, loop.variable, 1 << loop.depth, bits)))
        return tuple(strides)

    def _moved_along(self, loop: OpenLoop, bits: Mapping[str, int]) -> dict[str, Polynomial]:
        """Variables of inner loops that begin where `loop` stands, and so move along with it: `for (j = jj; …)`."""
        moved: dict[str, Polynomial] = {}
        for inner in self.loops[loop.depth + 1 :]:
            if inner.variable is not None and inner.variable in bits:
                variable = self.names[inner.variable]
                if variable.lower is not None and variable.varies & 1 << loop.depth:
                    moved[inner.variable] = variable.lower
        return moved


def _coefficient(address: Polynomial, variable: str, mask: int, bits: Mapping[str, int]) -> str:
    """The factor of `variable` in `address`; `?` where something else in it moves with that loop too."""
    result: dict[tuple[str, ...], int] = {}
    for monomial, factor in address.items():
        rest = tuple(symbol for symbol in monomial if symbol != variable)
        for symbol in rest:
            if bits[symbol] & mask:
                return UNKNOWN_STEP
        times = len(monomial) - len(rest)
        if times > 1 or (times == 1 and UNKNOWN_STEP in rest):
            return UNKNOWN_STEP
        if times == 1:
            result[rest] = result.get(rest, 0) + factor
    return affine.text({rest: factor for rest, factor in result.items() if factor})


def _any_between(positions: list[int] | None, start: int, end: int) -> bool:
    if positions is None:
        return False
    first = bisect_left(positions, start)
    return first < len(positions) and positions[first] < end


_NAME = re.compile(r"[A-Za-z_]\w*")


def base_name(text: str) -> str:
    """`out` of `out[i][j]`, `*out`, `*(out + i)`."""
    found = _NAME.search(text)
    return found[0] if found else text
