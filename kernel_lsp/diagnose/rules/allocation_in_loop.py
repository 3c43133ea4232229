"""KL512: a tensor or a buffer is allocated anew in every iteration."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kernel_lsp.diagnose.context import Context
from kernel_lsp.diagnose.rule import Claim, Documentation, Rule
from kernel_lsp.domain import Evidence, Loop

FACTORIES = re.compile(r"(torch|at)::((empty|zeros|ones|full)(_like)?|arange|tensor|scalar_tensor)")
COPIES = frozenset({"clone", "contiguous"})
ALLOCATORS = frozenset({"malloc", "calloc", "realloc", "aligned_alloc"})

ALLOCATOR_CODE = ("libtorch", "libc10", "at::", "c10::", "torch::", "malloc", "operator new", "free", "memset")
"""Where `Profile.outside` shows the cost."""


def check(context: Context) -> Iterable[Claim]:
    for loop in context.features.loops:
        made = [call for call in context.calls(loop) if _allocates(call.name, call.receiver)]
        if not made or not _handles_elements(context, loop):
            continue
        first = made[0]
        share = context.outside(ALLOCATOR_CODE)
        called = f"{first.receiver}.{first.name}" if first.receiver else first.name
        yield Claim(
            message=f"`{called}` allocates in every iteration: allocate once before the loop and reuse it.",
            span=first.span,
            function=loop.function,
            loop=loop,
            evidence=(
                *context.samples_evidence(share),
                Evidence(name="allocations in the loop", value=str(len(made)), source="source"),
            ),
            share=share,
            saved=1.0,
        )


def _handles_elements(context: Context, loop: Loop) -> bool:
    """Not so a loop over a list of tensors that makes one result for each: those allocations are its purpose."""
    return any(context.accesses(inner) and inner.id != loop.id for inner in context.within(loop))


def _allocates(name: str, receiver: str | None) -> bool:
    if receiver is not None:
        return name in COPIES
    return name.removeprefix("std::") in ALLOCATORS or FACTORIES.fullmatch(name) is not None


RULE = Rule(
    code="KL512",
    name="allocation-in-loop",
    title="A tensor or a buffer is allocated anew in every iteration.",
    skills=(),
    check=check,
    documentation=Documentation(
        what_it_is="""\
`torch::zeros`, `clone`, `malloc` and the like inside a loop.
""",
        why_it_is_slow="""\
Each allocation takes a lock or passes Torch's dispatcher, and the fresh memory is cold, often not even mapped: the
first touch of every page goes through the operating system.
""",
        how_it_is_measured="""\
The calls come from the text, where the loop holds another loop over elements; a loop that only makes one result for
each tensor of a list is not reported. The samples in Torch's libraries and in the allocator say what they cost.

Headroom: share of samples in Torch's libraries and in the allocator.
""",
        example="""\
void row_medians(const float* x, float* out, int64_t rows, int64_t cols) {
  for (int64_t i = 0; i < rows; ++i) {
    auto buffer = torch::zeros({cols});
    float* sorted = buffer.data_ptr<float>();
    for (int64_t j = 0; j < cols; ++j)
      sorted[j] = x[i * cols + j];
    std::nth_element(sorted, sorted + cols / 2, sorted + cols);
    out[i] = sorted[cols / 2];
  }
}
""",
        instead="""\
void row_medians(const float* x, float* out, int64_t rows, int64_t cols) {
  auto buffer = torch::zeros({cols});
  float* sorted = buffer.data_ptr<float>();
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j)
      sorted[j] = x[i * cols + j];
    std::nth_element(sorted, sorted + cols / 2, sorted + cols);
    out[i] = sorted[cols / 2];
  }
}
""",
        thresholds="""\
None.
""",
    ),
)
