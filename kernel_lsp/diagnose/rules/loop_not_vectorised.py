"""KL502: a hot innermost loop that handles one element at a time, with the compiler's reason."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kernel_lsp.diagnose.arithmetic import costly_calls, ordered_reductions
from kernel_lsp.diagnose.context import HOT_SHARE, Context, is_short
from kernel_lsp.diagnose.rule import Claim, Documentation, Rule
from kernel_lsp.domain import Evidence, Loop, VectorRemark

ORDER, CALL = ("KL504", "KL505"), ("KL510", "KL512")

REASONS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (r"strided|gather|non-consecutive|grouped", "elements lie apart", ()),
    (r"complicated access", "it cannot follow how memory is accessed", ("KL504",)),
    (r"calls |call instruction|function call|call in loop", "it calls a function", CALL),
    (r"clobbers memory|may write any memory", "a statement in it may write any memory", CALL),
    (r"reduction|reorder floating|value that could not be identified", "a result carries over", ORDER),
    (r"alias|array bounds", "the arrays may overlap", ("KL504",)),
    (r"dependen|unsafe", "one iteration may need another's result", ORDER),
    (r"unsupported use|unsupported phi|relevant phi", "a value carries over in a form that it cannot split", ORDER),
    (r"control flow|multiple exits|early exit|loop nest containing", "it branches or leaves early", ()),
    (r"number of iterations|trip count", "the number of iterations is not known on entry", ()),
    (r"not profitable|cost model", "it expects no gain", ()),
    (r"data-type|vectype|no vector", "an operation in it has no vector form", ORDER),
)
"""The compiler's words (g++ 12, clang 17) → ours, and the codes of deeper causes. The first that matches counts."""

ROOT = re.compile(r"(std::)?sqrtf?")

CALLED = re.compile(r"calls (\w+), which")

NO_REASON = "the compiler gives no reason"
"""What `build.remarks` writes where there is none."""


def check(context: Context) -> Iterable[Claim]:
    for loop in context.innermost():
        share = context.share(loop)
        if share is None or share < HOT_SHARE or is_short(loop):
            continue
        remarks = context.remarks(loop)
        if not remarks or any(remark.vectorized for remark in remarks):
            continue
        about = next((remark for remark in remarks if _is_about(remark, context, loop)), None)
        said = NO_REASON if about is None else about.said
        because, deeper = _because(said, context, loop)
        yield Claim(
            message=f"{_subject(loop)} handles one element at a time: {because}.",
            span=loop.header_span,
            function=loop.function,
            loop=loop,
            evidence=(
                *context.samples_evidence(share),
                Evidence(name="vectoriser", value=said, source="-fopt-info-vec-missed"),
                Evidence(name="lanes", value=f"1 of {context.lanes} floats", source="-fopt-info-vec-missed"),
            ),
            share=share,
            saved=1 - 1 / context.lanes,
            # Strided elements fill no vector, whatever else stands in the way.
            explained_by=("KL501", *deeper),
        )


def _is_about(remark: VectorRemark, context: Context, loop: Loop) -> bool:
    """The line that the reason names is the loop's, or in a function that the loop calls."""
    line = remark.cause_line
    if remark.reason == NO_REASON or line is None:
        return remark.reason != NO_REASON
    called = {call.name.rpartition("::")[2] for call in context.calls(loop)}
    places = [loop.span, *(f.span for f in context.features.functions if f.name in called)]
    return any(place.start.line <= line <= place.end.line for place in places)


def _because(said: str, context: Context, loop: Loop) -> tuple[str, tuple[str, ...]]:
    """What the compiler's words mean, and the codes of deeper causes."""
    root = next((call.name for call in context.calls(loop) if ROOT.fullmatch(call.name)), None)
    if root and "control flow" in said:
        return f"`{root}` branches where it may have to set `errno`", ()
    if called := CALLED.match(said):
        return f"it calls `{called[1]}`", CALL
    if calls := costly_calls(context, loop):
        return f"it calls `{calls[0].name}`", CALL  # Whatever the compiler stumbled over first.
    for pattern, ours, deeper in REASONS:
        if re.search(pattern, said):
            return ours, deeper
    if ordered_reductions(context, loop):
        return "a result carries over", ORDER
    return "the compiler could not vectorise it", ()


def _subject(loop: Loop) -> str:
    return f"The loop over `{loop.variable}`" if loop.variable else "This loop"


def rules_out(context: Context, loop: Loop) -> str | None:
    if not loop.is_innermost or ordered_reductions(context, loop):
        return None
    width = next((remark.reason for remark in context.remarks(loop) if remark.vectorized), None)
    return None if width is None else f"not scalar code: the compiler vectorised this loop ({width})"


RULE = Rule(
    code="KL502",
    name="loop-not-vectorised",
    title="A hot innermost loop handles one element at a time, for a reason that the compiler names.",
    skills=(
        "vectorise-exp",
        "restrict-pointers",
        "interchange-loops",
        "simd-reduction",
        "index-raw-pointers",
        "hoist-invariant",
        "accumulate-in-register",
    ),
    check=check,
    rules_out=rules_out,
    documentation=Documentation(
        what_it_is="""\
An innermost loop with at least a tenth of the samples that the compiler left scalar.
""",
        why_it_is_slow="""\
A vector instruction handles 4, 8 or 16 floats in the time that a scalar one takes for one.
""",
        how_it_is_measured="""\
The compiler's vectoriser says for every loop whether and why not (`-fopt-info-vec-optimized-missed` of g++,
`-Rpass-missed=loop-vectorize` of clang). A loop that is vectorised in one instantiation of a template counts as
vectorised. g++ also reports "vectorized" where it adds floats in strict order, one lane after another: that is not
counted as a win, see KL505. Where a deeper cause that would explain it stands in the same loop (KL501, KL504, KL505,
KL510, KL512), this finding folds under that one.

Headroom: share of samples in the loop × (1 − 1 / lanes); lanes are the floats in the widest vector that the compiler
used elsewhere in this build, at least 8 (AVX2).
""",
        example="""\
void first_negative(const float* x, int64_t* where, int64_t rows, int64_t cols) {
  for (int64_t i = 0; i < rows; ++i) {
    where[i] = cols;
    for (int64_t j = 0; j < cols; ++j) {
      if (x[i * cols + j] < 0.0f) {
        where[i] = j;
        break;
      }
    }
  }
}
""",
        instead="""\
void first_negative(const float* x, int64_t* where, int64_t rows, int64_t cols) {
  for (int64_t i = 0; i < rows; ++i) {
    int64_t first = cols;
    for (int64_t j = 0; j < cols; ++j) {
      const int64_t candidate = x[i * cols + j] < 0.0f ? j : cols;
      first = candidate < first ? candidate : first;
    }
    where[i] = first;
  }
}
""",
        thresholds="""\
- 10 % of the samples (ours).
- Literal loops of at most 16 steps are left out: compilers unroll them (ours).
""",
    ),
)
