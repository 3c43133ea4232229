"""Whether a failed compile over the thin layer is the user's own mistake: then torch's headers need not be read.

An answer that is wrong costs a false error, one that is missing costs time: so only mistakes that no header could mend.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kernel_lsp.domain import CompilerMessage, KernelUnit, Severity
from kernel_lsp.source.parse import parse

_TORCH_WORD = re.compile(
    r"\b(?:at|torch|c10|caffe2|py|pybind11|Tensor\w*|Scalar\w*|TensorOptions|IntArrayRef|ArrayRef|scalar_t)\b|kernel_lsp"
)
_TORCH_MACRO = re.compile(r"\b(?:AT|TORCH|C10|CAFFE2|PYBIND11|THO|TH|STD|CUDA|CHECK)_\w+")
_IMPORTED = re.compile(r"\busing\s+namespace\s+(?:::)?(?:at|torch|c10|pybind11|caffe2)\b")

_SYNTAX = re.compile(r"expected .*|missing terminating .*|stray .* in program.*|unterminated .*")
_MISSPELT = re.compile(
    r"[‘'](?P<name>[A-Za-z_]\w*)['’] was not declared in this scope; did you mean [‘'](?P<meant>\w+)['’]\?"
)
_OWN = re.compile(
    r"redeclaration of .*|conflicting declaration .*|assignment of read-only .*|increment of read-only .*"
    r"|too (?:few|many) arguments to function .*|lvalue required .*|jump to case label.*"
    r"|invalid conversion from [‘'](?:const )?(?:float|double|int|char|bool)\b[ *]*['’]"
    r" to [‘'](?:float|double|int|char|bool)\b[ *]*['’].*"
    r"|void value not ignored .*|break statement not within loop or switch|continue statement not within a loop"
)

_NEAR = 2
"""Lines between where the grammar and where the compiler stumble."""


def users_own(messages: Sequence[CompilerMessage], unit: KernelUnit) -> tuple[CompilerMessage, ...]:
    """Those of `messages` to show at once, if the first error is plainly the user's; else nothing."""
    errors = [message for message in messages if message.severity is Severity.ERROR]
    own = tuple(message for message in errors if _is_users(message, unit))
    return own if errors and errors[0] in own else ()


def _is_users(message: CompilerMessage, unit: KernelUnit) -> bool:
    location = message.location
    if location is None or location.path != unit.path or any(place.path != unit.path for place, _ in message.related):
        return False
    if ".scalar_type()" in message.text:
        return True
    lines = unit.text.splitlines()
    number = location.span.start.line
    nearby = "\n".join(lines[max(number - 1, 0) : number + 1])
    if _TORCH_WORD.search(message.text) or _TORCH_MACRO.search(message.text):
        return False
    if _SYNTAX.fullmatch(message.text):
        return not _TORCH_MACRO.search(nearby) and _grammar_stumbles(unit, number)
    if misspelt := _MISSPELT.fullmatch(message.text):
        # A name from a header that the thin layer lacks would hardly resemble one of the user's own.
        meant = re.compile(rf"\b{misspelt['meant']}\b")
        return not _IMPORTED.search(unit.text) and bool(meant.search(unit.text)) and not misspelt["name"].isupper()
    return bool(_OWN.fullmatch(message.text))


def _grammar_stumbles(unit: KernelUnit, line: int) -> bool:
    tree = parse(unit.path, unit.text)
    pending = [tree.root]
    while pending:
        node = pending.pop()
        if (node.is_error or node.is_missing) and node.start_point[0] - _NEAR <= line <= node.end_point[0] + _NEAR:
            return True
        if node.has_error:
            pending.extend(node.children)
    return False
