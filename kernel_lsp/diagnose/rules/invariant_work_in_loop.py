"""KL511: the innermost loop computes the same costly value in every step."""

from __future__ import annotations

from collections.abc import Iterable

from kernel_lsp.diagnose.context import Context, is_short
from kernel_lsp.diagnose.rule import Claim, Documentation, Rule
from kernel_lsp.domain import Evidence


def check(context: Context) -> Iterable[Claim]:
    for loop in context.innermost():
        if is_short(loop):
            continue
        work = [item for item in context.invariants(loop) if item.operation not in CHEAP]
        if not work:
            continue
        first, *others = work
        evidence = [
            *context.samples_evidence(context.work_share(first)),
            Evidence(name="invariant", value=first.text, source="source"),
        ]
        if others:
            listed = ", ".join(dict.fromkeys(item.text for item in others))
            evidence.append(Evidence(name="also", value=listed, source="source"))
        variable = f"`{loop.variable}`" if loop.variable else "the loop"
        yield Claim(
            message=f"`{first.text}` does not depend on {variable}, yet is computed in every iteration: "
            "compute it once before the loop.",
            span=first.span,
            function=loop.function,
            loop=loop,
            evidence=tuple(evidence),
            share=context.work_share(first),
            saved=1.0,
        )


CHEAP = frozenset({"/", "%"})
"""The compiler moves an invariant division out of the loop by itself, for division cannot change `errno`."""


RULE = Rule(
    code="KL511",
    name="invariant-work-in-loop",
    title="The innermost loop computes the same costly value in every step.",
    skills=("hoist-invariant",),
    check=check,
    documentation=Documentation(
        what_it_is="""\
A call such as `std::sqrt(variance + eps)` in an innermost loop that changes none of its operands.
""",
        why_it_is_slow="""\
Such a function takes 10 to 100 cycles. The compiler may not move it out of the loop by itself, for the C library's
functions may set `errno`, and a store in the loop might change an operand that lives in memory.
""",
        how_it_is_measured="""\
From the text: none of the names in the call is assigned in the loop or varies with it. Divisions are left out, because
compilers move those.

Headroom: share of samples on the call's lines, with the function's own where nothing else calls it.
""",
        example="""\
void normalise(const float* x, float* y, const float* mean, const float* variance, int64_t rows, int64_t cols) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j)
      y[i * cols + j] = (x[i * cols + j] - mean[i]) * std::pow(variance[i] + 1e-5f, -0.5f);
}
""",
        instead="""\
void normalise(const float* x, float* y, const float* mean, const float* variance, int64_t rows, int64_t cols) {
  for (int64_t i = 0; i < rows; ++i) {
    const float centre = mean[i];
    const float scale = std::pow(variance[i] + 1e-5f, -0.5f);
    for (int64_t j = 0; j < cols; ++j)
      y[i * cols + j] = (x[i * cols + j] - centre) * scale;
  }
}
""",
        thresholds="""\
- Literal loops of at most 16 steps are left out: compilers unroll them (ours).
""",
    ),
)
