"""KL503: one thread works while others are idle, and an outer loop could be shared out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kernel_lsp.diagnose.context import HOT_SHARE, Context, literal_trips, percent, stride
from kernel_lsp.diagnose.rule import Claim, Documentation, Rule
from kernel_lsp.domain import Access, Evidence, Loop

SERIAL = 1.25
"""Working threads up to which a kernel counts as serial; a little more than one is noise.*"""

BUSY = 0.75
"""From this part of the offered threads on, parallelism is ruled out as the cause.*"""


def check(context: Context) -> Iterable[Claim]:
    working = context.working_threads
    threads = None if context.profile is None else context.profile.threads
    if working is None or threads is None or threads < 2 or working > SERIAL:
        return
    loops = [loop for root in context.outermost() for loop in _to_share_out(context, root, threads)]
    helpers = {f.qualified_name for loop in loops if context.samples for f in context.samples.only_called_within(loop)}
    for loop in loops:
        if loop.function not in helpers:
            share = context.share(loop)
            yield Claim(
                message=f"Only one of {threads} threads works, while the iterations over `{loop.variable}` "
                "look independent of each other.",
                span=loop.header_span,
                function=loop.function,
                loop=loop,
                evidence=(
                    *context.samples_evidence(share),
                    Evidence(name="working threads", value=f"{working:.1f} of {threads}", source="perf"),
                ),
                share=share,
                saved=1 - 1 / threads,
            )


def _to_share_out(context: Context, loop: Loop, threads: int) -> Iterator[Loop]:
    """The outermost hot loops, from `loop` inwards, whose iterations can run at the same time."""
    share = context.share(loop)
    if share is None or share < HOT_SHARE or loop.is_parallel:
        return
    trips = literal_trips(loop)
    if is_independent(context, loop) and (trips is None or trips >= threads):
        yield loop
        return
    for child in context.children(loop):
        # Threads are woken for every step of `loop` then: only a nest is worth that.
        if not child.is_innermost:
            yield from _to_share_out(context, child, threads)


def is_independent(context: Context, loop: Loop) -> bool:
    """No iteration writes what another reads or writes, as far as the text shows; False where it does not show."""
    if loop.variable is None or loop.declares is None or loop.assigns is None or loop.assigns:
        return False
    shared = [
        access
        for inner in context.within(loop)
        for access in context.accesses(inner)
        if access.array not in loop.declares
    ]
    written = [access for access in shared if access.is_write]
    if not written:
        return bool(loop.declares) and _writes_private_pointer(context, loop)
    return all(_moves_with(access, loop) for access in written) and not _reads_neighbour(shared, written)


def _writes_private_pointer(context: Context, loop: Loop) -> bool:
    """All results go through pointers made afresh in each iteration: `float* row = out + i * cols`."""
    return any(
        access.is_write and _moves_with(access, loop)
        for inner in context.within(loop)
        for access in context.accesses(inner)
    )


def _moves_with(access: Access, loop: Loop) -> bool:
    return stride(access, loop) not in (None, "0", "?")


def _reads_neighbour(shared: list[Access], written: list[Access]) -> bool:
    """An array that is written is also read at an index at which it is not written: `x[i] = x[i - 1]`."""
    targets = {(access.array, access.index) for access in written}
    arrays = {access.array for access in written}
    return any(a.is_read and a.array in arrays and (a.array, a.index) not in targets for a in shared)


def rules_out(context: Context, loop: Loop) -> str | None:
    working = context.working_threads
    threads = None if context.profile is None else context.profile.threads
    if working is None or threads is None or threads < 2 or working < BUSY * threads:
        return None
    return f"not a lack of threads: {working:.1f} of {threads} are busy"


RULE = Rule(
    code="KL503",
    name="not-parallel",
    title="One thread works while others are idle, and an outer loop could be shared out.",
    skills=("parallelise-outer-loop",),
    check=check,
    rules_out=rules_out,
    documentation=Documentation(
        what_it_is="""\
A kernel that keeps about one thread busy on a machine that offers several, with its time in an outer loop whose
iterations do not depend on each other.
""",
        why_it_is_slow="""\
The other cores do nothing. Torch's own operators use them all, so the kernel starts behind by that factor.
""",
        how_it_is_measured=f"""\
CPU time over wall time during the calls gives the busy threads, less the part of the samples that waits in OpenMP's
runtime: at most {SERIAL} counts as serial. The loop is the
outermost one with at least {percent(HOT_SHARE)} of the samples whose iterations look independent: it assigns no
variable from outside, every array element that it writes moves with the loop's variable, and no array that it
writes is read at another index. A loop with fewer literal steps than threads is passed over for the one inside it,
unless that is an innermost loop, for which waking the threads again and again does not pay.

Headroom: share of samples in the loop × (1 − 1 / threads), which is Amdahl's law.
""",
        example="""\
void relu_rows(const float* x, float* y, int64_t rows, int64_t cols) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j)
      y[i * cols + j] = x[i * cols + j] > 0.0f ? x[i * cols + j] : 0.0f;
}
""",
        instead="""\
void relu_rows(const float* x, float* y, int64_t rows, int64_t cols) {
#pragma omp parallel for
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j)
      y[i * cols + j] = x[i * cols + j] > 0.0f ? x[i * cols + j] : 0.0f;
}
""",
        thresholds=f"""\
- {SERIAL} busy threads, {percent(HOT_SHARE)} of the samples (ours).
- Ruled out from {percent(BUSY)} of the offered threads on (ours).
""",
    ),
)
