"""Telling the compiler that a loop may run in vectors: the `omp simd` pragma with the reductions it holds."""

from __future__ import annotations

from collections import defaultdict

from kernel_lsp.domain import TextEdit
from kernel_lsp.optimize.dependence import Dependence, Reduction
from kernel_lsp.optimize.rewriting import Declined, is_collapsed, is_simd, with_pragma
from kernel_lsp.optimize.syntax import Code, ForLoop, walk


def vectorised(code: Code, dependence: Dependence, loop: ForLoop) -> list[TextEdit] | Declined:
    """`#pragma omp simd` over an innermost loop, with its sums, products, maxima and minima as reductions."""
    if is_simd(code, loop.node):
        return Declined(f"the loop over `{loop.name}` is marked as a vector loop already")
    if is_collapsed(code, loop.node):
        return Declined(f"the loop over `{loop.name}` is collapsed into the one around it")
    reductions = dependence.reductions(loop)
    if isinstance(reductions, str):
        return Declined(reductions)
    if any(node.type == "break_statement" for node in walk(loop.body)):
        return Declined(f"the loop over `{loop.name}` may end early")
    if (reason := dependence.carried(loop, allowed=[r.variable.key for r in reductions])) is not None:
        return Declined(reason)
    return with_pragma(code, loop.node, "omp simd" + clauses(reductions))


def clauses(reductions: list[Reduction]) -> str:
    """` reduction(+:a, b) reduction(max:c)`."""
    named: dict[str, list[str]] = defaultdict(list)
    for reduction in reductions:
        if reduction.variable.name not in named[reduction.operator]:
            named[reduction.operator].append(reduction.variable.name)
    return "".join(f" reduction({operator}:{', '.join(names)})" for operator, names in named.items())
