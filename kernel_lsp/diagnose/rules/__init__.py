"""The registry: every rule, in the order of codes."""

from __future__ import annotations

from kernel_lsp.diagnose.rule import Rule
from kernel_lsp.diagnose.rules import (
    accumulation_through_memory,
    allocation_in_loop,
    at_the_compute_limit,
    at_the_memory_limit,
    double_in_float_kernel,
    invariant_work_in_loop,
    loop_not_vectorised,
    no_cache_reuse,
    not_parallel,
    reduction_dependency_chain,
    strided_inner_access,
    tensor_access_in_loop,
)

RULES: tuple[Rule, ...] = (
    strided_inner_access.RULE,
    loop_not_vectorised.RULE,
    not_parallel.RULE,
    accumulation_through_memory.RULE,
    reduction_dependency_chain.RULE,
    no_cache_reuse.RULE,
    double_in_float_kernel.RULE,
    at_the_memory_limit.RULE,
    at_the_compute_limit.RULE,
    tensor_access_in_loop.RULE,
    invariant_work_in_loop.RULE,
    allocation_in_loop.RULE,
)

LIMITS: tuple[Rule, ...] = (at_the_memory_limit.RULE, at_the_compute_limit.RULE)
"""Where one of these holds, nothing is left to gain and no other rule is asked."""
