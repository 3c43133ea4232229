"""Float arithmetic kept in float: literals, functions, casts and, where asked, variables of type double."""

from __future__ import annotations

import re

from kernel_lsp.domain import DoubleUse, Features, TextEdit
from kernel_lsp.optimize.rewriting import with_include
from kernel_lsp.optimize.syntax import Code
from kernel_lsp.source.edits import apply
from kernel_lsp.source.features import features as read_features
from kernel_lsp.source.parse import ParsedSource, parse

_LITERAL = re.compile(r"(\d[\d']*\.?[\d']*|\.\d[\d']*)([eE][-+]?\d+)?")


def in_float(source: ParsedSource, features: Features, *, variables: bool) -> ParsedSource:
    """`source` without the doubles that creep into float data; `source` itself where there are none to mend."""
    current, known = source, features
    while edits := _edits(current, known, variables=variables):
        # Only now that its argument is float may a function be seen to be the double one.
        current = parse(source.path, apply(current.text, edits))
        known = read_features(current)
    return current


def _edits(source: ParsedSource, features: Features, *, variables: bool) -> tuple[TextEdit, ...]:
    code = Code(source)
    edits: list[TextEdit] = []
    for use in features.doubles:
        changed = _in_float(code, use, variables=variables)
        if changed is not None:
            edits.append(TextEdit(span=use.span, new_text=changed))
    needs_math = any(made.new_text.startswith("std::") for made in edits)
    if needs_math and not {"<cmath>", "<math.h>", "<torch/extension.h>"} & set(features.includes):
        edits.append(with_include(code, "<cmath>"))
    return tuple(edits)


def _in_float(code: Code, use: DoubleUse, *, variables: bool) -> str | None:
    """The same in float; None where it is left as it is."""
    match use.why:
        case "literal":
            return f"{use.text}f" if _LITERAL.fullmatch(use.text) else None
        case "function":
            name = use.text.removeprefix("std::").removeprefix("::")
            return f"std::{name}" if re.fullmatch(r"[a-z0-9]+", name) and use.text != f"std::{name}" else None
        case "cast":
            changed = re.sub(r"\bdouble\b", "float", use.text)
            return changed if changed != use.text else None
        case "variable":
            changed = re.sub(r"\bdouble\b", "float", code.source.text_at(use.span))
            return changed if variables and changed != code.source.text_at(use.span) else None
    return None
