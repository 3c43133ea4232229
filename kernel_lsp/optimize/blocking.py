"""Moving a loop inward over blocks: strip-mine it, keep its scalars in small arrays, and interchange.

From `for j { s = 0; for k { s += f(j, k); } use(s); }` to, for each block of j: `s[]` set for the whole block, then
`for k { for j in block { s[j] += f(j, k); } }`, then `use(s[j])` for the block. With a second, outer loop blocked
as well and both block sizes constant, the array of scalars stays in registers. Legal wherever the loops' iterations
are independent, which `Dependence.carried` decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tree_sitter import Node

from kernel_lsp.optimize.dependence import Dependence
from kernel_lsp.optimize.rewriting import (
    Declined,
    Replacement,
    bracketed,
    dedented,
    exclusive_upper,
    header_text,
    indent_of,
    indent_unit,
    indented,
    is_pragma,
    pragma_text,
    rendered,
)
from kernel_lsp.optimize.syntax import (
    LOOPS,
    Code,
    Declaration,
    ForLoop,
    enclosing,
    indices,
    is_within,
    statements,
    strip,
    walk,
)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """Statements that run for each element of the block."""

    nodes: list[Node]


@dataclass(frozen=True, slots=True)
class _Kept:
    """A statement that is the same for the whole block."""

    node: Node


@dataclass(frozen=True, slots=True)
class _Nest:
    """A loop that moves outside the block."""

    loop: ForLoop
    items: list[_Item]


_Item: TypeAlias = "_Leaf | _Kept | _Nest"


@dataclass(frozen=True, slots=True)
class Axis:
    """A loop that is cut into blocks."""

    loop: ForLoop
    size: int
    begin: str
    end: str
    """Names of the block's first index and of the one past its last."""

    @staticmethod
    def of(code: Code, loop: ForLoop, size: int) -> Axis:
        return Axis(loop, size, code.fresh(f"{loop.name}_begin"), code.fresh(f"{loop.name}_end"))


@dataclass(slots=True)
class Blocking:
    """One blocking of `inner`, and of `outer` around it, worked out but not yet written."""

    code: Code
    dependence: Dependence
    inner: ForLoop
    outer: ForLoop | None
    items: list[_Item] = field(default_factory=list)
    expanded: dict[str, Declaration] = field(default_factory=dict)
    """Scalars that become arrays over the block."""
    inlined: dict[str, Declaration] = field(default_factory=dict)
    """Pointers and indices that are written out where they are used."""
    dependent: set[str] = field(default_factory=set)
    """Keys of the blocked loops' variables and of what is computed from them."""


def plan(code: Code, dependence: Dependence, inner: ForLoop, outer: ForLoop | None = None) -> Blocking | Declined:
    """Whether and how `inner` (and `outer`) can be blocked."""
    for loop in (inner, outer):
        if loop is None:
            continue
        if loop.step != 1:
            return Declined(f"`{loop.name}` does not run in steps of 1")
        if (reason := dependence.carried(loop)) is not None:
            return Declined(reason)
    blocking = Blocking(code, dependence, inner, outer)
    blocking.dependent.add(inner.variable.key)
    if outer is not None:
        blocking.dependent.add(outer.variable.key)
        if (between := _between(blocking, outer, inner)) is not None:
            return between
    items = _classified(blocking, statements(inner.body), inner.node)
    if isinstance(items, Declined):
        return items
    if not any(isinstance(item, _Nest) for item in items):
        return Declined(f"the body of `{inner.name}` holds no loop to exchange it with")
    blocking.items = items
    refused = _expand(blocking, items)
    return blocking if refused is None else refused


# --- reading ------------------------------------------------------------------------------------------------


def middle_loops(code: Code, outer: ForLoop, inner: ForLoop) -> list[ForLoop] | None:
    """The loops between the two, outer first; None where more than declarations stands between."""
    found: list[ForLoop] = []
    body = outer.body
    while True:
        loops = [node for node in statements(body) if node.type == "for_statement"]
        rest = [
            n for n in statements(body) if n.type not in ("for_statement", "declaration") and not is_pragma(code, n)
        ]
        if len(loops) != 1 or rest:
            return None
        if loops[0] == inner.node:
            return found
        loop = code.loop(loops[0])
        if not isinstance(loop, ForLoop):
            return None
        found.append(loop)
        body = loop.body


