"""Which iterations of a loop may run in any order: what they read, write and carry, and why not.

One analysis for every rewrite. An answer of None means "proved, under two assumptions that the judge tests with
every candidate": sizes are not negative, and arrays that reach the kernel as different parameters do not partly
overlap. Two writable pointers without `__restrict__` may still be the *same* array, and are treated as that.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from tree_sitter import Node

from kernel_lsp.optimize.syntax import (
    LOOPS,
    Code,
    Declaration,
    ForLoop,
    arguments,
    enclosing,
    enclosing_loops,
    indices,
    is_within,
    statements,
    strip,
    walk,
    words,
)
from kernel_lsp.source.affine import Polynomial, add, multiply

PURE_FUNCTIONS = words(
    """
    abs fabs fabsf exp expf exp2 exp2f expm1 expm1f log logf log2 log2f log10 log10f log1p log1pf sqrt sqrtf rsqrt
    cbrt cbrtf pow powf sin sinf cos cosf tan tanf asin acos atan atan2 sinh cosh tanh tanhf erf erff erfc erfcf
    floor floorf ceil ceilf round roundf trunc truncf rint nearbyint fmod fmodf fma fmaf fmin fminf fmax fmaxf min
    max clamp hypot copysign isnan isinf isfinite signbit infinity lowest quiet_NaN epsilon static_cast
    reinterpret_cast const_cast sizeof
    """
)
"""Without side effects but for `errno`, which no kernel reads."""

PURE_METHODS = words(
    """
    size sizes numel dim stride strides data data_ptr mutable_data_ptr const_data_ptr accessor begin end item
    is_contiguous length empty defined options scalar_type
    """
)

POINTER_METHODS = frozenset(["data", "data_ptr", "mutable_data_ptr", "const_data_ptr", "begin"])

VIEW_METHODS = words(
    """
    contiguous view reshape t transpose permute to flatten squeeze unsqueeze narrow slice select detach expand
    """
)
"""The result may share the receiver's memory, under other indices."""

_HARMLESS_PRAGMA = re.compile(r"GCC (unroll|ivdep)\b|omp simd\b")
"""They allow what the analysis decides anyway; an `omp atomic` or a parallel loop changes what code means."""

_LEAVING = frozenset(
    ("return_statement", "goto_statement", "throw_statement", "co_return_statement", "labeled_statement")
)
_UNKNOWN = frozenset(
    ("ERROR", "lambda_expression", "new_expression", "delete_expression", "try_statement", "gnu_asm_expression")
)
_PREPROCESSOR = frozenset(
    [
        "preproc_call",
        "preproc_if",
        "preproc_ifdef",
        "preproc_else",
        "preproc_elif",
        "preproc_def",
        "preproc_function_def",
        "preproc_include",
    ]
)


@dataclass(frozen=True, slots=True)
class Place:
    """Memory that has a name."""

    key: str
    """`Declaration.key` of the array, tensor or pointer parameter that owns it."""
    name: str
    view: str
    """How its indices map to memory; places of one key and different views may meet anywhere."""
    owner: Declaration
    is_writable_pointer: bool
    """A pointer parameter that is neither `const` nor `__restrict__`."""


@dataclass(frozen=True, slots=True)
class Use:
    """One access to an array."""

    node: Node
    place: Place | None
    """None where it cannot be told which memory this is."""
    index: tuple[Polynomial | None, ...] | None
    """One polynomial for each dimension; None where the whole array may be meant."""
    is_read: bool
    is_write: bool


