"""Replace calls of exp, tanh and erf on floats, which a compiler leaves scalar, by arithmetic that vectorises."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kernel_lsp.domain import Features, Finding, TextEdit
from kernel_lsp.optimize.dependence import Dependence
from kernel_lsp.optimize.precision import in_float
from kernel_lsp.optimize.rewriting import Declined, after_includes, edit, innermost_of, nest_at, newline, with_include
from kernel_lsp.optimize.syntax import Code, arguments, walk
from kernel_lsp.optimize.types import expression_type
from kernel_lsp.optimize.vectors import vectorised
from kernel_lsp.source.edits import apply, difference
from kernel_lsp.source.features import features as read_features
from kernel_lsp.source.parse import ParsedSource

HELPERS = Path(__file__).parent / "helpers"
"""One C++ file for each function."""

FUNCTIONS = {
    "exp": "exp",
    "expf": "exp",
    "tanh": "tanh",
    "tanhf": "tanh",
    "erf": "erf",
    "erff": "erf",
}

NEEDS = {"exp": ("exp",), "tanh": ("exp", "tanh"), "erf": ("exp", "erf")}
"""Helpers in the order in which they must stand."""


def rewrite(
    source: ParsedSource, features: Features, finding: Finding | None, parameters: Mapping[str, int]
) -> tuple[TextEdit, ...] | Declined:
    edits = _vectorised(source, features, finding)
    if not isinstance(edits, Declined) or not features.doubles:
        return edits
    # A call may be one in double only because a literal beside it is: mended alone, that gains nothing.
    floats = in_float(source, features, variables=False)
    further = _vectorised(floats, read_features(floats), None)
    return edits if isinstance(further, Declined) else difference(source.text, apply(floats.text, further))


def _vectorised(source: ParsedSource, features: Features, finding: Finding | None) -> tuple[TextEdit, ...] | Declined:
    code = Code(source)
    dependence = Dependence(code)
    edits: list[TextEdit] = []
    needed: list[str] = []
    generic = False
    reason = "the innermost loops call none of exp, tanh and erf on floats"
    for nest in nest_at(code, finding):
        for loop in innermost_of(code, nest):
            calls = [node for node in walk(loop.body) if node.type == "call_expression"]
            replaced = False
            for call in calls:
                name = FUNCTIONS.get(dependence.name_of(call) or "")
                if name is None or len(arguments(call)) != 1 or dependence.is_defined_here(call):
                    continue
                kind = expression_type(code, dependence, call)
                if kind not in ("float", "scalar_t"):
                    reason = (
                        f"`{code.text(call)[:40]}` is computed in {kind or 'a type that is not known'}, not in float"
                    )
                    continue
                function = call.child_by_field_name("function")
                assert function is not None
                edits.append(edit(code, function, f"vector_{name}"))
                needed += [helper for helper in NEEDS[name] if helper not in needed]
                generic = generic or kind == "scalar_t"
                replaced = True
            if replaced:
                pragma = vectorised(code, dependence, loop)
                if not isinstance(pragma, Declined):
                    edits += pragma
    if not edits:
        return Declined(reason)
    return (*edits, *_helpers(code, features, needed, generic=generic))


def _helpers(code: Code, features: Features, needed: list[str], *, generic: bool) -> list[TextEdit]:
    """The functions that are missing, after the includes, and the headers that they use."""
    wanted = [name for name in ("exp", "tanh", "erf") if name in needed and f"vector_{name}" not in code.names]
    texts = [(HELPERS / f"{name}.h").read_text(encoding="utf-8").strip() for name in wanted]
    if generic:
        texts += [f"inline double vector_{name}(double x) {{ return std::{name}(x); }}" for name in wanted]
    if not texts:
        return []
    end = newline(code)
    text = (end + end).join(text.replace("\n", end) for text in texts)
    edits = [
        with_include(code, header)
        for header in ("<cmath>", "<cstdint>", "<cstring>")
        if header not in features.includes
    ]
    return [*edits, after_includes(code, f"{end}{text}{end}")]