def _between(blocking: Blocking, outer: ForLoop, inner: ForLoop) -> Declined | None:
    """Take over what stands between the two blocked loops: loops as they are, declarations to be inlined."""
    code = blocking.code
    middle = middle_loops(code, outer, inner)
    if middle is None:
        return Declined(f"more than plain declarations stands between `{outer.name}` and `{inner.name}`")
    for loop in (outer, *middle):
        for node in statements(loop.body):
            for declared in code.declared(node):
                if not _can_inline(blocking, declared):
                    return Declined(f"`{declared.name}`, between `{outer.name}` and `{inner.name}`, cannot be inlined")
                blocking.inlined[declared.key] = declared
                blocking.dependent.add(declared.key)
    for loop in (*middle, inner):
        if any(_depends(blocking, part) for part in loop.range):
            return Declined(f"the range of `{loop.name}` depends on `{outer.name}`")
    return None


def _depends(blocking: Blocking, node: Node) -> bool:
    """Whether it differs between the elements of a block."""
    return any(
        (declared := blocking.code.declaration(child)) is not None and declared.key in blocking.dependent
        for child in walk(node)
        if child.type == "identifier"
    )


def _can_inline(blocking: Blocking, declared: Declaration) -> bool:
    """A pointer or an index that can be written out wherever it is used, for what it is made of stays the same."""
    initial = declared.initial
    if initial is None or declared.is_reference or not blocking.code.is_fixed(declared):
        return False
    if declared.is_pointer or declared.type == "auto":
        found = blocking.dependence.base(initial)
        if found is not None:
            return found[1] is not None
    if not (declared.is_integer or declared.type == "auto"):
        return False
    return not any(
        child.type in ("subscript_expression", "call_expression", "pointer_expression") for child in walk(initial)
    )


def _classified(blocking: Blocking, nodes: Sequence[Node], loop: Node) -> list[_Item] | Declined:
    """Which statements of one list move out of the block, and which run for each of its elements."""
    code = blocking.code
    items: list[_Item] = []
    only_leaves = False
    for node in nodes:
        if is_pragma(code, node):
            continue
        breaks = loop != blocking.inner.node and _jumps(node, "break_statement", loop)
        if breaks and _depends(blocking, node):
            return Declined(f"a `break` on line {node.start_point[0] + 1} depends on `{blocking.inner.name}`")
        counted = code.loop(node) if node.type == "for_statement" else None
        if isinstance(counted, ForLoop) and not only_leaves and not any(_depends(blocking, p) for p in counted.range):
            inside = _classified(blocking, statements(counted.body), counted.node)
            if isinstance(inside, Declined):
                return inside
            items.append(_Nest(counted, inside))
            continue
        if not only_leaves and _is_same_for_all(blocking, node):
            items.append(_Kept(node))
            continue
        for declared in code.declared(node):
            blocking.dependent.add(declared.key)
        if _jumps(node, "continue_statement", loop):
            only_leaves = True  # what follows is skipped together with it
        if items and isinstance(items[-1], _Leaf):
            items[-1].nodes.append(node)
        else:
            items.append(_Leaf([node]))
    return items


def _jumps(node: Node, kind: str, loop: Node) -> bool:
    """Whether a `break` or `continue` in a statement is one of `loop`."""
    switch = ["switch_statement"] if kind == "break_statement" else []
    return any(enclosing(child, *LOOPS, *switch) == loop for child in walk(node) if child.type == kind)


def _is_same_for_all(blocking: Blocking, node: Node) -> bool:
    """A declaration or a guard (`if (…) continue;`) that has the same effect for every element of the block."""
    if _depends(blocking, node):
        return False
    code = blocking.code
    if node.type == "declaration":
        declared = code.declared(node)
        return bool(declared) and all(d.initial is not None and code.is_fixed(d) for d in declared)
    return node.type == "if_statement" and not any(
        child.type in ("assignment_expression", "update_expression", "declaration", "call_expression", "for_statement")
        for child in walk(node)
    )


def _expand(blocking: Blocking, items: list[_Item]) -> Declined | None:
    """Find what one part of the block hands to another: to be kept in an array, or to be inlined."""
    code = blocking.code
    for item in _leaves(items):
        for node in item.nodes:
            for declared in code.declared(node):
                inside = [use for use in code.uses(declared) if any(is_within(use, n) for n in item.nodes)]
                if len(inside) == len(code.uses(declared)):
                    continue
                if _can_inline(blocking, declared):
                    blocking.inlined[declared.key] = declared
                elif declared.is_scalar and not declared.is_reference and declared.type != "auto":
                    blocking.expanded[declared.key] = declared
                else:
                    return Declined(f"`{declared.name}` is needed across the loops and is no plain number")
    return None


def _leaves(items: list[_Item]) -> Iterator[_Leaf]:
    for item in items:
        if isinstance(item, _Leaf):
            yield item
        elif isinstance(item, _Nest):
            yield from _leaves(item.items)


