"""Share the outermost independent loop of each nest out among threads."""

from __future__ import annotations

from collections.abc import Mapping

from tree_sitter import Node

from kernel_lsp.domain import Features, Finding, TextEdit
from kernel_lsp.optimize.dependence import Dependence
from kernel_lsp.optimize.rewriting import Declined, called_in_loops, edit, is_parallel, is_pragma, nest_at, with_pragma
from kernel_lsp.optimize.syntax import Code, ForLoop, enclosing, statements
from kernel_lsp.optimize.vectors import clauses
from kernel_lsp.source.parse import ParsedSource


def rewrite(
    source: ParsedSource, features: Features, finding: Finding | None, parameters: Mapping[str, int]
) -> tuple[TextEdit, ...] | Declined:
    code = Code(source)
    dependence = Dependence(code)
    edits: list[TextEdit] = []
    reason = "there is no loop with a plain range that no other loop calls"
    for nest in _nests_of_function(code, finding):
        result = _shared_out(code, dependence, nest, parameters["collapse"])
        if isinstance(result, Declined):
            reason = result.reason
        else:
            edits += result
    return tuple(edits) if edits else Declined(reason)


def _nests_of_function(code: Code, finding: Finding | None) -> list[Node]:
    """All nests of the finding's function: threads that wait in one loop while another is shared out gain little.

    Functions that a loop calls are left alone: their caller's loop is the outer one.
    """
    nests = nest_at(code, finding)
    functions = {enclosing(nest, "function_definition") for nest in nests}
    inner = set(called_in_loops(code))
    return [
        nest
        for nest in nest_at(code, None)
        if (function := enclosing(nest, "function_definition")) in functions
        and (function is None or code.function_name(function) not in inner)
    ]


def _shared_out(
    code: Code, dependence: Dependence, node: Node, collapse: int, *, may_descend: bool = True
) -> list[TextEdit] | Declined:
    """A pragma on the outermost loop of a nest whose iterations are independent, or else on one inside it."""
    if is_parallel(code, node):
        return Declined("the loop runs in parallel already")
    loop = code.loop(node)
    reason = loop if isinstance(loop, str) else None
    if isinstance(loop, ForLoop):
        reductions = dependence.reductions(loop)
        allowed = [] if isinstance(reductions, str) else [r.variable.key for r in reductions]
        reason = dependence.carried(loop, allowed=allowed)
        if reason is None:
            words = "omp parallel for" + ("" if isinstance(reductions, str) else clauses(reductions))
            if collapse == 1:
                return _pragma(code, node, words)
            inner = _perfectly_inside(code, loop)
            if isinstance(inner, Declined):
                return inner
            if (carried := dependence.carried(inner, allowed=allowed)) is not None:
                return Declined(carried)
            return _pragma(code, node, f"{words} collapse(2)")
    if not may_descend:
        return Declined(reason or "its iterations depend on each other")
    body = node.child_by_field_name("body")
    for inside in code.loops(body) if body is not None else []:
        # One level only, and only what holds loops itself: starting threads costs microseconds each time.
        if enclosing(inside, "for_statement") == node and code.loops(inside.child_by_field_name("body")):
            result = _shared_out(code, dependence, inside, collapse, may_descend=False)
            if not isinstance(result, Declined):
                return result
    return Declined(reason or "its iterations depend on each other")


def _pragma(code: Code, node: Node, words: str) -> list[TextEdit]:
    """The pragma on its own, or together with the `omp simd` that the loop has."""
    before = node.prev_named_sibling
    while before is not None and is_pragma(code, before):
        text = code.text(before)
        if "omp simd" in text:
            head, _, tail = words.partition("omp parallel for")
            merged = text.replace("omp simd", f"{head}omp parallel for simd").rstrip()
            extra = "" if all(clause in text for clause in tail.split()) else tail
            return [edit(code, before, _with_line_end(code, before, merged + extra))]
        before = before.prev_named_sibling
    return with_pragma(code, node, words)


def _with_line_end(code: Code, node: Node, text: str) -> str:
    """A directive's node takes its line's end with it."""
    written = code.text(node)
    return text + written[len(written.rstrip()) :]


def _perfectly_inside(code: Code, loop: ForLoop) -> ForLoop | Declined:
    body = statements(loop.body)
    inner = code.loop(body[0]) if len(body) == 1 and body[0].type == "for_statement" else None
    if not isinstance(inner, ForLoop):
        return Declined(f"the body of `{loop.name}` is more than one loop, so the two cannot be collapsed")
    if any(code.mentions(part, loop.variable) for part in inner.range):
        return Declined(f"the range of `{inner.name}` depends on `{loop.name}`")
    return inner
