"""What a skill's rewrite speaks in: the reason why not, and edits that keep the rest of the file byte for byte."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tree_sitter import Node

from kernel_lsp.domain import Features, Finding, Span, TextEdit
from kernel_lsp.optimize.syntax import Code, ForLoop, enclosing, walk
from kernel_lsp.source.parse import ParsedSource


@dataclass(frozen=True, slots=True)
class Declined:
    """The rewrite does not apply here."""

    reason: str
    """A clause: `` `sum` is carried from one iteration of `i` to the next ``."""


Rewrite: TypeAlias = Callable[
    [ParsedSource, Features, "Finding | None", Mapping[str, int]], "tuple[TextEdit, ...] | Declined"
]
"""`rewrite(source, features, finding, parameters)`: pure. `finding` says where to look; None means everywhere."""

Replacement: TypeAlias = "tuple[Node, str]"


# --- where to look ------------------------------------------------------------------------------------------


def nest_at(code: Code, finding: Finding | None) -> list[Node]:
    """The outermost `for` of the nest that a finding is in, or of every nest of its function, or of the file."""
    outermost = [node for node in code.loops() if enclosing(node, "for_statement") is None]
    if finding is None:
        return outermost
    at = code.source.node_at(finding.span)
    around = [node for node in outermost if node.start_byte <= at.start_byte and at.end_byte <= node.end_byte]
    if around:
        return around
    function = at if at.type == "function_definition" else enclosing(at, "function_definition")
    inside = [node for node in outermost if function is None or enclosing(node, "function_definition") == function]
    return inside or outermost


def loops_of(code: Code, nest: Node) -> list[ForLoop]:
    """The counted loops of a nest, outer before inner."""
    return [loop for node in code.loops(nest) if isinstance(loop := code.loop(node), ForLoop)]


def innermost_of(code: Code, nest: Node) -> list[ForLoop]:
    return [loop for loop in loops_of(code, nest) if not code.loops(loop.body)]


def called_in_loops(code: Code) -> list[str]:
    """Names of the functions that loops of this file call."""
    found = []
    for nest in nest_at(code, None):
        for node in walk(nest):
            function = node.child_by_field_name("function") if node.type == "call_expression" else None
            if function is not None:
                found.append(re.sub(r"<.*", "", code.text(function)).rpartition("::")[2])
    return found


def is_parallel(code: Code, node: Node) -> bool:
    """The loop, or one around it, is shared out among threads already."""
    around: Node | None = node
    while around is not None and around.type != "function_definition":
        if any(re.search(r"\bomp\b.*\b(parallel|for|taskloop)\b", text) for text in pragmas_before(code, around)):
            return True
        function = around.child_by_field_name("function") if around.type == "call_expression" else None
        if function is not None and code.text(function).endswith("parallel_for"):
            return True
        around = around.parent
    return False


def is_collapsed(code: Code, node: Node) -> bool:
    """The loop is one of several that a `collapse` around it takes together: no pragma may stand between them."""
    depth = 1
    around = enclosing(node, "for_statement", "function_definition")
    while around is not None and around.type == "for_statement":
        depth += 1
        taken = re.search(r"\bcollapse\((\d+)\)", " ".join(pragmas_before(code, around)))
        if taken is not None and int(taken[1]) >= depth:
            return True
        around = enclosing(around, "for_statement", "function_definition")
    return False


def is_simd(code: Code, node: Node) -> bool:
    return any(re.search(r"\bomp\b.*\bsimd\b", text) for text in pragmas_before(code, node))


def pragmas_before(code: Code, node: Node) -> list[str]:
    """The pragmas that stand directly before a statement."""
    found = []
    before = node.prev_named_sibling
    while before is not None and (is_pragma(code, before) or before.type == "comment"):
        if before.type != "comment":
            found.append(code.text(before))
        before = before.prev_named_sibling
    return found


def is_pragma(code: Code, node: Node) -> bool:
    text = code.text(node)
    return (node.type == "preproc_call" and re.match(r"#\s*pragma\b", text) is not None) or (
        node.type == "expression_statement" and text.startswith("_Pragma")
    )


# --- text ---------------------------------------------------------------------------------------------------


def edit(code: Code, node: Node, text: str) -> TextEdit:
    return TextEdit(span=code.source.span(node), new_text=text)


def insertion(code: Code, offset: int, text: str) -> TextEdit:
    at = code.source.position(offset)
    return TextEdit(span=Span(start=at, end=at), new_text=text)


def rendered(code: Code, node: Node, replacements: Sequence[Replacement] = ()) -> str:
    """The text of `node` with parts of it replaced; of two that overlap the outer one counts."""
    return rendered_range(code, node.start_byte, node.end_byte, replacements)


def rendered_range(code: Code, start: int, end: int, replacements: Sequence[Replacement] = ()) -> str:
    pieces, at = [], start
    for part, text in sorted(replacements, key=lambda item: (item[0].start_byte, -item[0].end_byte)):
        if part.start_byte < at or part.end_byte > end:
            continue
        pieces.append(code.source.data[at : part.start_byte].decode())
        pieces.append(text)
        at = part.end_byte
    pieces.append(code.source.data[at:end].decode())
    return "".join(pieces)


def indent_of(code: Code, node: Node) -> str:
    """The white space that begins the line of `node`."""
    start = code.source.data.rfind(b"\n", 0, node.start_byte) + 1
    line = code.source.data[start : node.start_byte].decode("utf-8", "replace")
    return line[: len(line) - len(line.lstrip())]


def indent_unit(code: Code) -> str:
    """One step of indentation as this file has it."""
    for body in walk(code.source.root):
        if body.type == "compound_statement" and body.named_children and body.parent is not None:
            inner, outer = indent_of(code, body.named_children[0]), indent_of(code, body.parent)
            if inner.startswith(outer) and len(inner) > len(outer):
                return inner[len(outer) :]
    return "  "


def newline(code: Code) -> str:
    return "\r\n" if b"\r\n" in code.source.data else "\n"


def indented(lines: Sequence[str], indent: str) -> list[str]:
    return [indent + line if line else line for line in lines]


def dedented(text: str, indent: str) -> list[str]:
    """Lines of a node's text, the first as it is, the others without `indent`."""
    first, *rest = text.replace("\r\n", "\n").split("\n")
    return [first, *(line.removeprefix(indent) for line in rest)]


