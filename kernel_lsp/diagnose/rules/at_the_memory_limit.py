"""KL508: the kernel moves its data as fast as this machine's memory does; nothing is left to gain."""

from __future__ import annotations

from collections.abc import Iterable

from kernel_lsp.diagnose.context import Context, percent
from kernel_lsp.diagnose.limits import AT_THE_LIMIT, kernel_function
from kernel_lsp.diagnose.rule import Claim, Documentation, Rule
from kernel_lsp.domain import Evidence, Loop, Severity, Span


def check(context: Context) -> Iterable[Claim]:
    roofline = context.roofline
    if roofline is None or roofline.limit != "memory" or roofline.share < AT_THE_LIMIT:
        return
    function = kernel_function(context)
    yield Claim(
        message=f"At {percent(roofline.share)} of the memory limit: nothing is left to gain here but by fusing "
        "with a neighbouring operation or by a narrower type.",
        span=function.name_span if function else Span.line(0),
        function=function.qualified_name if function else "",
        evidence=(
            Evidence(name="memory limit reached", value=percent(roofline.memory_share), source="roofline"),
            Evidence(
                name="bytes that must move", value=f"{roofline.compulsory_bytes / 1e6:.1f} MB", source="reference"
            ),
            Evidence(name="time", value=f"{roofline.time_us:.1f} µs", source="timing"),
        ),
    )


def rules_out(context: Context, loop: Loop) -> str | None:
    if context.roofline is None:
        return None
    return f"not the memory limit: {percent(context.roofline.memory_share)} of it is reached"


RULE = Rule(
    code="KL508",
    name="at-the-memory-limit",
    title="The kernel moves its data as fast as this machine's memory does; nothing is left to gain.",
    skills=(),
    check=check,
    rules_out=rules_out,
    severity=Severity.INFORMATION,
    documentation=Documentation(
        what_it_is="""\
A result and no fault: reading every input once and writing every output once takes most of the measured time already.
""",
        why_it_is_slow="""\
It is not: no rewrite of this kernel alone moves fewer bytes. What can help is fusing it with the operation before or
after it, so that a tensor is not written and read again, or a narrower type.
""",
        how_it_is_measured=f"""\
Compulsory bytes (inputs and outputs, once each) over the bandwidth that a triad over all threads reaches on this
machine, against the median time. At {percent(AT_THE_LIMIT)} or more this is reported and nothing else is.
There is no headroom to state.
""",
        example="""\
void add(const float* x, const float* y, float* z, int64_t n) {
#pragma omp parallel for simd
  for (int64_t i = 0; i < n; ++i)
    z[i] = x[i] + y[i];
}
""",
        instead="""\
void add_relu(const float* x, const float* y, float* z, int64_t n) {
#pragma omp parallel for simd
  for (int64_t i = 0; i < n; ++i)
    z[i] = x[i] + y[i] > 0.0f ? x[i] + y[i] : 0.0f;
}
""",
        thresholds=f"""\
- {percent(AT_THE_LIMIT)} of the measured bandwidth (ours).
""",
    ),
)
