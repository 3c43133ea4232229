"""KL504: every step of a sum loads the total from memory and stores it back."""

from __future__ import annotations

from collections.abc import Iterable

from kernel_lsp.diagnose.arithmetic import ADD_CYCLES, STORE_FORWARD_CYCLES
from kernel_lsp.diagnose.context import Context, is_short
from kernel_lsp.diagnose.rule import Claim, Documentation, Rule
from kernel_lsp.domain import Evidence, Loop, Reduction

PROMOTED = 0.05
"""Stores per access on the statement's lines below which the compiler kept the total in a register itself.*"""


def check(context: Context) -> Iterable[Claim]:
    for loop in context.innermost():
        if is_short(loop):
            continue
        for reduction in context.reductions(loop):
            if reduction.through_memory:
                yield from _claim(context, loop, reduction)


def _claim(context: Context, loop: Loop, reduction: Reduction) -> Iterable[Claim]:
    counts = context.cache([reduction.span])
    if counts is not None and counts.writes < PROMOTED * counts.accesses:
        return
    share = context.share(loop)
    evidence = [
        *context.samples_evidence(share),
        Evidence(name="accumulator", value=reduction.target, source="source"),
    ]
    if counts is not None:
        stores = counts.writes / counts.accesses
        evidence.append(Evidence(name="stores per access", value=f"{stores:.2f}", source="cachegrind"))
    where = f"with every step of `{loop.variable}`" if loop.variable else "in every iteration"
    yield Claim(
        message=f"`{reduction.target}` is loaded and stored {where}, though it stays the same element: "
        "add up in a local variable and store once.",
        span=reduction.span,
        function=loop.function,
        loop=loop,
        evidence=tuple(evidence),
        share=share,
        saved=1 - ADD_CYCLES / (ADD_CYCLES + STORE_FORWARD_CYCLES),
    )


def rules_out(context: Context, loop: Loop) -> str | None:
    targets = [reduction for reduction in context.reductions(loop) if reduction.through_memory]
    counts = context.cache(reduction.span for reduction in targets)
    if counts is None or counts.writes >= PROMOTED * counts.accesses:
        return None
    return (
        f"not accumulation through memory: {counts.writes / counts.accesses:.3f} stores per access, "
        "the compiler keeps the total in a register"
    )


RULE = Rule(
    code="KL504",
    name="accumulation-through-memory",
    title="Every step of a sum loads the total from memory and stores it back.",
    skills=("accumulate-in-register", "restrict-pointers", "simd-reduction", "index-raw-pointers"),
    check=check,
    rules_out=rules_out,
    documentation=Documentation(
        what_it_is="""\
`out[i] += …` in an innermost loop that does not change `i`: the total lives in memory between the steps.
""",
        why_it_is_slow="""\
The compiler must assume that the arrays read in the loop may overlap with the one written, so it cannot keep the
total in a register. Each step then waits for the previous step's store to be forwarded to its load, on top of the
addition, and the loop cannot be vectorised.
""",
        how_it_is_measured=f"""\
The statement comes from the text. Cachegrind counts the stores on its lines: below {PROMOTED} per access the
compiler kept the total in a register (as it may with `__restrict__`), and nothing is said.

Headroom: share of samples in the loop × (1 − {ADD_CYCLES} / ({ADD_CYCLES} + {STORE_FORWARD_CYCLES})):
a step costs the latency of an addition instead of an addition and a forwarded store. What the vectoriser can gain
afterwards is KL505's.
""",
        example="""\
void row_sums(const float* x, float* out, int64_t rows, int64_t cols) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j)
      out[i] += x[i * cols + j];
}
""",
        instead="""\
void row_sums(const float* x, float* out, int64_t rows, int64_t cols) {
  for (int64_t i = 0; i < rows; ++i) {
    float total = out[i];
    for (int64_t j = 0; j < cols; ++j)
      total += x[i * cols + j];
    out[i] = total;
  }
}
""",
        thresholds=f"""\
- {ADD_CYCLES} cycles for a float addition, {STORE_FORWARD_CYCLES} for store-to-load forwarding:
  Agner Fog's instruction tables and microarchitecture manual, Intel Skylake to Golden Cove; AMD Zen is within
  a cycle or two of both.
- {PROMOTED} stores per access (ours).
""",
    ),
)
