"""What a check may look at: the features of the text and, where they are known, build, profile and roofline.

Lookups that every rule needs (loops of a nest, samples within a loop, cache misses on a line, the vectoriser's
words) are indexed once, so that a check reads like its definition.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from kernel_lsp.diagnose.samples import MIN_SAMPLES, Samples
from kernel_lsp.domain import (
    Access,
    Build,
    Call,
    Evidence,
    Features,
    Invariant,
    LineCache,
    Loop,
    Profile,
    Reduction,
    Roofline,
    Span,
    VectorRemark,
)


class _InLoop(Protocol):
    @property
    def loop(self) -> int | None: ...


T = TypeVar("T", bound=_InLoop)

HOT_SHARE = 0.10
"""Share of the samples from which a loop is hot: a finding there is a warning.*"""

CACHE_LINE_BYTES = 64
"""On every x86-64 and nearly every AArch64 server chip."""

FLOAT_BYTES = 4

FLOATS_PER_LINE = CACHE_LINE_BYTES // FLOAT_BYTES

SHORT_LOOP = 16
"""Compilers unroll loops of so few literal steps, so that nothing of the loop is left (g++ 12: up to 16).*"""

DEFAULT_VECTOR_BYTES = 32
"""AVX2, where the build's remarks name nothing wider: small loops get less than the machine has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheCounts:
    """Sums of `LineCache` over some lines."""

    instructions: int
    accesses: int
    """Reads and writes."""
    writes: int
    d1_misses: int
    ll_misses: int

    @property
    def misses_per_access(self) -> float:
        return self.d1_misses / self.accesses

    @property
    def miss_share(self) -> float:
        """Upper bound on the part of the lines' time that goes to cache misses, 0–1.

        KCachegrind's cycle estimate, `Ir + 10 L1m + 100 LLm`, but with the instructions at the best rate of a
        four-wide core, which leaves the misses the largest part.
        """
        misses = 10 * self.d1_misses + 100 * self.ll_misses
        return misses / (misses + self.instructions / 4) if misses else 0.0


