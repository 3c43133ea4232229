"""Where the samples of a profile belong: to lines, to loops with all that they call, or to code outside the file."""

from __future__ import annotations

import functools
from collections import defaultdict
from pathlib import Path

from kernel_lsp.diagnose.mathematics import costly_function, sampled_function
from kernel_lsp.domain import Features, Function, Invariant, Loop, Profile, Span

MIN_SAMPLES = 50
"""Below this the share of a line is noise (at 10 % of 50 samples the standard error is 4 points) and is not used.*"""

OPENMP = ("libgomp", "libomp", "libiomp")
"""Runtimes whose samples are threads that wait for work."""


class Samples:
    """Shares of the samples in a kernel's call, 0–1, those of waiting threads left out."""

    def __init__(self, features: Features, profile: Profile, path: Path | None) -> None:
        self._features = features
        self._profile = profile
        self.waiting = min(0.99, sum((s for name, s in profile.outside if name_holds(name, OPENMP)), start=0.0))
        """Share of all samples that OpenMP's waits took."""
        self._line: dict[int, float] = defaultdict(float)
        for sampled in profile.lines:
            if path is None or sampled.location.path == path:
                self._line[sampled.location.span.start.line] += sampled.share / (1 - self.waiting)

    def of_lines(self, span: Span) -> float:
        lines = (share for line, share in self._line.items() if span.start.line <= line <= span.end.line)
        return min(1.0, sum(lines, start=0.0))

    def of_loop(self, loop: Loop) -> float:
        """Of its lines, of this file's functions that are called from nowhere but from within it, and its part of the
        mathematical library."""
        own = self.of_lines(loop.span)
        helpers = sum(self.of_lines(function.body_span) for function in self.only_called_within(loop))
        return min(1.0, own + helpers + sum(self._part_called_in(loop.span, name) for name in self._library))

    def of_work(self, work: Invariant) -> float:
        """Of its lines, and its part of the mathematical function that it calls."""
        function = costly_function(work.operation)
        called = self._part_called_in(work.span, function) if function in self._library else 0.0
        return min(1.0, self.of_lines(work.span) + called)

    def outside(self, words: tuple[str, ...]) -> float:
        """In shared objects or functions outside the user's files whose name holds one of `words`."""
        found = (share for name, share in self._profile.outside if name_holds(name, words))
        return min(1.0, sum(found, start=0.0) / (1 - self.waiting))

    def only_called_within(self, loop: Loop) -> list[Function]:
        """This file's functions that are called within `loop`, or by each other, and from nowhere else."""
        owned: list[Function] = []
        inside = [loop.span]
        waiting = {name for name in self._own_calls if not any(f.span.contains(loop.span) for f in self._named[name])}
        while entered := {
            name for name in waiting if all(any(s.contains(call) for s in inside) for call in self._own_calls[name])
        }:
            waiting -= entered
            found = [function for name in sorted(entered) for function in self._named[name]]
            owned += found
            inside += [function.span for function in found]
        return owned

    @functools.cached_property
    def _named(self) -> dict[str, list[Function]]:
        named: dict[str, list[Function]] = defaultdict(list)
        for function in self._features.functions:
            named[function.name].append(function)
        return dict(named)

    @functools.cached_property
    def _own_calls(self) -> dict[str, list[Span]]:
        """Name of a function of this file → where it is called."""
        calls: dict[str, list[Span]] = defaultdict(list)
        for call in self._features.calls:
            name = call.name.rpartition("::")[2]
            if call.receiver is None and name in self._named:
                calls[name].append(call.span)
        return dict(calls)

    # --- the mathematical library ---------------------------------------------------------------------------

    @functools.cached_property
    def _library(self) -> dict[str | None, float]:
        """Function → its share; under None what the library calls by itself, as `tanh` does `expm1`."""
        shares: dict[str | None, float] = defaultdict(float)
        for name, share in self._profile.outside:
            function = sampled_function(name)
            if function is not None:
                shares[function if function in self._costly_calls else None] += share / (1 - self.waiting)
        return dict(shares)

    @functools.cached_property
    def _costly_calls(self) -> dict[str | None, list[Span]]:
        """Function of the library → where it is called; under None all of those calls."""
        calls: dict[str | None, list[Span]] = defaultdict(list)
        for call in self._features.calls:
            function = costly_function(call.name)
            if function is not None:
                calls[function].append(call.span)
                calls[None].append(call.span)
        return dict(calls)

    def _part_called_in(self, span: Span, function: str | None) -> float:
        """What calls within `span` account for of a library function's share.

        Where there are calls elsewhere too, it is divided as the samples on the calling lines are.
        """
        calls = self._costly_calls.get(function, [])
        inside = [call for call in calls if span.contains(call)]
        if not inside or len(inside) == len(calls):
            return self._library[function] if inside else 0.0
        everywhere = sum(self.of_lines(call) for call in calls)
        if not everywhere:
            return 0.0
        return self._library[function] * sum(self.of_lines(call) for call in inside) / everywhere


def name_holds(name: str, words: tuple[str, ...]) -> bool:
    return any(word in name for word in words)
