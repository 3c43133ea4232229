"""KL509: the kernel computes as fast as this machine can; nothing is left to gain."""

from __future__ import annotations

from collections.abc import Iterable

from kernel_lsp.diagnose.context import Context, percent
from kernel_lsp.diagnose.limits import AT_THE_LIMIT, kernel_function
from kernel_lsp.diagnose.rule import Claim, Documentation, Rule
from kernel_lsp.domain import Evidence, Loop, Severity, Span


def check(context: Context) -> Iterable[Claim]:
    roofline = context.roofline
    if roofline is None or roofline.limit != "compute" or roofline.share < AT_THE_LIMIT:
        return
    function = kernel_function(context)
    yield Claim(
        message=f"At {percent(roofline.share)} of the compute limit: nothing is left to gain here but by fewer "
        "operations or lower precision.",
        span=function.name_span if function else Span.line(0),
        function=function.qualified_name if function else "",
        evidence=(
            Evidence(name="compute limit reached", value=percent(roofline.share), source="roofline"),
            Evidence(name="operations", value=f"{(roofline.flops or 0) / 1e9:.2f} GFLOP", source="reference"),
            Evidence(name="time", value=f"{roofline.time_us:.1f} µs", source="timing"),
        ),
    )


def rules_out(context: Context, loop: Loop) -> str | None:
    if context.roofline is None or context.roofline.compute_share is None:
        return None
    return f"not the compute limit: {percent(context.roofline.compute_share)} of it is reached"


RULE = Rule(
    code="KL509",
    name="at-the-compute-limit",
    title="The kernel computes as fast as this machine can; nothing is left to gain.",
    skills=(),
    check=check,
    rules_out=rules_out,
    severity=Severity.INFORMATION,
    documentation=Documentation(
        what_it_is="""\
A result and no fault: the operations that the reference needs take most of the measured time already.
""",
        why_it_is_slow="""\
It is not: no rewrite with the same operations is faster on this machine. What can help is an algorithm with fewer
operations (a fast convolution, symmetry, sparsity) or lower precision.
""",
        how_it_is_measured=f"""\
Operations that Torch counts on the reference over the peak that fused multiply-adds over all threads reach on this
machine, against the median time. At {percent(AT_THE_LIMIT)} or more this is reported and nothing else is.
Where Torch cannot count the operations nothing is said. There is no headroom to state.
""",
        example="""\
void horner(const float* x, float* y, int64_t n) {
#pragma omp parallel for simd
  for (int64_t i = 0; i < n; ++i) {
    float value = 0.0f;
    for (int term = 0; term < 64; ++term)
      value = value * x[i] + 1.0f;
    y[i] = value;
  }
}
""",
        instead="""\
void horner(const float* x, float* y, int64_t n) {
#pragma omp parallel for simd
  for (int64_t i = 0; i < n; ++i)
    y[i] = (1.0f - std::pow(x[i], 64.0f)) / (1.0f - x[i]);
}
""",
        thresholds=f"""\
- {percent(AT_THE_LIMIT)} of the measured peak (ours).
""",
    ),
)