class Context:
    """Evidence about one text, indexed.

    `path` is the text's file: samples, cache counts and remarks in other files (headers) are not on its lines.
    Without it every location counts as this file's.
    """

    def __init__(
        self,
        features: Features,
        *,
        build: Build | None = None,
        profile: Profile | None = None,
        roofline: Roofline | None = None,
        path: Path | None = None,
    ) -> None:
        self.features = features
        self.build = build
        self.profile = profile
        self.roofline = roofline
        self._path = path
        self._accesses = _by_loop(features.accesses)
        self._reductions = _by_loop(features.reductions)
        self._calls = _by_loop(features.calls)
        self._invariants = _by_loop(features.invariants)
        self._children: dict[int | None, list[Loop]] = defaultdict(list)
        for loop in features.loops:
            self._children[loop.parent].append(loop)
        self.samples = None if profile is None or profile.samples < MIN_SAMPLES else Samples(features, profile, path)

    @property
    def has_measurements(self) -> bool:
        return not (self.build is None and self.profile is None and self.roofline is None)

    # --- structure ------------------------------------------------------------------------------------------

    def innermost(self) -> Iterator[Loop]:
        return (loop for loop in self.features.loops if loop.is_innermost)

    def outermost(self) -> Iterator[Loop]:
        return iter(self._children[None])

    def children(self, loop: Loop) -> list[Loop]:
        return self._children[loop.id]

    def nest(self, loop: Loop) -> list[Loop]:
        """`loop` and the loops around it, innermost first."""
        around = [loop]
        while around[-1].parent is not None:
            around.append(self.features.loops[around[-1].parent])
        return around

    def within(self, loop: Loop) -> Iterator[Loop]:
        """`loop` and every loop inside it."""
        yield loop
        for child in self.children(loop):
            yield from self.within(child)

    def accesses(self, loop: Loop) -> list[Access]:
        """Those whose innermost loop this is."""
        return self._accesses[loop.id]

    def reductions(self, loop: Loop) -> list[Reduction]:
        return self._reductions[loop.id]

    def calls(self, loop: Loop) -> list[Call]:
        return self._calls[loop.id]

    def invariants(self, loop: Loop) -> list[Invariant]:
        return self._invariants[loop.id]

    # --- samples --------------------------------------------------------------------------------------------

    def share(self, place: Span | Loop) -> float | None:
        """Share of the kernel's time on the lines of `place`, 0–1; None without enough samples (see `Samples`)."""
        if self.samples is None:
            return None
        return self.samples.of_lines(place) if isinstance(place, Span) else self.samples.of_loop(place)

    def work_share(self, work: Invariant) -> float | None:
        """Of the lines of `work` and of the mathematical function that it calls."""
        return None if self.samples is None else self.samples.of_work(work)

    def outside(self, words: Iterable[str]) -> float | None:
        """Share outside the user's files, in shared objects or functions whose name holds one of `words`."""
        return None if self.samples is None else self.samples.outside(tuple(words))

    def samples_evidence(self, share: float | None) -> tuple[Evidence, ...]:
        if share is None or self.samples is None:
            return ()
        waits = "" if self.samples.waiting < 0.01 else " of those outside OpenMP's waits"
        return (Evidence(name="share of samples", value=percent(share) + waits, source="perf"),)

    @property
    def working_threads(self) -> float | None:
        """Busy threads without those that wait for work in OpenMP's loops: torch's own pool spins for a while."""
        if self.profile is None or self.profile.busy_threads is None:
            return None
        return self.profile.busy_threads * (1 - (self.samples.waiting if self.samples else 0.0))

    # --- cache ----------------------------------------------------------------------------------------------

    def cache(self, spans: Iterable[Span]) -> CacheCounts | None:
        """Cachegrind's counts summed over the lines of `spans`; None where it saw no access on them."""
        wanted = {line for span in spans for line in _lines(span)}
        counted = [self._cache_of_line[line] for line in sorted(wanted) if line in self._cache_of_line]
        accesses = sum(line.reads + line.writes for line in counted)
        if accesses == 0:
            return None
        return CacheCounts(
            instructions=sum(line.instructions for line in counted),
            accesses=accesses,
            writes=sum(line.writes for line in counted),
            d1_misses=sum(line.d1_misses for line in counted),
            ll_misses=sum(line.ll_misses for line in counted),
        )

    @functools.cached_property
    def _cache_of_line(self) -> dict[int, LineCache]:
        if self.profile is None:
            return {}
        return {c.location.span.start.line: c for c in self.profile.cache if self._is_here(c.location.path)}

    # --- compiler -------------------------------------------------------------------------------------------

    def remarks(self, loop: Loop) -> list[VectorRemark]:
        """What the vectoriser said of `loop` itself: on the lines of its header, else on those of no loop inside it.

        g++ 12 places a loop that it can leave early at its first statement and not at its header.
        """
        inner = {line for child in self.children(loop) for line in _lines(child.span)}
        own = [line for line in _lines(loop.span) if line not in inner]
        header = [remark for line in _lines(loop.header_span) for remark in self._remarks_of_line.get(line, ())]
        return header or [remark for line in own for remark in self._remarks_of_line.get(line, ())]

    @functools.cached_property
    def _remarks_of_line(self) -> dict[int, list[VectorRemark]]:
        found: dict[int, list[VectorRemark]] = defaultdict(list)
        for remark in self.build.remarks if self.build is not None else ():
            if self._is_here(remark.location.path):
                found[remark.location.span.start.line].append(remark)
        return dict(found)

    @functools.cached_property
    def lanes(self) -> int:
        """Floats in the widest vector that the compiler used anywhere in this build, and no less than AVX2's eight."""
        remarks = self.build.remarks if self.build is not None else ()
        widths = [int(found[1]) for r in remarks if r.vectorized and (found := _BYTES.search(r.reason))]
        return max([*widths, DEFAULT_VECTOR_BYTES]) // FLOAT_BYTES

    def _is_here(self, path: Path) -> bool:
        return self._path is None or path == self._path


_INTEGER = re.compile(r"-?\d+[uUlL]*")

_BYTES = re.compile(r"(\d+)[ -]byte")


def _by_loop(items: Iterable[T]) -> dict[int | None, list[T]]:
    grouped: dict[int | None, list[T]] = defaultdict(list)
    for item in items:
        grouped[item.loop].append(item)
    return grouped


def _lines(span: Span) -> range:
    return range(span.start.line, span.end.line + 1)


def stride(access: Access, loop: Loop) -> str | None:
    """Elements that `access` moves per step of `loop`, as text; None where the loop has no variable."""
    return next((coefficient for variable, coefficient in access.strides if variable == loop.variable), None)


def literal_trips(loop: Loop) -> int | None:
    """Number of iterations where it stands in the text as a number."""
    texts = (loop.lower, loop.upper, loop.step)
    if not all(text is not None and _INTEGER.fullmatch(text) for text in texts):
        return None
    lower, upper, step = (int(str(text).rstrip("uUlL")) for text in texts)
    return max(0, -(-(upper - lower) // step)) if step else None


def is_short(loop: Loop) -> bool:
    trips = literal_trips(loop)
    return trips is not None and trips <= SHORT_LOOP


def percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")
