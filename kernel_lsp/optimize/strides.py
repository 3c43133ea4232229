"""How a loop nest walks through memory, whichever of its loops were the innermost."""

from __future__ import annotations

from kernel_lsp.optimize.dependence import Dependence, Use
from kernel_lsp.optimize.syntax import ForLoop


def stride(dependence: Dependence, use: Use, loop: ForLoop) -> int | None:
    """Elements that an access moves with each step of `loop`: 0, 1 or another number; None for more than is known."""
    if use.index is None:
        return None
    key = loop.variable.key
    for position, index in enumerate(use.index):
        if index is None:
            return None
        factors = {monomial: factor for monomial, factor in index.items() if any(key in part for part in monomial)}
        if not factors:
            continue
        last = position == len(use.index) - 1
        return factors.get((key,)) if last and len(factors) == 1 else None
    return 0


def strided_uses(dependence: Dependence, innermost: ForLoop, loop: ForLoop) -> int:
    """How many accesses in the body of `innermost` would jump if `loop` were the innermost loop."""
    uses = dependence.effects(innermost.body, innermost.node).uses
    return sum(stride(dependence, use, loop) not in (0, 1) for use in uses if use.place is not None)


def shared_uses(dependence: Dependence, innermost: ForLoop, along: ForLoop, across: ForLoop) -> int:
    """How many accesses differ along one loop and are the same across the other, so that one load serves many."""
    uses = dependence.effects(innermost.body, innermost.node).uses
    return sum(
        stride(dependence, use, along) != 0 and stride(dependence, use, across) == 0
        for use in uses
        if use.place is not None
    )
