"""KL505: each step of a sum waits for the one before it."""

from __future__ import annotations

from collections.abc import Iterable

from kernel_lsp.diagnose.arithmetic import ADD_CYCLES, costly_calls, ordered_reductions
from kernel_lsp.diagnose.context import Context, is_short
from kernel_lsp.diagnose.rule import Claim, Documentation, Rule
from kernel_lsp.domain import Evidence

ENOUGH_ACCUMULATORS = ADD_CYCLES
"""So many independent totals hide the latency of an addition; the chain then costs nothing more."""


ACTIONS = {
    "+": "addition to",
    "-": "subtraction from",
    "*": "multiplication of",
    "max": "comparison with",
    "min": "comparison with",
}


def check(context: Context) -> Iterable[Claim]:
    for loop in context.innermost():
        if is_short(loop):
            continue
        chains = ordered_reductions(context, loop)
        # A call costs more than the addition that waits for it, and its work does not depend on the total.
        if not chains or len(chains) >= ENOUGH_ACCUMULATORS or costly_calls(context, loop):
            continue
        chain = chains[0]
        share = context.share(loop)
        said = next((remark for remark in context.remarks(loop) if remark.vectorized), None)
        evidence = [
            *context.samples_evidence(share),
            Evidence(name="accumulator", value=f"{chain.type or 'float'} {chain.target}", source="source"),
            Evidence(name="latency per step", value=f"{ADD_CYCLES} cycles", source="instruction tables"),
        ]
        if said is not None:
            evidence.append(
                Evidence(name="vectoriser", value=f"{said.reason}, in strict order", source="-fopt-info-vec-optimized")
            )
        yield Claim(
            message=f"Each step waits for the previous {ACTIONS[chain.operator]} `{chain.target}`: "
            "floating-point operations keep their order, so one lane works and the others wait.",
            span=chain.span,
            function=loop.function,
            loop=loop,
            evidence=tuple(evidence),
            share=share,
            saved=1 - 1 / (ADD_CYCLES * context.lanes),
            explained_by=("KL510", "KL512", "KL501"),
        )


RULE = Rule(
    code="KL505",
    name="reduction-dependency-chain",
    title="Each step of a sum waits for the one before it.",
    skills=(
        "simd-reduction",
        "vectorise-exp",
        "accumulate-in-register",
        "interchange-loops",
        "tile-for-cache",
        "hoist-invariant",
        "index-raw-pointers",
    ),
    check=check,
    documentation=Documentation(
        what_it_is="""\
A floating-point sum, product, maximum or minimum over an innermost loop with a single total.
""",
        why_it_is_slow=f"""\
Floating-point addition is not associative, so without leave to reorder the compiler adds one element after another.
Each addition takes {ADD_CYCLES} cycles and waits for the one before, though the processor could start two vectors of
them in every cycle. g++ says "vectorized" of such a loop, for it loads vectors; it still adds lane by lane.
""",
        how_it_is_measured=f"""\
The reduction and the type of its total come from the text. Nothing is said of integer totals (the compiler reorders
those), under `#pragma omp simd`, where there are {ENOUGH_ACCUMULATORS} independent totals or more, and where the loop
calls a function such as `exp`, which takes longer than the addition. In a loop with strided access (KL501) the misses
hide the chain, and this finding folds under that one. A running total that every step also stores (a prefix sum) has
the same chain; breaking it takes another algorithm.

Headroom: share of samples in the loop × (1 − 1 / ({ADD_CYCLES} × lanes)): so many partial sums can be under way.
""",
        example="""\
float mean(const float* x, int64_t n) {
  float total = 0.0f;
  for (int64_t i = 0; i < n; ++i)
    total += x[i];
  return total / static_cast<float>(n);
}
""",
        instead="""\
float mean(const float* x, int64_t n) {
  float total = 0.0f;
#pragma omp simd reduction(+ : total)
  for (int64_t i = 0; i < n; ++i)
    total += x[i];
  return total / static_cast<float>(n);
}
""",
        thresholds=f"""\
- {ADD_CYCLES} cycles: latency of a float addition on Intel Skylake to Ice Lake; 3 on AMD Zen (Agner Fog's
  instruction tables).
- Literal loops of at most 16 steps are left out: compilers unroll them (ours).
""",
    ),
)