def pragma_text(code: Code, node: Node, words: str) -> str:
    """A pragma for the statement at `node`.

    A directive may not stand in the arguments of a macro (`AT_DISPATCH_…`), its operator form may.
    """
    return f'_Pragma("{words}")' if _is_in_macro(code, node) else f"#pragma {words}"


def with_pragma(code: Code, node: Node, words: str) -> list[TextEdit]:
    """Put a pragma before a loop, in braces where the loop is the whole body of another statement."""
    indent, end = indent_of(code, node), newline(code)
    text = pragma_text(code, node, words)
    if node.parent is not None and node.parent.type in ("compound_statement", "case_statement", "translation_unit"):
        line_start = code.source.data.rfind(b"\n", 0, node.start_byte) + 1
        alone = not code.source.data[line_start : node.start_byte].strip()
        return [
            insertion(code, node.start_byte, f"{text}{end}{indent}" if alone else f"{end}{indent}{text}{end}{indent}")
        ]
    return [
        insertion(code, node.start_byte, f"{{{end}{indent}{text}{end}{indent}"),
        insertion(code, node.end_byte, f"{end}{indent}}}"),
    ]


def _is_in_macro(code: Code, node: Node) -> bool:
    around = enclosing(node, "call_expression")
    while around is not None:
        function = around.child_by_field_name("function")
        if function is not None and re.fullmatch(r"[A-Z][A-Z0-9_]*", code.text(function)):
            return True
        around = enclosing(around, "call_expression")
    return False


def header_text(code: Code, loop: ForLoop, lower: str | None = None, upper: str | None = None) -> str:
    """`for (…)` of a loop, with another range where given, its style kept."""
    replacements: list[Replacement] = []
    if lower is not None:
        replacements.append((loop.lower, lower))
    if upper is not None:
        condition = loop.node.child_by_field_name("condition")
        assert condition is not None
        replacements.append((condition, f"{loop.name} < {upper}"))
    return rendered_range(code, loop.node.start_byte, loop.body.start_byte, replacements).rstrip()


def header_edit(code: Code, loop: ForLoop, text: str) -> TextEdit:
    """`text` in the place of a loop's `for (…)`."""
    start = loop.node.start_byte
    header = code.source.data[start : loop.body.start_byte].rstrip()
    span = Span(start=code.source.position(start), end=code.source.position(start + len(header)))
    return TextEdit(span=span, new_text=text)


def bracketed(text: str) -> str:
    """`text` as an operand: in parentheses unless it is a single term."""
    return text if re.fullmatch(r"[\w.:]+(\([^()]*\)|\[[^\[\]]*\])*", text) else f"({text})"


def exclusive_upper(code: Code, loop: ForLoop) -> str:
    upper = code.text(loop.upper)
    return f"{upper} + 1" if loop.inclusive else upper


def removal(code: Code, statement: Node) -> TextEdit:
    """Take a statement out, with its line where nothing else stands on it."""
    data = code.source.data
    start = data.rfind(b"\n", 0, statement.start_byte) + 1
    end = data.find(b"\n", statement.end_byte)
    end = len(data) if end < 0 else end + 1
    alone = not data[start : statement.start_byte].strip() and not data[statement.end_byte : end].strip()
    span = Span(
        start=code.source.position(start if alone else statement.start_byte),
        end=code.source.position(end if alone else statement.end_byte),
    )
    return TextEdit(span=span, new_text="")


def with_include(code: Code, header: str) -> TextEdit:
    """An `#include` after the last one of the file, or at its top."""
    return after_includes(code, f"#include {header}{newline(code)}")


def after_includes(code: Code, text: str) -> TextEdit:
    """`text` on lines of its own after the file's last `#include`, before anything is declared."""
    includes = [node for node in code.source.root.named_children if node.type == "preproc_include"]
    if includes:
        end = includes[-1].end_byte
        data = code.source.data
        line_end = end if data[end - 1 : end] == b"\n" else data.find(b"\n", end) + 1 or len(data)
        return insertion(code, line_end, text)
    first = next((node for node in code.source.root.named_children if node.type != "comment"), None)
    return insertion(code, 0 if first is None else first.start_byte, text)
