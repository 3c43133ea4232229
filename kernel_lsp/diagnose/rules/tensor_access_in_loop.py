"""KL510: a loop over elements goes through Torch for each of them."""

from __future__ import annotations

from collections.abc import Iterable

from kernel_lsp.diagnose.context import Context, percent
from kernel_lsp.diagnose.rule import Claim, Documentation, Rule
from kernel_lsp.domain import Evidence

TORCH_LIBRARIES = ("libtorch", "libc10", "at::", "c10::", "torch::")
"""What `Profile.outside` calls torch's own code."""


def check(context: Context) -> Iterable[Claim]:
    for loop in context.features.loops:
        reads = [call for call in context.calls(loop) if call.name == "item" and call.receiver is not None]
        if not reads:
            continue
        inside, torch = context.share(loop), context.outside(TORCH_LIBRARIES)
        share = None if inside is None or torch is None else min(1.0, inside + torch)
        first = reads[0]
        evidence = [
            *context.samples_evidence(share),
            Evidence(name="calls in the loop", value=str(len(reads)), source="source"),
        ]
        if torch is not None:
            evidence.append(Evidence(name="samples inside torch", value=percent(torch), source="perf"))
        yield Claim(
            message=f"`{first.receiver}.item()` passes Torch's dispatcher for a single element in every iteration: "
            "take a pointer or an accessor before the loop.",
            span=first.span,
            function=loop.function,
            loop=loop,
            evidence=tuple(evidence),
            share=share,
            saved=1 - LOAD_NS / CALL_NS,
        )


CALL_NS = 1000.0
"""Indexing a tensor and reading its item passes the dispatcher twice: about a microsecond (measured, torch 2.13)."""

LOAD_NS = 1.0
"""A load through a pointer that hits the cache, at 4 to 5 cycles."""


RULE = Rule(
    code="KL510",
    name="tensor-access-in-loop",
    title="A loop over elements goes through Torch for each of them.",
    skills=("index-raw-pointers",),
    check=check,
    documentation=Documentation(
        what_it_is="""\
`x[i][j].item<float>()` in a loop.
""",
        why_it_is_slow="""\
Each `[]` on a tensor makes a new tensor and `item` copies one element out of it: two passes through Torch's dispatcher
and an allocation, about a microsecond, where a load through a pointer takes a nanosecond.
""",
        how_it_is_measured="""\
The calls come from the text. The samples that they cost fall into Torch's libraries and are added to the loop's own.

Headroom: (share of samples in the loop + share inside Torch's libraries) × (1 − 1 ns / 1 µs).
""",
        example="""\
float total(const torch::Tensor& x) {
  float sum = 0.0f;
  for (int64_t i = 0; i < x.size(0); ++i)
    sum += x[i].item<float>();
  return sum;
}
""",
        instead="""\
float total(const torch::Tensor& x) {
  const auto values = x.accessor<float, 1>();
  float sum = 0.0f;
  for (int64_t i = 0; i < values.size(0); ++i)
    sum += values[i];
  return sum;
}
""",
        thresholds="""\
- 1 µs for an indexed `item`, 1 ns for a load: orders of magnitude, not measured on each machine.
""",
    ),
)
