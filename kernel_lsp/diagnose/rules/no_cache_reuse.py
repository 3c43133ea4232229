"""KL506: a matmul-like nest streams a whole operand through the cache again for every row of the result."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from kernel_lsp.diagnose.context import FLOATS_PER_LINE, Context, is_short, stride
from kernel_lsp.diagnose.rule import Claim, Documentation, Rule
from kernel_lsp.domain import Access, Evidence, Loop

TILE = 32
"""Turns for which a tile that fits the first-level cache uses each line that it fetched (3 tiles of 32 × 32 floats
are 12 of 32 KiB)."""

TILED_MISSES = 1 / (FLOATS_PER_LINE * TILE)

REUSED_MISSES = 1 / (FLOATS_PER_LINE * 4)
"""First-level misses per access below which the nest reuses what it fetched: four turns for each line.*"""


def check(context: Context) -> Iterable[Claim]:
    for loop in context.innermost():
        whole = context.nest(loop)
        nest = whole[:3]
        if len(nest) < 3 or any(level.variable is None or is_short(level) for level in nest):
            continue
        if any(level.step not in ("1", None) for level in whole):
            continue  # Tiled, or unrolled by hand.
        operand = _streamed_operand(context.accesses(loop), nest)
        if operand is not None:
            yield from _claim(context, nest, operand)


def _streamed_operand(accesses: list[Access], nest: list[Loop]) -> Access | None:
    """Of two operands that each follow two of the three loops, and together all three, the one that the outermost
    loop does not move: it is read whole between two uses of an element."""
    reads = [
        (access, moved) for access in accesses if access.is_read and (moved := _moved_by(access, nest)) is not None
    ]
    for (first, by_first), (second, by_second) in itertools.permutations(reads, 2):
        if len(by_first) == len(by_second) == 2 and by_first | by_second == {0, 1, 2} and 2 not in by_first:
            return None if first.array == second.array and first.is_write else first
    return None


def _moved_by(access: Access, nest: list[Loop]) -> frozenset[int] | None:
    """Levels of `nest`, innermost 0, that move the access; None where one of them cannot be told."""
    coefficients = [stride(access, loop) for loop in nest]
    if any(coefficient is None or coefficient == "?" for coefficient in coefficients):
        return None
    return frozenset(level for level, coefficient in enumerate(coefficients) if coefficient != "0")


def _claim(context: Context, nest: list[Loop], operand: Access) -> Iterable[Claim]:
    inner, middle, outer = nest
    counts = context.cache([inner.span])
    if counts is not None and counts.misses_per_access < REUSED_MISSES:
        return
    share = context.share(inner)
    evidence = [
        *context.samples_evidence(share),
        Evidence(
            name="read between two uses",
            value=f"({_trips(middle)}) × ({_trips(inner)}) elements of {operand.array}",
            source="source",
        ),
    ]
    if counts is not None:
        evidence.append(
            Evidence(name="D1 misses per access", value=f"{counts.misses_per_access:.3f}", source="cachegrind")
        )
        evidence.append(Evidence(name="last-level misses", value=f"{counts.ll_misses:,}", source="cachegrind"))
    yield Claim(
        message=f"All of `{operand.array}` passes through the cache for each `{outer.variable}`: "
        "an element is evicted before its next use. Work in tiles that fit the cache.",
        span=operand.span,
        function=inner.function,
        loop=inner,
        evidence=tuple(evidence),
        share=share,
        saved=1 / 2 if counts is None else counts.miss_share * (1 - TILED_MISSES / counts.misses_per_access),
        explained_by=("KL501",),
    )


def _trips(loop: Loop) -> str:
    return f"{loop.upper}" if loop.lower == "0" else f"{loop.upper} - {loop.lower}"


def rules_out(context: Context, loop: Loop) -> str | None:
    if len(context.nest(loop)) < 3:
        return None
    counts = context.cache([loop.span])
    if counts is None or counts.misses_per_access >= REUSED_MISSES:
        return None
    return f"not a lack of reuse: {counts.misses_per_access:.3f} D1 misses per access in this loop"


RULE = Rule(
    code="KL506",
    name="no-cache-reuse",
    title="A matmul-like nest streams a whole operand through the cache again for every row of the result.",
    skills=("tile-for-cache", "accumulate-in-register", "index-raw-pointers"),
    check=check,
    rules_out=rules_out,
    documentation=Documentation(
        what_it_is="""\
Three nested loops over two operands, as in a matrix product or pairwise distances, where one operand does not move
with the outermost of the three: it is read from beginning to end for each of that loop's steps.
""",
        why_it_is_slow="""\
By the time an element is needed again, the rest of the operand has passed through the cache and pushed it out. Each
element is fetched as often as there are rows; in tiles that fit the cache it is fetched once for a tile of rows.
""",
        how_it_is_measured=f"""\
The nest comes from the text: three loops of unknown length, and two reads that each follow two of them. A nest in
which a loop steps by more than 1 is tiled or unrolled by hand and not reported. Cachegrind counts the first-level
misses per access in the innermost loop; below 1/{FLOATS_PER_LINE * 4} the operand does fit, and nothing is said. In a
loop with strided access (KL501) the misses belong to the stride, and this finding folds under that one.

Headroom: share of samples in the innermost loop × part of its time that goes to misses × (1 −
(1/{FLOATS_PER_LINE * TILE}) / misses per access). The second factor is at most (10 D1 + 100 LL) / (instructions / 4 +
10 D1 + 100 LL), with cachegrind's counts of first-level (D1) and last-level (LL) misses. Without counts half the
time is assumed to go to misses.
""",
        example="""\
void matmul(const float* a, const float* b, float* c, int n, int m, int p) {
  for (int i = 0; i < n; ++i)
    for (int k = 0; k < p; ++k)
      for (int j = 0; j < m; ++j)
        c[i * m + j] += a[i * p + k] * b[k * m + j];
}
""",
        instead="""\
void matmul(const float* a, const float* b, float* c, int n, int m, int p) {
  for (int kk = 0; kk < p; kk += 64)
    for (int jj = 0; jj < m; jj += 64)
      for (int i = 0; i < n; ++i)
        for (int k = kk; k < std::min(kk + 64, p); ++k)
          for (int j = jj; j < std::min(jj + 64, m); ++j)
            c[i * m + j] += a[i * p + k] * b[k * m + j];
}
""",
        thresholds=f"""\
- 10 and 100 cycles for a miss: KCachegrind's cycle estimate; 4 instructions per cycle: the width of common cores.
- 1/{FLOATS_PER_LINE * TILE} misses per access in a tiled nest: a line of {FLOATS_PER_LINE} floats serves {TILE} turns;
  three tiles of {TILE} × {TILE} floats take 12 of the 32 KiB of a first-level cache.
- 1/{FLOATS_PER_LINE * 4} misses per access, four turns for a line, count as reuse (ours).
""",
    ),
)