@dataclass(slots=True)
class Effects:
    """What one iteration does, as far as another could see it."""

    uses: list[Use] = field(default_factory=list)
    scalars: dict[str, tuple[Declaration, list[Node]]] = field(default_factory=dict)
    """Variables from outside that are changed: key → declaration and the places where."""
    obstacle: str | None = None
    """The first thing that cannot be analysed."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """A scalar that a loop only ever accumulates into."""

    variable: Declaration
    operator: str
    """As OpenMP writes it: `+`, `*`, `max`, `min`."""
    statement: Node


@dataclass(frozen=True, slots=True)
class _Sides:
    """Two indices that are compared, each with the loops inside the one in question that it stands in."""

    a: Polynomial
    b: Polynomial
    loops_a: list[ForLoop]
    loops_b: list[ForLoop]


class Dependence:
    """The analysis of one text."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self._opaque: dict[str, frozenset[str]] = {}
        """Symbols that stand for whole expressions → keys of the variables in them."""
        self._effects: dict[tuple[int, int], Effects] = {}
        self._pure: dict[int, str | None] = {}
        self._values: dict[tuple[int, int], Polynomial] = {}
        self._uppers: dict[tuple[int, int], list[Polynomial]] = {}
        self._bounds: dict[int, list[Polynomial]] = {}
        """By place in the text, which does not change: proofs ask for the same expressions over and over."""

    # --- values ---------------------------------------------------------------------------------------------

    def value(self, node: Node) -> Polynomial:
        """An integer expression as a polynomial over declarations' keys; what is no sum or product is one symbol."""
        node = strip(node)
        place = (node.start_byte, node.end_byte)
        known = self._values.get(place)
        if known is None:
            known = self._values[place] = self._computed(node)
        return known

    def _computed(self, node: Node) -> Polynomial:
        if node.type == "number_literal":
            digits = self.code.text(node).rstrip("uUlLzZ").replace("'", "")
            try:
                number = int(digits, 0)
            except ValueError:
                return self._symbol(node)
            return {(): number} if number else {}
        if node.type == "identifier":
            return self._value_of_name(node)
        if node.type == "binary_expression":
            left, operator, right = _parts(node)
            if self.code.text(operator) in ("+", "-"):
                return add(self.value(left), self.value(right), 1 if self.code.text(operator) == "+" else -1)
            if self.code.text(operator) == "*":
                product = multiply(self.value(left), self.value(right))
                return self._symbol(node) if product is None else product
        if node.type == "unary_expression" and self.code.text(node).startswith("-"):
            argument = node.child_by_field_name("argument")
            return self._symbol(node) if argument is None else add({}, self.value(argument), -1)
        if (inner := self._cast(node)) is not None:
            return self.value(inner)
        return self._symbol(node)

    def _value_of_name(self, node: Node) -> Polynomial:
        declared = self.code.declaration(node)
        if declared is None:
            return self._symbol(node)
        initial = declared.initial
        if initial is not None and not _is_loop_variable(declared) and self.code.is_fixed(declared):
            # Only what varies with a loop is looked through; a size stays one symbol, known to be no less than 0.
            value = self.value(initial)
            if strip(initial).type == "identifier" or self._varies_with_a_loop(value):
                return value
        self._opaque.setdefault(declared.key, frozenset((declared.key,)))
        return {(declared.key,): 1}

    def _varies_with_a_loop(self, value: Polynomial) -> bool:
        names = {name for monomial in value for symbol in monomial for name in self._opaque.get(symbol, {symbol})}
        return any(name in self._loop_keys for name in names)

    @cached_property
    def _loop_keys(self) -> frozenset[str]:
        loops = map(self.code.loop, self.code.loops())
        return frozenset(loop.variable.key for loop in loops if isinstance(loop, ForLoop))

    def _symbol(self, node: Node) -> Polynomial:
        keys = {
            declared.key
            for child in walk(node)
            if child.type == "identifier" and (declared := self.code.declaration(child)) is not None
        }
        symbol = "".join(self.code.text(node).split()) + "".join(sorted(f"|{key}" for key in keys))
        self._opaque[symbol] = frozenset(keys)
        return {(symbol,): 1}

    def _cast(self, node: Node) -> Node | None:
        """What a cast between number types is applied to."""
        if node.type == "cast_expression":
            return node.child_by_field_name("value")
        if node.type == "call_expression" and len(arguments(node)) == 1:
            function = node.child_by_field_name("function")
            if function is None:
                return None
            text = self.code.text(function)
            if text.startswith("static_cast<") or function.type == "primitive_type" or text in _NUMBER_TYPES:
                return arguments(node)[0]
        return None

    def uppers(self, node: Node) -> list[Polynomial]:
        """Values that an expression does not exceed: of `std::min(a, b)` and `a < b ? a : b`, both."""
        node = strip(node)
        place = (node.start_byte, node.end_byte)
        known = self._uppers.get(place)
        if known is None:
            known = self._uppers[place] = self._computed_uppers(node)
        return known

    def _computed_uppers(self, node: Node) -> list[Polynomial]:
        if node.type == "identifier":
            declared = self.code.declaration(node)
            if declared is not None and declared.initial is not None and self.code.is_fixed(declared):
                found = self.uppers(declared.initial)
                return found if len(found) > 1 else [self.value(node)]
        if node.type == "call_expression" and self.name_of(node) == "min" and len(arguments(node)) == 2:
            return [bound for argument in arguments(node) for bound in self.uppers(argument)]
        if node.type == "conditional_expression":
            condition = strip(node.child_by_field_name("condition") or node)
            branches = [node.child_by_field_name("consequence"), node.child_by_field_name("alternative")]
            if condition.type == "binary_expression" and None not in branches:
                left, operator, right = _parts(condition)
                texts = [self.code.text(branch) for branch in branches if branch is not None]
                if self.code.text(operator) in ("<", "<=") and texts == [self.code.text(left), self.code.text(right)]:
                    return [self.value(left), self.value(right)]
        return [self.value(node)]

    def _assured(self, loop: ForLoop) -> list[Polynomial]:
        """Further bounds on a loop's end from the conditions that it stands under: `if (end - begin == 4)`."""
        known = self._bounds.get(loop.node.start_byte)
        if known is None:
            known = self._bounds[loop.node.start_byte] = self._computed_bounds(loop)
        return known

    def _computed_bounds(self, loop: ForLoop) -> list[Polynomial]:
        found: list[Polynomial] = []
        wanted = self.value(loop.upper)
        inside = loop.node
        branch = enclosing(inside, "if_statement", "function_definition")
        while branch is not None and branch.type == "if_statement":
            condition, chosen = branch.child_by_field_name("condition"), branch.child_by_field_name("consequence")
            if condition is not None and chosen is not None and is_within(inside, chosen):
                for equality in walk(condition):
                    if equality.type != "binary_expression" or self.code.text(_parts(equality)[1]) != "==":
                        continue
                    difference = strip(_parts(equality)[0])
                    if difference.type != "binary_expression" or self.code.text(_parts(difference)[1]) != "-":
                        continue
                    end, _, begin = _parts(difference)
                    if add(self.value(begin), self.value(_parts(equality)[2])) == wanted and _is_conjunct(
                        self.code, equality, condition
                    ):
                        found += self.uppers(end)
            inside = branch
            branch = enclosing(branch, "if_statement", "function_definition")
        return found

    # --- memory ---------------------------------------------------------------------------------------------

    def base(self, node: Node) -> tuple[Place, Polynomial | None] | None:
        """The memory that a pointer, array, tensor or accessor expression means, and the offset into it."""
        node = strip(node)
        if node.type == "identifier":
            return self._base_of_name(node)
        if node.type == "binary_expression":
            left, operator, right = _parts(node)
            found = self.base(left)
            if found is None or self.code.text(operator) not in ("+", "-"):
                return None
            sign = 1 if self.code.text(operator) == "+" else -1
            return found[0], None if found[1] is None else add(found[1], self.value(right), sign)
        if node.type == "pointer_expression":
            argument = node.child_by_field_name("argument")
            if argument is None or not self.code.text(node).startswith("&"):
                return None
            use = self.use(strip(argument))
            if use is None or use.place is None:
                return self.base(argument)
            return use.place, use.index[0] if use.index is not None and len(use.index) == 1 else None
        if node.type == "cast_expression":
            value = node.child_by_field_name("value")
            return None if value is None else self.base(value)
        if node.type == "call_expression":
            return self._base_of_call(node)
        return None

    def _base_of_name(self, node: Node) -> tuple[Place, Polynomial | None] | None:
        declared = self.code.declaration(node)
        if declared is None or (declared.is_scalar and declared.type != "auto" and not declared.is_reference):
            return None
        initial = declared.initial
        derived = declared.is_pointer or declared.is_reference or declared.type.startswith(("auto", "Tensor"))
        if initial is not None and derived and not declared.is_array:
            found = self.base(initial)
            if found is not None:
                return found if self.code.is_fixed(declared) else (found[0], None)
            if declared.is_pointer or declared.is_reference:
                return None
        text = self.code.text(declared.statement)
        pointer_parameter = declared.is_parameter and declared.is_pointer
        place = Place(
            key=declared.key,
            name=declared.name,
            view="",
            owner=declared,
            is_writable_pointer=pointer_parameter and not declared.is_const and "restrict" not in text,
        )
        moved = declared.is_pointer and not self.code.is_fixed(declared)
        return place, None if moved else {}

    def _base_of_call(self, node: Node) -> tuple[Place, Polynomial | None] | None:
        function = node.child_by_field_name("function")
        if function is None:
            return None
        if self.code.text(function).startswith(("reinterpret_cast<", "const_cast<", "static_cast<")):
            return self.base(arguments(node)[0]) if len(arguments(node)) == 1 else None
        name = self.name_of(node)
        receiver = function.child_by_field_name("argument") if function.type == "field_expression" else None
        if receiver is None or name is None:
            return None
        found = self.base(receiver)
        if found is None:
            return None
        if name in POINTER_METHODS or name.startswith(("accessor", "packed_accessor")):
            return found
        if name in VIEW_METHODS:
            place = found[0]
            view = place.view + "." + "".join(self.code.text(node)[len(self.code.text(receiver)) :].split())
            return Place(place.key, place.name, view, place.owner, place.is_writable_pointer), {}
        return None

    def use(self, node: Node) -> Use | None:
        """The array access at an `a[i]`, `a[i][j]` or `*p`; None where the node is none of these."""
        is_write, is_read = self._direction(node)
        if node.type == "pointer_expression":
            argument = node.child_by_field_name("argument")
            if argument is None or not self.code.text(node).startswith("*"):
                return None
            found = self.base(argument)
            if found is None:
                return Use(node, None, None, is_read, is_write)
            return Use(node, found[0], (found[1],), is_read, is_write)
        if node.type != "subscript_expression":
            return None
        dimensions: list[Polynomial | None] = []
        inner: Node = node
        while inner.type == "subscript_expression":
            listed = indices(inner)
            argument = inner.child_by_field_name("argument")
            if argument is None or len(listed) != 1:
                return Use(node, None, None, is_read, is_write)
            dimensions.insert(0, self.value(listed[0]))
            inner = strip(argument)
        found = self.base(inner)
        if found is None:
            return Use(node, None, None, is_read, is_write)
        place, offset = found
        if offset is None:
            dimensions[0] = None
        elif dimensions[0] is not None:
            dimensions[0] = add(dimensions[0], offset)
        return Use(node, place, tuple(dimensions), is_read, is_write)

    def _direction(self, node: Node) -> tuple[bool, bool]:
        """(is written, is read)."""
        parent = node.parent
        while parent is not None and parent.type == "parenthesized_expression":
            node, parent = parent, parent.parent
        if parent is not None and parent.type == "assignment_expression" and _parts(parent)[0] == node:
            return True, self.code.text(_parts(parent)[1]) != "="
        if parent is not None and parent.type == "update_expression":
            return True, True
        return False, True

    # --- effects --------------------------------------------------------------------------------------------

    def effects(self, region: Node, of: Node) -> Effects:
        """What running `region` once does; `of` is the loop that repeats it, which it must not leave."""
        key = (region.id, of.id)
        if key not in self._effects:
            self._effects[key] = self._find_effects(region, of)
        return self._effects[key]

    def _find_effects(self, region: Node, of: Node) -> Effects:
        found = Effects()
        for node in walk(region):
            if found.obstacle is not None:
                break
            if (pragma := self._pragma(node)) is not None:
                if _HARMLESS_PRAGMA.match(pragma) is None:
                    found.obstacle = f"`#pragma {pragma}` on line {node.start_point[0] + 1} stands in the loop"
                continue
            if node.type in _LEAVING or node.type in _UNKNOWN or node.type in _PREPROCESSOR:
                found.obstacle = self._obstacle(node)
            elif node.type == "break_statement":
                owner = enclosing(node, *LOOPS, "switch_statement")
                if owner is not None and (owner == of or not is_within(owner, region)):
                    found.obstacle = "a `break` ends the loop early"
            elif node.type in ("while_statement", "do_statement", "for_range_loop"):
                found.obstacle = f"line {node.start_point[0] + 1} holds a loop without a plain range"
            elif node.type == "call_expression":
                self._of_call(node, found)
            elif node.type in ("assignment_expression", "update_expression"):
                self._of_assignment(node, region, found)
            elif node.type in ("subscript_expression", "pointer_expression"):
                self._of_access(node, found)
        return found

    def _pragma(self, node: Node) -> str | None:
        """The words of a pragma, in either form."""
        if node.type not in ("preproc_call", "call_expression"):
            return None
        form = re.match(r"(?:#\s*pragma\s+|_Pragma\(.)([^\"\n]*)", self.code.text(node))
        return None if form is None else form[1].strip()

    def _obstacle(self, node: Node) -> str:
        line = node.start_point[0] + 1
        if node.type in _LEAVING:
            word = self.code.text(node).split(None, 1)[0].rstrip(";:")
            return f"`{word}` on line {line} may leave the loop"
        if node.type.startswith("preproc"):
            return f"a preprocessor directive on line {line} stands in the loop"
        if node.type == "ERROR":
            return f"line {line} holds a macro or syntax that cannot be read"
        return f"line {line} holds a {node.type.removesuffix('_expression').replace('_', ' ')}, which is not analysed"

    def _of_call(self, node: Node, found: Effects) -> None:
        found.obstacle = self.impurity(node)
        if found.obstacle is not None:
            return
        function = node.child_by_field_name("function")
        if function is not None and function.type == "field_expression":
            return
        for argument in arguments(node):
            # A function that is given a pointer may read anything behind it.
            pointed = self.base(argument)
            if pointed is not None and strip(argument).type != "subscript_expression":
                found.uses.append(Use(argument, pointed[0], None, is_read=True, is_write=False))

    def _of_assignment(self, node: Node, region: Node, found: Effects) -> None:
        target = node.child_by_field_name("left") or node.child_by_field_name("argument")
        if target is None:
            found.obstacle = "an assignment without a target"
            return
        target = strip(target)
        if target.type in ("subscript_expression", "pointer_expression"):
            return  # met as an access
        root = target
        while root.type == "field_expression":
            root = strip(root.child_by_field_name("argument") or root)
            if root.type == "this" or "->" in self.code.text(target):
                break
        if root.type != "identifier":
            found.obstacle = f"`{self.code.text(target)}` is assigned, which is not analysed"
            return
        declared = self.code.declaration(root)
        if declared is None:
            found.obstacle = f"`{self.code.text(root)}`, which this function does not declare, is changed"
        elif declared.is_reference and not declared.is_parameter and declared.initial is not None:
            use = self.use(strip(declared.initial))
            if use is None or use.place is None:
                found.obstacle = f"`{declared.name}` is a reference to what is not known"
            else:
                found.uses.append(Use(node, use.place, use.index, is_read=True, is_write=True))
        elif not is_within(declared.statement, region) or "static" in self.code.text(declared.statement).split():
            found.scalars.setdefault(declared.key, (declared, []))[1].append(node)

    def _of_access(self, node: Node, found: Effects) -> None:
        around = node.parent if node.type == "subscript_expression" else None
        if around is not None and around.type == node.type and around.child_by_field_name("argument") == node:
            return  # the outer one stands for the whole access
        use = self.use(node)
        if use is None:
            return
        if use.place is None and use.is_write:
            found.obstacle = f"it is not known which memory `{self.code.text(node)}` means"
            return
        found.uses.append(use)

    def name_of(self, call: Node) -> str | None:
        """The last part of the called name, without template arguments: `exp` of `std::exp`."""
        function = call.child_by_field_name("function")
        while function is not None and function.type != "identifier":
            if function.type in ("field_identifier", "primitive_type", "type_identifier"):
                break
            function = function.child_by_field_name("field") or function.child_by_field_name("name")
        return None if function is None else self.code.text(function)

    def is_defined_here(self, call: Node) -> bool:
        """The called function is the file's own, whatever a library calls so."""
        function = call.child_by_field_name("function")
        name = self.name_of(call)
        return function is not None and function.type == "identifier" and bool(self.code.functions(name or ""))

    def impurity(self, call: Node) -> str | None:
        """Why a call may do more than return a value; None where it cannot."""
        function = call.child_by_field_name("function")
        name = self.name_of(call)
        if function is None or name is None:
            return f"`{self.code.text(call)[:40]}` is not analysed"
        if function.type == "field_expression":
            return None if name in PURE_METHODS else f"calls `{name}`, whose effects are not known"
        if function.type == "primitive_type" or self._cast(call) is not None:
            return None
        if name in PURE_FUNCTIONS and not self.is_defined_here(call):
            return None
        bodies = self.code.functions(name)
        if not bodies:
            return f"calls `{name}`, whose effects are not known"
        for code, definition in bodies:
            reason = self if code is self.code else Dependence(code)
            impure = reason._impure_body(definition)
            if impure is not None:
                return f"calls `{name}`, which {impure}"
        return None

    def _impure_body(self, definition: Node) -> str | None:
        """Why a function's body is seen outside it, as a clause; None where it only reads and returns."""
        if definition.id in self._pure:
            return self._pure[definition.id]
        self._pure[definition.id] = "calls itself"
        self._pure[definition.id] = result = self._find_impurity(definition)
        return result

    def _find_impurity(self, definition: Node) -> str | None:
        body = definition.child_by_field_name("body")
        if body is None:
            return "is not defined here"
        for node in walk(body):
            if node.type in ("throw_statement", "goto_statement") or node.type in _UNKNOWN:
                return f"holds a {node.type.replace('_', ' ')}"
            is_call = node.type == "call_expression" and not self._copies_to_local(node, definition)
            if is_call and (reason := self.impurity(node)) is not None:
                return reason
            if node.type in ("assignment_expression", "update_expression"):
                target = strip(node.child_by_field_name("left") or node.child_by_field_name("argument") or node)
                declared = self.code.declaration(target) if target.type == "identifier" else None
                local = declared is not None and is_within(declared.statement, definition)
                if not local or (declared is not None and (declared.is_reference or declared.is_pointer)):
                    return f"changes `{self.code.text(target)}`"
            if node.type == "declaration" and self.code.text(node).startswith("static"):
                return "keeps static data"
        return None

    def _copies_to_local(self, call: Node, definition: Node) -> bool:
        """`std::memcpy(&bits, &x, sizeof bits)` into a variable of the function's own: how bits are reinterpreted."""
        given = arguments(call)
        if self.name_of(call) != "memcpy" or len(given) != 3 or given[0].type != "pointer_expression":
            return False
        target = given[0].child_by_field_name("argument")
        declared = None if target is None or target.type != "identifier" else self.code.declaration(target)
        return (
            declared is not None
            and not declared.is_reference
            and not declared.is_pointer
            and is_within(declared.statement, definition)
        )

    # --- independence ---------------------------------------------------------------------------------------

    def carried(self, loop: ForLoop, region: Node | None = None, allowed: Collection[str] = ()) -> str | None:
        """Why two iterations of `loop` cannot be told to be independent; None where they are.

        `region` is what is looked at, the loop's body where it is not given: a loop around `loop` whose whole body
        is `loop` asks whether iterations stay independent whatever the outer variable is. `allowed` are keys of
        scalars that may be carried.
        """
        around = region or loop.body
        found = self.effects(around, loop.node)
        if found.obstacle is not None:
            return found.obstacle
        for key, (declared, places) in found.scalars.items():
            if key not in allowed and not _is_own_variable(declared, loop, around):
                line = places[0].start_point[0] + 1
                return f"`{declared.name}` (line {line}) is carried from one iteration of `{loop.name}` to the next"
        changed = set(found.scalars)
        for write in found.uses:
            if not write.is_write or write.place is None or is_within(write.place.owner.statement, around):
                continue
            for other in found.uses:
                if other.place is None:
                    return f"it is not known whether `{self.code.text(other.node)}` is written by another iteration"
                if not may_be_same(write.place, other.place):
                    continue
                if not self._disjoint(write, other, loop, around, changed):
                    return self._meeting(write, other, loop)
        return None

    def _meeting(self, write: Use, other: Use, loop: ForLoop) -> str:
        first, second = self.code.text(write.node), self.code.text(other.node)
        assert write.place is not None
        assert other.place is not None
        if write.place.key != other.place.key:
            return f"`{write.place.name}` and `{other.place.name}` may be one array: neither is const or __restrict__"
        if first == second:
            return f"two iterations of `{loop.name}` may write the same `{first}`"
        return f"`{first}` and `{second}` may be the same element in two iterations of `{loop.name}`"

    def _disjoint(self, a: Use, b: Use, loop: ForLoop, region: Node, changed: Collection[str]) -> bool:
        """Whether no iteration's `a` is another iteration's `b`."""
        assert a.place is not None
        assert b.place is not None
        if a.index is None or b.index is None or len(a.index) != len(b.index) or a.place.view != b.place.view:
            return False
        loops_a, loops_b = self._loops_of(a, loop, region), self._loops_of(b, loop, region)
        around = [outer for node in enclosing_loops(loop.node) if isinstance(outer := self.code.loop(node), ForLoop)]
        positive = self._positive([*loops_a, *loops_b, loop, *around])
        return any(
            self._apart(_Sides(x, y, loops_a, loops_b), loop, region, changed, positive)
            for x, y in zip(a.index, b.index, strict=True)
            if x is not None and y is not None
        )

    def _loops_of(self, use: Use, loop: ForLoop, region: Node) -> list[ForLoop]:
        """The loops around an access within the region, innermost first, `loop` itself left out."""
        found = [self.code.loop(node) for node in enclosing_loops(use.node) if is_within(node, region)]
        if region != loop.body:
            outer = self.code.loop(region) if region.type == "for_statement" else "none"
            found += [outer] if isinstance(outer, ForLoop) and outer not in found else []
        return [inner for inner in found if isinstance(inner, ForLoop) and inner.node != loop.node]

    def _apart(
        self, sides: _Sides, loop: ForLoop, region: Node, changed: Collection[str], positive: Collection[str]
    ) -> bool:
        """Whether the one index in one iteration of `loop` never equals the other in another.

        Written as c·v + rest in the loop's variable v, the two differ by at least |c| · step − spread of the rests,
        the spread being taken over the ranges of the inner loops. Where an inner variable has the larger factor
        (`n * width + v` with `v < width`), equal indices have that variable equal, and it can be left out.
        """
        if self._apart_by_factor(sides, loop, region, changed, positive):
            return True
        for inner_a, inner_b in itertools.product(sides.loops_a, sides.loops_b):
            shorter = self._without_leading(sides, inner_a, inner_b, loop, positive)
            if shorter is not None and self._apart(shorter, loop, region, changed, positive):
                return True
        return False

    def _apart_by_factor(
        self, sides: _Sides, loop: ForLoop, region: Node, changed: Collection[str], positive: Collection[str]
    ) -> bool:
        step = self.step(loop)
        for (low_a, high_a), (low_b, high_b) in itertools.product(
            self._ranges(sides.a, sides.loops_a, loop), self._ranges(sides.b, sides.loops_b, loop)
        ):
            pairs = [
                pair
                for value in (low_a, high_a, low_b, high_b)
                if (pair := _split(value, loop.variable.key)) is not None
            ]
            factor = pairs[0][0] if pairs else {}
            if len(pairs) < 4 or any(pair[0] != factor for pair in pairs):
                continue
            rests = [pair[1] for pair in pairs]
            if not all(self.is_invariant(rest, region, changed) for rest in (factor, *rests)):
                continue
            # Where both loops run, neither spread is negative, so a reach that exceeds both is positive.
            for signed in (factor, add({}, factor, -1)):
                reach = multiply(signed, step)
                if reach is not None and _covers(reach, rests, positive):
                    return True
        return False

    def _without_leading(
        self, sides: _Sides, inner_a: ForLoop, inner_b: ForLoop, loop: ForLoop, positive: Collection[str]
    ) -> _Sides | None:
        """Both indices without the term of an inner variable whose factor exceeds all that the rest can span."""
        a, b = _split(sides.a, inner_a.variable.key), _split(sides.b, inner_b.variable.key)
        if a is None or b is None or a[0] != b[0]:
            return None
        others_a = [other for other in sides.loops_a if other is not inner_a]
        others_b = [other for other in sides.loops_b if other is not inner_b]
        for (low_a, high_a), (low_b, high_b) in itertools.product(
            self._ranges(a[1], [*others_a, loop], loop), self._ranges(b[1], [*others_b, loop], loop)
        ):
            if _covers(a[0], [low_a, high_a, low_b, high_b], positive):
                return _Sides(a[1], b[1], others_a, others_b)
        return None

    def step(self, loop: ForLoop) -> Polynomial:
        return {(): loop.step} if isinstance(loop.step, int) else self.value(loop.step)

    def _ranges(
        self, value: Polynomial, loops: list[ForLoop], outer: ForLoop
    ) -> Iterator[tuple[Polynomial, Polynomial]]:
        """(least, greatest) of an index over its inner loops; several where a bound can be seen in several ways."""
        found = [(value, value)]
        for inner in loops:
            key = inner.variable.key
            lows = self._seen_from_outside(self.value(inner.lower), outer, greatest=False)
            highs = [
                seen
                for upper in [*self.uppers(inner.upper), *self._assured(inner)]
                for seen in self._seen_from_outside(
                    upper if inner.inclusive else add(upper, {(): 1}, -1), outer, greatest=True
                )
            ]
            found = [
                pair
                for (low, high), least, greatest in itertools.product(found, lows, highs)
                if (pair := _over(low, high, key, least, greatest)) is not None
            ]
        yield from found

    def _seen_from_outside(self, bound: Polynomial, outer: ForLoop, *, greatest: bool) -> list[Polynomial]:
        """A bound as it is, and with the outer variable at its own extreme: `j < i` is also `j < n`."""
        parts = _split(bound, outer.variable.key)
        if parts is None or not parts[0]:
            return [bound]
        end = (
            add(self.value(outer.upper), {(): 0 if outer.inclusive else 1}, -1) if greatest else self.value(outer.lower)
        )
        product = multiply(parts[0], end)
        rising = all(factor >= 0 for factor in parts[0].values())
        return [bound] if product is None or not rising else [bound, add(product, parts[1])]

    def _positive(self, loops: Iterable[ForLoop]) -> set[str]:
        """Symbols that are at least 1 wherever the loops' bodies run: ends of loops that begin at 0."""
        found: set[str] = set()
        for loop in loops:
            for upper in self.uppers(loop.upper):
                if not self.value(loop.lower) and len(upper) == 1 and not loop.inclusive:
                    (monomial, factor) = next(iter(upper.items()))
                    if factor > 0:
                        found.update(monomial)
        return found

    def is_invariant(self, value: Polynomial, region: Node, changed: Collection[str]) -> bool:
        """No iteration changes what the polynomial's symbols stand for."""
        start, end = region.start_byte, region.end_byte
        for symbol in {symbol for monomial in value for symbol in monomial}:
            if "[" in symbol or "*" in symbol:
                return False
            for key in self._opaque.get(symbol, frozenset((symbol,))):
                declared_at = int(key.rpartition("@")[2])
                if key in changed or start <= declared_at < end:
                    return False
        return True

    # --- reductions -----------------------------------------------------------------------------------------

    def reductions(self, loop: ForLoop) -> list[Reduction] | str:
        """The scalars that the loop accumulates, or why what it carries is no reduction."""
        found = self.effects(loop.body, loop.node)
        if found.obstacle is not None:
            return found.obstacle
        result: list[Reduction] = []
        for declared, places in found.scalars.values():
            operators = set()
            inside = 0
            for place in places:
                reduction = self._reduction(place, declared, loop)
                if reduction is None:
                    return f"`{declared.name}` is carried, and not by a sum, product, maximum or minimum"
                operators.add(reduction.operator)
                inside += sum(is_within(use, reduction.statement) for use in self.code.uses(declared, loop.body))
                result.append(reduction)
            if len(operators) != 1 or inside != len(self.code.uses(declared, loop.body)):
                return f"`{declared.name}` is also read while it accumulates"
        return result

    def _reduction(self, assignment: Node, declared: Declaration, loop: ForLoop) -> Reduction | None:
        if assignment.type == "update_expression":
            return Reduction(declared, "+", assignment) if "++" in self.code.text(assignment) else None
        left, operator, right = _parts(assignment)
        if self.code.text(left) != declared.name:
            return None
        statement = assignment.parent if assignment.parent is not None else assignment
        word = self.code.text(operator)
        if word in ("+=", "-=", "*="):
            if any(is_within(use, right) for use in self.code.uses(declared, loop.body)):
                return None
            return Reduction(declared, "*" if word == "*=" else "+", statement)
        if word != "=":
            return None
        return self._plain_reduction(right, declared, statement, loop)

    def _plain_reduction(self, right: Node, declared: Declaration, statement: Node, loop: ForLoop) -> Reduction | None:
        """`s = s + e`, `s = std::max(s, e)`, `s = e > s ? e : s` and `if (e > s) s = e`."""
        uses = [use for use in self.code.uses(declared, loop.body) if is_within(use, right)]
        right = strip(right)
        if right.type == "binary_expression" and len(uses) == 1:
            left_side, operator, right_side = _parts(right)
            word = self.code.text(operator)
            at_left = self.code.text(strip(left_side)) == declared.name
            at_right = self.code.text(strip(right_side)) == declared.name
            if word in ("+", "*") and (at_left or at_right):
                return Reduction(declared, word, statement)
            return Reduction(declared, "+", statement) if word == "-" and at_left else None
        if right.type == "call_expression" and len(uses) == 1:
            name = self.name_of(right)
            operands = [self.code.text(strip(argument)) for argument in arguments(right)]
            if name in _EXTREMES and len(operands) == 2 and declared.name in operands:
                return Reduction(declared, _EXTREMES[name], statement)
            return None
        if right.type == "conditional_expression":
            condition = strip(right.child_by_field_name("condition") or right)
            yes, no = right.child_by_field_name("consequence"), right.child_by_field_name("alternative")
            if yes is None or no is None:
                return None
            operator_kept = self._extreme(condition, declared, self.code.text(strip(yes)), self.code.text(strip(no)))
            return None if operator_kept is None else Reduction(declared, operator_kept, statement)
        branch = enclosing(statement, "if_statement")
        if branch is None or uses or not is_within(branch, loop.body) or branch.child_by_field_name("alternative"):
            return None
        condition_clause = branch.child_by_field_name("condition")
        only = branch.child_by_field_name("consequence")
        if condition_clause is None or only is None or statements(only) != [statement]:
            return None
        condition = strip(condition_clause.child_by_field_name("value") or condition_clause)
        kept = self._extreme(condition, declared, self.code.text(right), declared.name)
        return None if kept is None else Reduction(declared, kept, branch)

    def _extreme(self, condition: Node, declared: Declaration, yes: str, no: str) -> str | None:
        """`max` or `min` for `condition ? yes : no`, one of which is the variable."""
        if condition.type != "binary_expression":
            return None
        left, operator, right = _parts(condition)
        a, word, b = self.code.text(strip(left)), self.code.text(operator)[:1], self.code.text(strip(right))
        if {a, b} != {yes, no} or declared.name not in (a, b) or word not in ("<", ">"):
            return None
        return "max" if (word == ">") == (yes == a) else "min"