# --- writing ------------------------------------------------------------------------------------------------


def interchanged(blocking: Blocking, size: int) -> str | Declined:
    """`inner` moved inside the loops of its body; in blocks of `size` where scalars must be kept for each element."""
    code, loop = blocking.code, blocking.inner
    writer = _Writer(blocking, [])
    if not blocking.expanded:
        lines = writer.items(blocking.items, [None])
        return writer.finish(lines, loop.node)
    axis = Axis.of(code, loop, size)
    writer = _Writer(blocking, [axis])
    lines = [
        *writer.block_head(axis),
        *indented([writer.block_end(axis)], writer.unit),
        *indented(writer.arrays(), writer.unit),
        *indented(writer.items(blocking.items, [axis.end]), writer.unit),
        "}",
    ]
    return writer.finish(lines, loop.node)


def tiled(blocking: Blocking, rows: int, columns: int) -> str | Declined:
    """Both loops in constant blocks, so that the block's scalars stay in registers; smaller ones at the ends."""
    code, outer = blocking.code, blocking.outer
    assert outer is not None
    if not blocking.expanded:
        return Declined("there is no scalar to keep in registers: it accumulates in memory")
    across, along = Axis.of(code, outer, rows), Axis.of(code, blocking.inner, columns)
    writer = _Writer(blocking, [across, along])
    unit = writer.unit
    whole = f"{across.end} - {across.begin} == {rows} && {along.end} - {along.begin} == {columns}"
    constant = [f"{across.begin} + {rows}", f"{along.begin} + {columns}"]
    # Arrays of their own: one that the other branch indexes with variables would not be put in registers.
    block = [
        writer.block_end(along),
        f"if ({whole}) {{",
        *indented([*writer.arrays(), *writer.items(blocking.items, constant)], unit),
        "} else {",
        *indented([*writer.arrays(), *writer.items(blocking.items, [across.end, along.end])], unit),
        "}",
    ]
    lines = [*writer.block_head(along), *indented(block, unit), "}"]
    for loop in reversed(middle_loops(code, outer, blocking.inner) or []):
        lines = [f"{header_text(code, loop)} {{", *indented(lines, unit), "}"]
    lines = [*writer.block_head(across), *indented([writer.block_end(across), *lines], unit), "}"]
    return writer.finish(lines, outer.node)


