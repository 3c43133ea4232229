"""`AT_DISPATCH_*` spelled as a call, so that the code in it keeps its lines.

Compilers put everything inside a macro's arguments on one line, so a kernel written in `AT_DISPATCH_FLOATING_TYPES`
would be profiled as a single line. In the copy that is compiled over the thin layer, the macro becomes a function
template and its lambda a generic one. The code generated is the same; where the copy does not compile (a name that
now depends on `scalar_t` may want `typename`), the text is compiled as it stands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from kernel_lsp.build.content import TOKENS
from kernel_lsp.domain import CompilerMessage, Location, Position, Span

_INTEGRAL = ("Byte", "Char", "Int", "Long", "Short")
_FLOATING = ("Double", "Float")
_COMPLEX = ("ComplexDouble", "ComplexFloat")

_FAMILIES = {
    "FLOATING_TYPES": _FLOATING,
    "FLOATING_TYPES_AND_HALF": (*_FLOATING, "Half"),
    "REDUCED_FLOATING_TYPES": ("Half", "BFloat16"),
    "COMPLEX_TYPES": _COMPLEX,
    "FLOATING_AND_COMPLEX_TYPES": (*_FLOATING, *_COMPLEX),
    "INTEGRAL_TYPES": _INTEGRAL,
    "ALL_TYPES": (*_INTEGRAL, *_FLOATING),
    "ALL_TYPES_AND_COMPLEX": (*_INTEGRAL, *_FLOATING, *_COMPLEX),
    "INDEX_TYPES": ("Int", "Long"),
}
"""As in ATen/Dispatch.h."""

_MACRO = re.compile(r"AT_DISPATCH_(?P<family>[A-Z_]*?TYPES(?:_AND_HALF|_AND_COMPLEX)?)(?:_AND(?P<more>\d?))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """`text[start:end]` became `new`, on as many lines."""

    start: int
    end: int
    new: str


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    start: int
    end: int


def spelled_out(text: str) -> tuple[str, tuple[Change, ...]]:
    """`text` with its dispatch macros as calls, and what was changed; line numbers stay."""
    tokens = [
        _Token(found[0], found.start(), found.end())
        for found in TOKENS.finditer(text)
        if found.lastgroup not in ("comment", "space", "newline")
    ]
    changes: list[Change] = []
    for index, token in enumerate(tokens):
        if (macro := _MACRO.fullmatch(token.text)) and macro["family"] in _FAMILIES:
            extra = 0 if macro["more"] is None else int(macro["more"] or 1)
            changes += _call(text, tokens, index, _FAMILIES[macro["family"]], extra)
    parts, at = [], 0
    for change in sorted(changes, key=lambda change: change.start):
        if change.start < at:
            return text, ()
        parts += [text[at : change.start], change.new]
        at = change.end
    return "".join([*parts, text[at:]]), tuple(sorted(changes, key=lambda change: change.start))


def _call(text: str, tokens: list[_Token], index: int, family: tuple[str, ...], extra: int) -> list[Change]:
    """The changes for one use; none where it does not have the usual form."""
    arguments = _arguments(tokens, index + 1)
    if len(arguments) != extra + 3 or _in_directive(text, tokens[index].start):
        return []
    function = arguments[-1]
    if tokens[function[0]].text != "[":
        return []
    closing = next((i for i in range(*function) if tokens[i].text == "]"), None)
    if closing is None or closing + 1 >= function[1] or tokens[closing + 1].text not in ("{", "("):
        return []
    types = [f"::at::ScalarType::{name}" for name in family]
    types += [text[tokens[first].start : tokens[last - 1].end] for first, last in arguments[:extra]]
    start, end = tokens[index].start, tokens[arguments[extra][0]].start
    name = "index_t" if family == _FAMILIES["INDEX_TYPES"] else "scalar_t"
    parameters = f"<typename {name}>" + ("" if tokens[closing + 1].text == "(" else "()")
    head = f"::kernel_lsp::dispatch<{', '.join(' '.join(part.split()) for part in types)}>("
    return [
        Change(start=start, end=end, new=head + "\n" * text.count("\n", start, end)),
        Change(start=tokens[closing].end, end=tokens[closing].end, new=parameters),
    ]


def _arguments(tokens: list[_Token], opening: int) -> list[tuple[int, int]]:
    """First and one-past-last token of each argument of a call whose parenthesis is at `opening`."""
    if opening >= len(tokens) or tokens[opening].text != "(":
        return []
    found: list[tuple[int, int]] = []
    depth, first = 0, opening + 1
    for i in range(opening, len(tokens)):
        match tokens[i].text:
            case "(" | "[" | "{":
                depth += 1
            case ")" | "]" | "}":
                depth -= 1
                if depth == 0:
                    return [*found, (first, i)] if first < i else found
            case "," if depth == 1:
                if first == i:
                    return []
                found.append((first, i))
                first = i + 1
    return []


def _in_directive(text: str, offset: int) -> bool:
    start = text.rfind("\n", 0, offset) + 1
    while start > 1 and text[: start - 1].endswith("\\"):
        start = text.rfind("\n", 0, start - 1) + 1
    return text[start:offset].lstrip().startswith("#")


def placed_back(message: CompilerMessage, text: str, changes: tuple[Change, ...]) -> CompilerMessage:
    """`message` about the changed text, with its columns in `text`."""

    def back(location: Location) -> Location:
        span = location.span
        return replace(location, span=Span(start=_back(span.start, text, changes), end=_back(span.end, text, changes)))

    return replace(
        message,
        location=None if message.location is None else back(message.location),
        related=tuple((back(place), note) for place, note in message.related),
    )


def _back(position: Position, text: str, changes: tuple[Change, ...]) -> Position:
    column = position.column
    for change in changes:
        line = text.count("\n", 0, change.start)
        if line != position.line or "\n" in change.new:
            continue
        begin = len(text[text.rfind("\n", 0, change.start) + 1 : change.start].encode(errors="surrogateescape"))
        length = len(change.new.encode(errors="surrogateescape"))
        old = len(text[change.start : change.end].encode(errors="surrogateescape"))
        if column >= begin + length:
            column += old - length
        elif column > begin:
            column = begin + old
    return Position(line=position.line, column=max(column, 0))
