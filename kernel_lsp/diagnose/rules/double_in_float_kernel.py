"""KL507: a literal or function of type double drags float arithmetic into double precision."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from kernel_lsp.diagnose.context import Context
from kernel_lsp.diagnose.rule import Claim, Documentation, Rule
from kernel_lsp.domain import DoubleUse, Evidence

ACCIDENTAL = ("literal", "function")
"""A `double` variable or a cast is written on purpose, mostly to keep a sum precise: those are not reported."""


def check(context: Context) -> Iterable[Claim]:
    by_loop: dict[int, list[DoubleUse]] = defaultdict(list)
    for use in context.features.doubles:
        if use.loop is not None and use.why in ACCIDENTAL:
            by_loop[use.loop].append(use)
    for loop_id, uses in by_loop.items():
        loop = context.features.loops[loop_id]
        first, *others = uses
        share = context.share(loop)
        evidence = [
            *context.samples_evidence(share),
            Evidence(name=f"double {first.why}", value=first.text, source="source"),
        ]
        if others:
            evidence.append(Evidence(name="also", value=", ".join(use.text for use in others), source="source"))
        yield Claim(
            message=f"`{first.text}` is a double, so the float arithmetic around it is done in double precision"
            f"{_more(others)}.",
            span=first.span,
            function=loop.function,
            loop=loop,
            evidence=tuple(evidence),
            share=share,
            saved=1 / 2,
        )


def _more(others: list[DoubleUse]) -> str:
    if not others:
        return ""
    listed = ", ".join(f"`{text}`" for text in dict.fromkeys(use.text for use in others))
    return f" (as with {listed} in this loop)"


RULE = Rule(
    code="KL507",
    name="double-in-float-kernel",
    title="A literal or function of type double drags float arithmetic into double precision.",
    skills=("float-literals", "vectorise-exp"),
    check=check,
    on_device=True,
    documentation=Documentation(
        what_it_is="""\
`0.5 * x` or `exp(x)` on a `float x` in a loop: the literal is a `double`, the function is C's for `double`.
""",
        why_it_is_slow="""\
The float is converted, the operation done in double precision, and the result converted back. A vector holds half as
many doubles as floats, and the functions for `double` take about twice as long.
""",
        how_it_is_measured="""\
From the text: literals without an `f` and unqualified calls of the C functions, in loops over float data. Variables
of type `double` and casts are taken as meant and not reported. One finding for each loop.

Headroom: share of samples in the loop × 1/2, for half the lanes.
""",
        example="""\
void gelu(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    y[i] = 0.5 * x[i] * (1.0 + std::tanh(0.79788456 * (x[i] + 0.044715 * x[i] * x[i] * x[i])));
}
""",
        instead="""\
void gelu(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    y[i] = 0.5f * x[i] * (1.0f + std::tanh(0.79788456f * (x[i] + 0.044715f * x[i] * x[i] * x[i])));
}
""",
        thresholds="""\
None: lanes follow from the sizes of `float` (4 bytes) and `double` (8 bytes).
""",
    ),
)