@dataclass(frozen=True, slots=True)
class _Writer:
    blocking: Blocking
    axes: list[Axis]

    @property
    def code(self) -> Code:
        return self.blocking.code

    @property
    def unit(self) -> str:
        return indent_unit(self.code)

    def finish(self, lines: list[str], node: Node) -> str:
        """The lines as they stand in the place of `node`."""
        indent = indent_of(self.code, node)
        return "\n".join([lines[0], *indented(lines[1:], indent)])

    def block_head(self, axis: Axis) -> list[str]:
        kind = _type_of(self.code, axis.loop.variable)
        lower, upper = self.code.text(axis.loop.lower), exclusive_upper(self.code, axis.loop)
        return [f"for ({kind} {axis.begin} = {lower}; {axis.begin} < {upper}; {axis.begin} += {axis.size}) {{"]

    def block_end(self, axis: Axis) -> str:
        kind, upper = _type_of(self.code, axis.loop.variable), exclusive_upper(self.code, axis.loop)
        past = f"{axis.begin} + {axis.size}"
        return f"const {kind} {axis.end} = {past} < {upper} ? {past} : {upper};"

    def arrays(self) -> list[str]:
        sizes = "".join(f"[{axis.size}]" for axis in self.axes)
        ordered = sorted(self.blocking.expanded.values(), key=lambda declared: declared.identifier.start_byte)
        return [f"{_type_of(self.code, declared)} {declared.name}{sizes};" for declared in ordered]

    def items(self, items: list[_Item], ends: Sequence[str | None], *, nested: bool = False) -> list[str]:
        lines: list[str] = []
        for item in items:
            if isinstance(item, _Kept):
                lines += self.statement(item.node)
            elif isinstance(item, _Nest):
                comments = self.comments(item.loop.node)
                inside = self.items(item.items, ends, nested=True)
                lines += [*comments, f"{header_text(self.code, item.loop)} {{", *indented(inside, self.unit), "}"]
            else:
                lines += self.leaf(item, ends, nested=nested)
        return lines

    def leaf(self, leaf: _Leaf, ends: Sequence[str | None], *, nested: bool) -> list[str]:
        """The statements inside a loop over each blocked axis."""
        lines = [line for node in leaf.nodes for line in self.statement(node)]
        if not lines:
            return []
        inner = self.blocking.inner
        if not self.axes:
            lines = self.looped(inner, None, None, lines)
        for axis, end in zip(reversed(self.axes), reversed(ends), strict=False):
            lines = self.looped(axis.loop, axis.begin, end, lines)
            if axis.loop is inner and nested:
                lines = [self.pragma("omp simd"), *lines]
            elif axis.loop is not inner and end is not None and end != axis.end:
                lines = [self.pragma(f"GCC unroll {axis.size}"), *lines]
        if not self.axes and nested:
            lines = [self.pragma("omp simd"), *lines]
        return lines

    def looped(self, loop: ForLoop, lower: str | None, upper: str | None, lines: list[str]) -> list[str]:
        return [f"{header_text(self.code, loop, lower, upper)} {{", *indented(lines, self.unit), "}"]

    def pragma(self, words: str) -> str:
        return pragma_text(self.code, self.blocking.inner.node, words)

    def statement(self, node: Node) -> list[str]:
        """A statement with the comments around it, its scalars as elements of their arrays."""
        declared = self.code.declared(node)
        indent = indent_of(self.code, node)
        if any(d.key in self.blocking.expanded or d.key in self.blocking.inlined for d in declared):
            lines = []
            for d in sorted(declared, key=lambda declaration: declaration.identifier.start_byte):
                if d.key in self.blocking.inlined or d.initial is None:
                    continue
                initial = rendered(self.code, d.initial, self.replacements(d.initial))
                target = self.element(d) if d.key in self.blocking.expanded else f"{_type_of(self.code, d)} {d.name}"
                lines += dedented(f"{target} = {initial};", indent)
        else:
            lines = dedented(rendered(self.code, node, self.replacements(node)), indent)
        return [*self.comments(node), *self.with_comments_after(node, lines)]

    def comments(self, node: Node) -> list[str]:
        """Those on lines of their own before a statement."""
        found: list[str] = []
        before = node.prev_named_sibling
        while before is not None and before.type == "comment" and not _is_on_line_of_another(before):
            found = [*dedented(self.code.text(before), indent_of(self.code, before)), *found]
            before = before.prev_named_sibling
        return found

    def with_comments_after(self, node: Node, lines: list[str]) -> list[str]:
        """The lines with the comment at the statement's end, and those after it that end the block."""
        after = node.next_named_sibling
        if after is not None and after.type == "comment" and _is_on_line_of_another(after) and lines:
            lines = [*lines[:-1], f"{lines[-1]}  {self.code.text(after)}"]
            after = after.next_named_sibling
        last: list[str] = []
        while after is not None and after.type == "comment":
            last += dedented(self.code.text(after), indent_of(self.code, after))
            after = after.next_named_sibling
        return lines if after is not None else [*lines, *last]

    def replacements(self, node: Node) -> list[Replacement]:
        found: list[Replacement] = []
        for child in walk(node):
            declared = self.code.declaration(child) if child.type == "identifier" else None
            if declared is None or declared.identifier == child:
                continue
            if declared.key in self.blocking.expanded:
                found.append((child, self.element(declared)))
            elif declared.key in self.blocking.inlined and declared.initial is not None:
                found.append(self.written_out(child, strip(declared.initial)))
        return found

    def written_out(self, name: Node, initial: Node) -> Replacement:
        """What a name stands for in its place; `row[p]` with `row = a + i * k` becomes `a[i * k + p]`."""
        element = name.parent
        operator = initial.child_by_field_name("operator")
        if (
            element is not None
            and element.type == "subscript_expression"
            and element.child_by_field_name("argument") == name
            and initial.type == "binary_expression"
            and operator is not None
            and self.code.text(operator) == "+"
        ):
            base, offset = initial.child_by_field_name("left"), initial.child_by_field_name("right")
            if base is not None and offset is not None and base.type == "identifier":
                parts = [
                    rendered(self.code, part, self.replacements(part)) for part in (base, offset, *indices(element))
                ]
                if all(re.fullmatch(r"[\w\s*+().\[\]]+", part) for part in parts[1:]):
                    return element, f"{parts[0]}[{parts[1]} + {parts[2]}]"
        return name, bracketed(rendered(self.code, initial, self.replacements(initial)))

    def element(self, declared: Declaration) -> str:
        return declared.name + "".join(f"[{axis.loop.name} - {axis.begin}]" for axis in self.axes)


def _is_on_line_of_another(comment: Node) -> bool:
    before = comment.prev_named_sibling
    return before is not None and before.end_point[0] == comment.start_point[0]


def _type_of(code: Code, declared: Declaration) -> str:
    """The type as written, without `const`."""
    node = declared.statement.child_by_field_name("type")
    assert node is not None
    return code.text(node)