_NUMBER_TYPES = words(
    """
    int64_t int32_t size_t uint32_t uint64_t scalar_t ptrdiff_t std::size_t std::int64_t
    """
)

_EXTREMES = {"max": "max", "fmax": "max", "fmaxf": "max", "min": "min", "fmin": "min", "fminf": "min"}


def at_least(value: Polynomial, bound: int, positive: Collection[str] = ()) -> bool:
    """Whether it is >= `bound` for all symbols >= 0, those in `positive` being >= 1.

    Sufficient, not necessary: written in the excess over these least values, no coefficient may be negative.
    """
    shifted: Polynomial = {}
    for monomial, factor in value.items():
        term: Polynomial = {(): factor}
        for symbol in monomial:
            excess: Polynomial = {(symbol,): 1, (): 1} if symbol in positive else {(symbol,): 1}
            product = multiply(term, excess)
            if product is None:
                return False
            term = product
        shifted = add(shifted, term)
    return shifted.get((), 0) >= bound and all(factor >= 0 for monomial, factor in shifted.items() if monomial)


def _split(value: Polynomial, symbol: str) -> tuple[Polynomial, Polynomial] | None:
    """(factor, rest) of factor · symbol + rest; None where it is not linear in the symbol."""
    factor: dict[tuple[str, ...], int] = {}
    rest: dict[tuple[str, ...], int] = {}
    for monomial, number in value.items():
        if symbol in monomial:
            index = monomial.index(symbol)
            others = monomial[:index] + monomial[index + 1 :]
            if symbol in others:
                return None
            factor[others] = number
        elif any(symbol in part for part in monomial):
            return None  # inside an opaque expression
        else:
            rest[monomial] = number
    return factor, rest


