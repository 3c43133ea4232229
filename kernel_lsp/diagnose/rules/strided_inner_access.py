"""KL501: the innermost loop jumps through memory instead of walking along it."""

from __future__ import annotations

from collections.abc import Iterable

from kernel_lsp.diagnose.context import FLOATS_PER_LINE, CacheCounts, Context, is_short, stride
from kernel_lsp.diagnose.rule import Claim, Documentation, Rule
from kernel_lsp.domain import Access, Evidence, Loop

UNIT_STRIDE_MISSES = 1 / FLOATS_PER_LINE
"""First-level misses per access of a walk along memory: one for each cache line."""

CACHED_MISSES = 2 * UNIT_STRIDE_MISSES
"""Below this the caches hold what the stride touches, and the stride costs little.*"""

UNIT = ("1", "-1")


def check(context: Context) -> Iterable[Claim]:
    for loop in context.innermost():
        if loop.variable is None or is_short(loop):
            continue
        strided = [access for access in context.accesses(loop) if _is_strided(access, loop)]
        claim = _claim(context, loop, strided) if strided else None
        if claim is not None:
            yield claim


def _is_strided(access: Access, loop: Loop) -> bool:
    coefficient = stride(access, loop)
    if coefficient is None or coefficient == "?":
        return False
    try:
        return abs(int(coefficient)) >= FLOATS_PER_LINE
    except ValueError:
        return True


def _claim(context: Context, loop: Loop, strided: list[Access]) -> Claim | None:
    counts = context.cache(access.span for access in strided)
    if counts is not None and counts.misses_per_access < CACHED_MISSES:
        return None
    better = {access: _contiguous_variable(access, loop) for access in strided}
    if counts is None and not any(better.values()):
        return None  # A stride that no loop order mends may well be 1 when it runs: `x[i * incx]`.
    first = next((access for access in strided if better[access]), strided[0])
    others = [access for access in strided if access.array != first.array]
    share = context.share(loop)
    evidence = [
        *context.samples_evidence(share),
        Evidence(
            name=f"stride of {first.array} along {loop.variable}",
            value=f"{stride(first, loop)} elements",
            source="source",
        ),
    ]
    if counts is not None:
        evidence.append(
            Evidence(name="D1 misses per access", value=f"{counts.misses_per_access:.2f}", source="cachegrind")
        )
    if others:
        evidence.append(
            Evidence(name="strided as well", value=", ".join(dict.fromkeys(a.array for a in others)), source="source")
        )
    return Claim(
        message=_message(first, loop, better[first], others),
        span=first.span,
        function=loop.function,
        loop=loop,
        evidence=tuple(evidence),
        share=share,
        saved=_saved(context, loop, counts),
    )


def _saved(context: Context, loop: Loop, counts: CacheCounts | None) -> float:
    whole = context.cache([loop.span])
    if counts is None or whole is None:
        return 1 - UNIT_STRIDE_MISSES
    return whole.miss_share * (1 - UNIT_STRIDE_MISSES / counts.misses_per_access)


def _contiguous_variable(access: Access, loop: Loop) -> str | None:
    """The variable of an outer loop along which the access is contiguous."""
    return next((v for v, coefficient in access.strides if coefficient in UNIT and v != loop.variable), None)


def _message(first: Access, loop: Loop, better: str | None, others: list[Access]) -> str:
    step = stride(first, loop)
    alike = dict.fromkeys([first.array, *(access.array for access in others if stride(access, loop) == step)])
    subject = " and ".join(f"`{name}`" for name in alike)
    moves, it = ("moves", "it") if len(alike) == 1 else ("move", "they")
    remedy = f"; along `{better}` {it} would be contiguous" if better else ""
    jump = f"{moves} `{step}` elements with every step of `{loop.variable}`, to another cache line each time"
    return f"{subject} {jump}{remedy}."


def rules_out(context: Context, loop: Loop) -> str | None:
    counts = context.cache([loop.span])
    if counts is None or counts.misses_per_access >= CACHED_MISSES:
        return None
    return f"not strided access: {counts.misses_per_access:.3f} D1 misses per access in this loop"


RULE = Rule(
    code="KL501",
    name="strided-inner-access",
    title="The innermost loop jumps through memory instead of walking along it.",
    skills=("interchange-loops", "index-raw-pointers", "tile-for-cache", "accumulate-in-register"),
    check=check,
    rules_out=rules_out,
    documentation=Documentation(
        what_it_is="""\
An array access in the innermost loop whose index moves by more than one cache line with every step, such as
`b[k * n + j]` in a loop over `k`.
""",
        why_it_is_slow="""\
Memory arrives in lines of 64 bytes. A walk along memory uses all 16 floats of a line; a jump uses one and pays
for the line again next time, unless the cache still holds it. The vectoriser cannot load such elements with one
instruction either.
""",
        how_it_is_measured="""\
The coefficient of the loop's variable in the index comes from the text. Cachegrind counts the first-level misses
per access on the access's lines: about 1 for a jump, 1/16 for a walk over floats. Where it counts fewer than
2/16, the caches hold the data and nothing is said. Without a count, it is said only where another loop of the
nest would walk the array contiguously.

Headroom: share of samples in the loop × part of its time that goes to misses × (1 − (1/16) / misses per access). The
second factor is at most (10 D1 + 100 LL) / (instructions / 4 + 10 D1 + 100 LL), with cachegrind's counts of first-level
(D1) and last-level (LL) misses. Without counts a miss per access and nothing but misses are assumed.
""",
        example="""\
void scale_columns(const float* x, const float* w, float* y, int rows, int cols) {
  for (int j = 0; j < cols; ++j)
    for (int i = 0; i < rows; ++i)
      y[i * cols + j] = x[i * cols + j] * w[j];
}
""",
        instead="""\
void scale_columns(const float* x, const float* w, float* y, int rows, int cols) {
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < cols; ++j)
      y[i * cols + j] = x[i * cols + j] * w[j];
}
""",
        thresholds="""\
- 16 elements: the smallest literal stride that is reported; 64-byte lines over 4-byte floats.
- 10 and 100 cycles for a miss: KCachegrind's cycle estimate; 4 instructions per cycle: the width of common cores.
- 2/16 misses per access: twice what a contiguous walk costs (ours).
- Literal loops of at most 16 steps are left out: compilers unroll them (ours).
""",
    ),
)
