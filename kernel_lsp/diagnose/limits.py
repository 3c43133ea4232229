"""Whether a kernel stands at one of the device's limits; shared by the two rules that say so."""

from __future__ import annotations

from kernel_lsp.diagnose.context import Context
from kernel_lsp.domain import Function

AT_THE_LIMIT = 0.85
"""Part of a measured ceiling from which a kernel counts as being at it.*"""


def kernel_function(context: Context) -> Function | None:
    """The function that the kernel's time is spent in; without samples the one with the most loops."""
    counts: dict[str, int] = {}
    for loop in context.features.loops:
        counts[loop.function] = counts.get(loop.function, 0) + 1
    functions = context.features.functions
    return max(functions, key=lambda f: (context.share(f.span) or 0.0, counts.get(f.qualified_name, 0)), default=None)