def _over(
    low: Polynomial, high: Polynomial, key: str, least: Polynomial, greatest: Polynomial
) -> tuple[Polynomial, Polynomial] | None:
    """The range of an index once the variable `key` runs from `least` to `greatest`."""
    result: list[Polynomial] = []
    for value, at_low in ((low, True), (high, False)):
        parts = _split(value, key)
        if parts is None:
            return None
        rising = all(number >= 0 for number in parts[0].values())
        falling = all(number <= 0 for number in parts[0].values())
        if not rising and not falling:
            return None
        product = multiply(parts[0], least if rising == at_low else greatest)
        if product is None:
            return None
        result.append(add(product, parts[1]))
    return result[0], result[1]


def _covers(reach: Polynomial, ends: list[Polynomial], positive: Collection[str]) -> bool:
    """Whether `reach` exceeds the distance between any value of one range and any of the other."""
    low_a, high_a, low_b, high_b = ends
    return at_least(add(reach, add(high_a, low_b, -1), -1), 1, positive) and at_least(
        add(reach, add(high_b, low_a, -1), -1), 1, positive
    )


def _is_conjunct(code: Code, node: Node, condition: Node) -> bool:
    """`node` must hold for the condition to hold."""
    around = node.parent
    while around is not None and around != condition:
        if around.type == "binary_expression":
            if code.text(_parts(around)[1]) != "&&":
                return False
        elif around.type != "parenthesized_expression":
            return False
        around = around.parent
    return True


def may_be_same(a: Place, b: Place) -> bool:
    if a.key == b.key:
        return True
    return a.is_writable_pointer and b.is_writable_pointer and a.owner.type == b.owner.type


def _is_loop_variable(declared: Declaration) -> bool:
    return declared.scope.type == "for_statement"


def _is_own_variable(declared: Declaration, loop: ForLoop, region: Node) -> bool:
    """The variable of the loop itself, or of a loop that the region repeats."""
    return declared.key == loop.variable.key or is_within(declared.statement, region)


def _parts(node: Node) -> tuple[Node, Node, Node]:
    """Left side, operator and right side."""
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    operator = node.child_by_field_name("operator")
    assert left is not None
    assert right is not None
    assert operator is not None
    return left, operator, right
