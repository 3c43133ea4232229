"""What the operations of a loop cost and whether they may be reordered; shared by the rules on computation."""

from __future__ import annotations

from kernel_lsp.diagnose.context import Context
from kernel_lsp.diagnose.mathematics import costly_function
from kernel_lsp.domain import Call, Loop, Reduction

ADD_CYCLES = 4
"""Latency of a float addition: Agner Fog's instruction tables, Intel Skylake to Ice Lake (3 on AMD Zen)."""

STORE_FORWARD_CYCLES = 5
"""From a store to a load of the same address: Agner Fog's microarchitecture manual, Intel Skylake to Golden Cove."""

FLOATING = frozenset({"float", "double", "scalar_t", "acc_t", "accscalar_t", "opmath_t", "at::Half", "c10::Half"})
"""Types whose operations the compiler may not reorder. The names of torch's dispatch macros and of ATen's idiom stand
for a floating type: kernels over integers alone are rare and lose nothing by a hint."""


def ordered_reductions(context: Context, loop: Loop) -> list[Reduction]:
    """Reductions of `loop` into plain floating-point variables that the compiler may not reorder."""
    if loop.is_simd:
        return []
    return [r for r in context.reductions(loop) if not r.through_memory and _is_floating(r.type)]


def costly_calls(context: Context, loop: Loop) -> list[Call]:
    """Calls of costly mathematical functions in `loop` itself."""
    return [call for call in context.calls(loop) if costly_function(call.name) is not None]


def _is_floating(type_name: str | None) -> bool:
    if type_name is None:
        return False
    return type_name.replace("const", "").replace("volatile", "").strip() in FLOATING
