"""The search for a faster kernel: skills composed over rounds, every candidate judged and measured.

Greedy with stepping stones. A round assesses the incumbent, ranks the skills, and tries them in that order until
one gives a candidate that passed and is faster than the incumbent beyond the noise. Then the skill's other parameter
values, and the other skills for the same finding, compete with it; the best becomes the incumbent of the next round.

Some steps gain nothing alone but make the next one possible (float literals before vector arithmetic): candidates
that passed without being faster are kept, and where a round ends without gain, the best `MOST_STONES` of them are
each given one round as starting points, still measured against the incumbent. Nothing is offered that has not been
judged and timed thoroughly against the initial text.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from kernel_lsp.diagnose.rules import LIMITS
from kernel_lsp.domain import (
    Attempt,
    Build,
    BuildFailed,
    Crashed,
    Decided,
    Event,
    Finding,
    Finished,
    Interval,
    KernelUnit,
    Mismatch,
    Offer,
    Outcome,
    Passed,
    Progress,
    Rejected,
    Roofline,
    TimedOut,
    Timing,
    Tried,
    Unjudged,
    Verdict,
    median_interval,
)
from kernel_lsp.messages import Effort
from kernel_lsp.optimize.memory import Memory
from kernel_lsp.optimize.policy import Choice, Ranking, rank
from kernel_lsp.optimize.rewriting import Declined
from kernel_lsp.optimize.skills import Library
from kernel_lsp.settings import Settings
from kernel_lsp.source.edits import apply, difference
from kernel_lsp.source.features import features, syntax_errors
from kernel_lsp.source.fingerprint import fingerprint
from kernel_lsp.source.pairing import read_unit
from kernel_lsp.source.parse import parse

MOST_STONES = 2
"""Stepping stones tried per round without gain.*"""

STONE_SLOWDOWN = 0.5
"""A stone may cost at most half the incumbent's speed; what is slower than that leads nowhere in one step.*"""

MISSES_PER_SKILL = 2
"""Parameter values of one skill that are tried without gain before the next skill has its turn.*"""

WORTH_A_SECOND_LOOK = 1.1
"""A candidate whose speedup is at least this, but within the noise, is timed once more.*"""

RESERVE = 0.15
"""Share of the time budget kept for judging and timing the result thoroughly.*"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """What is known of a text that has passed."""

    findings: tuple[Finding, ...]
    """By headroom, largest first."""
    roofline: Roofline | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One candidate built, judged, and timed beside its parent."""

    build: Build | None
    """None where it could not even be tried."""
    verdict: Verdict | None
    timing: Timing | None
    """Of the subjects `kernel` and `parent`; None unless the candidate passed."""
    roofline: Roofline | None = None
    """Where the candidate stands; None where that is not known."""

    @property
    def speedup(self) -> Interval | None:
        """The parent's time over the candidate's."""
        return None if self.timing is None else self.timing.speedup("parent")


class Bench(Protocol):
    """Where candidates are measured; the engine's is the real builder and worker."""

    def has_passed(self, unit: KernelUnit) -> bool:
        """This text was judged before, and passed."""
        ...

    async def assess(self, unit: KernelUnit) -> Assessment:
        """Findings and roofline of a text that has passed."""
        ...

    async def compare(self, candidate: KernelUnit, parent: KernelUnit, effort: Effort) -> Trial:
        """Build and judge `candidate`; if it passes, time it and `parent` in one run."""
        ...


async def search(
    unit: KernelUnit,
    bench: Bench,
    library: Library,
    settings: Settings,
    memory: Memory,
    *,
    only_finding: str | None = None,
) -> AsyncGenerator[Event, None]:
    """Search for a faster form of `unit`; the last event is `Finished`, with an offer if there is one.

    `only_finding` is a finding's code: only skills that treat it are tried. Attempts are remembered under the
    file's path. Safe to cancel between any two events: what was tried is remembered, so a later search over the
    same text takes up where this one stopped.
    """
    run = _Search(
        initial=unit,
        bench=bench,
        library=library,
        settings=settings,
        memory=memory,
        only_finding=only_finding,
        started=time.monotonic(),
    )
    async for event in run.events():
        yield event


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A text that passed, and how it came about."""

    unit: KernelUnit
    fingerprint: str
    skills: tuple[str, ...]
    """With parameters, in the order applied."""


@dataclass(slots=True, kw_only=True)
class _Search:
    """The state of one search; each method is one step of it."""

    initial: KernelUnit
    bench: Bench
    library: Library
    settings: Settings
    memory: Memory
    only_finding: str | None
    started: float
    attempts: list[Attempt] = field(default_factory=list)
    without_gain: int = 0
    seen: set[str] = field(default_factory=set)
    """Fingerprints of texts that this search has measured or begun from."""
    proposed: set[object] = field(default_factory=set)
    """What each skill has answered in this round."""
    stones: list[tuple[float, _Candidate]] = field(default_factory=list)
    """Passed but not faster in this round, with their speed over the incumbent."""
    gained: tuple[float, _Candidate] | None = None
    """The best that the choice just tried has given, with its speedup."""
    stopped: str | None = None
    """Why the search must end now."""

    async def events(self) -> AsyncIterator[Event]:
        if self.initial.problem is not None or self.initial.entry is None:
            problem = self.initial.problem
            yield self._finished("it has no entry function to judge" if problem is None else problem.message)
            return
        if not self.bench.has_passed(self.initial):
            yield Progress(message="judging the kernel as it is", fraction=0.0)
            trial = await self.bench.compare(self.initial, self.initial, Effort.QUICK)
            if not isinstance(trial.verdict, Passed):
                yield self._finished(f"only a kernel that passes can be optimised: {verdict_words(trial)}")
                return
        incumbents = self._resumed()
        if len(incumbents) > 1:
            yield Progress(message=f"going on from an earlier search, with {_after(incumbents[-1])}")
        self.seen.update(incumbent.fingerprint for incumbent in incumbents)
        while not self._must_stop():
            self.stones.clear()
            self.gained = None
            async for event in self._round(incumbents[-1], incumbents[-1]):
                yield event
            stones = sorted(self.stones, key=lambda stone: -stone[0])[:MOST_STONES]
            for _, stone in stones:
                if self.gained is not None or self.stopped is not None:
                    break
                async for event in self._round(stone, incumbents[-1]):
                    yield event
            if self.gained is not None:
                incumbents.append(self.gained[1])
            if self.stopped is not None:
                break
            if self.gained is None:
                self.stopped = "every skill that applies was tried"
                break
        async for event in self._concluded(incumbents):
            yield event

    def _resumed(self) -> list[_Candidate]:
        """The text as it is, then each gain that earlier searches over it found on the last, to their best."""
        earlier = {attempt.fingerprint: attempt for attempt in self.memory.attempts(self._key) if attempt.fingerprint}
        chain = [_Candidate(unit=self.initial, fingerprint=self._fingerprint(self.initial.text), skills=())]
        while True:
            last = chain[-1].fingerprint
            gains = [a for a in earlier.values() if a.parent == last and a.outcome is Outcome.FASTER and a.speedup]
            best = max(gains, key=lambda attempt: attempt.speedup.mid if attempt.speedup else 0.0, default=None)
            text = None if best is None else self.memory.source(self._key, best.fingerprint)
            if best is None or text is None or best.fingerprint in {link.fingerprint for link in chain}:
                return chain
            unit = read_unit(self.initial.path, text, entry=self.initial.entry_name)
            chain.append(_Candidate(unit=unit, fingerprint=best.fingerprint, skills=_lineage(best, earlier)))

    async def _round(self, base: _Candidate, incumbent: _Candidate) -> AsyncIterator[Event]:
        """Try the skills on `base` in order until one gives a text faster than `incumbent`.

        Then the other skills that treat the same finding compete with it, for they exclude each other as a rule.
        """
        self.proposed.clear()
        yield Progress(message=f"profiling {_after(base)}", fraction=self._spent())
        assessment = await self.bench.assess(base.unit)
        proof = next((f for f in assessment.findings if f.code in {rule.code for rule in LIMITS}), None)
        ranking = self._ranking(base, assessment)
        yield Decided(unit=base.unit, decisions=ranking.decisions)
        if proof is not None:
            if base is incumbent:
                self.stopped = proof.message
            return
        treated: Finding | None = None
        for choice in ranking.choices:
            if self.gained is not None and (treated is None or choice.finding != treated):
                continue
            async for event in self._try(choice, base, incumbent):
                yield event
            if self.stopped is not None:
                return
            if self.gained is not None and treated is None:
                treated = choice.finding

    def _ranking(self, base: _Candidate, assessment: Assessment) -> Ranking:
        limits = {rule.code for rule in LIMITS}
        findings = tuple(
            finding
            for finding in assessment.findings
            if self.only_finding is None or finding.code == self.only_finding or finding.code in limits
        )
        source = parse(base.unit.path, base.unit.text)
        tried = self.memory.attempts(self._key)
        return rank(features(source), findings, self.library, tried, may_be_alone=self.only_finding is None)

    async def _try(self, choice: Choice, base: _Candidate, incumbent: _Candidate) -> AsyncIterator[Event]:
        """Try one skill on `base`, for one parameter choice after another."""
        misses = 0
        declined = ""
        for parameters in choice.skill.rule.combinations():
            if self._must_stop():
                return
            outcome: Outcome | None = None
            async for event in self._attempt(choice, parameters, base, incumbent):
                if isinstance(event, Tried):
                    outcome = event.attempt.outcome
                    if outcome is Outcome.DECLINED and event.attempt.detail == declined:
                        return  # a reason that does not depend on the parameters
                    declined = event.attempt.detail if outcome is Outcome.DECLINED else ""
                yield event
            if self.stopped is not None:
                return
            if outcome in (Outcome.NOT_FASTER, Outcome.WRONG, Outcome.BUILD_FAILED):
                misses += 1
            if misses >= MISSES_PER_SKILL:
                return

    async def _attempt(
        self, choice: Choice, parameters: Mapping[str, int], base: _Candidate, incumbent: _Candidate
    ) -> AsyncIterator[Event]:
        label = skill_label(choice.skill.name, parameters)
        source = parse(base.unit.path, base.unit.text)
        edits = choice.skill.apply(source, features(source), choice.finding, parameters)
        if (choice.skill.name, tuple(parameters.items()), edits) in self.proposed:
            return  # said of another finding in this round already
        self.proposed.add((choice.skill.name, tuple(parameters.items()), edits))
        attempt = Attempt(
            number=len(self.attempts) + 1,
            parent=incumbent.fingerprint,
            base=base.fingerprint,
            fingerprint="",
            skill=choice.skill.name,
            parameters=tuple(sorted(parameters.items())),
            outcome=Outcome.DECLINED,
            speedup=None,
            detail="",
        )
        if isinstance(edits, Declined):
            yield self._tried(base.unit, replace(attempt, detail=edits.reason), remember=False)
            return
        text = apply(base.unit.text, edits)
        if len([*syntax_errors(parse(base.unit.path, text))]) > len([*syntax_errors(source)]):
            detail = "the rewritten text has a syntax error; this is a fault of the skill"
            yield self._tried(base.unit, replace(attempt, detail=detail), remember=False)
            return
        candidate = _Candidate(
            unit=read_unit(base.unit.path, text, entry=base.unit.entry_name),
            fingerprint=self._fingerprint(text),
            skills=(*base.skills, label),
        )
        attempt = replace(attempt, fingerprint=candidate.fingerprint)
        if candidate.fingerprint in self.seen:
            repeated = replace(attempt, outcome=Outcome.REPEATED, detail="the same text was tried before")
            yield self._tried(candidate.unit, repeated, remember=False)
            return
        self.seen.add(candidate.fingerprint)
        if (known := self._known(attempt)) is not None:
            if not any(earlier.base == known.fingerprint for earlier in self.memory.attempts(self._key)):
                # What it may lead to was not tried then.
                self._account(known.outcome, known.speedup, candidate, base)
            detail = f"tried in an earlier search: {known.detail}"
            repeated = replace(known, number=attempt.number, outcome=Outcome.REPEATED, detail=detail)
            yield self._tried(candidate.unit, repeated, remember=False)
            return
        yield Progress(message=f"trying {label}", fraction=self._spent())
        trial = await self.bench.compare(candidate.unit, incumbent.unit, Effort.QUICK)
        if isinstance(trial.verdict, Unjudged) or trial.verdict is None:
            self.stopped = f"the judge failed: {verdict_words(trial)}"
            return
        speedup = trial.speedup
        if speedup is not None and speedup.low <= 1 and speedup.mid >= WORTH_A_SECOND_LOOK:
            again = await self.bench.compare(candidate.unit, incumbent.unit, Effort.QUICK)
            speedup = _pooled(trial, again) or speedup
        outcome, detail = _outcome(trial, speedup)
        self._account(outcome, speedup, candidate, base)
        measured = replace(attempt, outcome=outcome, speedup=speedup, detail=detail)
        yield self._tried(candidate.unit, measured, remember=True, text=text)

    def _account(self, outcome: Outcome, speedup: Interval | None, candidate: _Candidate, base: _Candidate) -> None:
        """Keep what an attempt gave: the best gain of the choice, or a stone."""
        if outcome is Outcome.FASTER and speedup is not None:
            self.without_gain = 0
            if self.gained is None or speedup.mid > self.gained[0]:
                self.gained = (speedup.mid, candidate)
            return
        if self.gained is None:
            self.without_gain += 1
        if outcome is Outcome.NOT_FASTER and speedup is not None and speedup.mid >= STONE_SLOWDOWN:
            self.stones.append((speedup.mid, candidate))

    def _known(self, attempt: Attempt) -> Attempt | None:
        """An earlier search's attempt that settles this one: a text that failed, or the same step measured."""
        for earlier in reversed(self.memory.attempts(self._key)):
            if earlier.fingerprint != attempt.fingerprint:
                continue
            if earlier.outcome in (Outcome.WRONG, Outcome.BUILD_FAILED) or earlier.parent == attempt.parent:
                return earlier
        return None

    async def _concluded(self, incumbents: list[_Candidate]) -> AsyncIterator[Event]:
        """Judge and time the best thoroughly against the initial text; fall back to the one before where it fails."""
        reason = self.stopped or ""
        while len(incumbents) > 1:
            best = incumbents.pop()
            yield Progress(message=f"confirming {_after(best)}", fraction=1.0 - RESERVE)
            trial = await self.bench.compare(best.unit, self.initial, Effort.THOROUGH)
            speedup = trial.speedup
            if isinstance(trial.verdict, Passed) and trial.timing is not None and speedup is not None:
                if speedup.low > 1:
                    offer = Offer(
                        unit_digest=self.initial.digest,
                        edits=difference(self.initial.text, best.unit.text),
                        new_text=best.unit.text,
                        speedup=speedup,
                        verdict=trial.verdict,
                        timing=trial.timing,
                        roofline=trial.roofline,
                        skills=best.skills,
                    )
                    yield self._finished(reason, offer)
                    return
                reason = f"not faster in the thorough comparison ({_words(speedup)})"
            else:
                reason = f"not borne out by the thorough judge: {verdict_words(trial)}"
        yield self._finished(reason)

    # --------------------------------------------------------------------------------------------------------

    @property
    def _key(self) -> str:
        return str(self.initial.path)

    def _fingerprint(self, text: str) -> str:
        return fingerprint(text, self.initial.language)

    def _spent(self) -> float:
        return min(1.0, (time.monotonic() - self.started) / self.settings.optimize_seconds) * (1.0 - RESERVE)

    def _must_stop(self) -> bool:
        if time.monotonic() - self.started > self.settings.optimize_seconds * (1.0 - RESERVE):
            self.stopped = f"the budget of {self.settings.optimize_seconds:g} s is spent"
        elif self.without_gain >= self.settings.patience:
            self.stopped = f"{self.without_gain} attempts without gain"
        return self.stopped is not None

    def _tried(self, unit: KernelUnit, attempt: Attempt, *, remember: bool, text: str = "") -> Tried:
        self.attempts.append(attempt)
        if remember:
            self.memory.remember(self._key, attempt, text)
        return Tried(unit=unit, attempt=attempt)

    def _finished(self, reason: str, offer: Offer | None = None) -> Finished:
        return Finished(unit=self.initial, offer=offer, reason=reason, attempts=tuple(self.attempts))


def skill_label(name: str, parameters: Mapping[str, int]) -> str:
    """`tile-for-cache (rows=4, columns=16)`."""
    values = ", ".join(f"{key}={value}" for key, value in parameters.items())
    return f"{name} ({values})" if values else name


def _lineage(attempt: Attempt, earlier: Mapping[str, Attempt]) -> tuple[str, ...]:
    """The skills that led from the initial text to this attempt's, stepping stones included."""
    labels: list[str] = []
    step: Attempt | None = attempt
    while step is not None and len(labels) <= len(earlier):
        labels.append(skill_label(step.skill, dict(step.parameters)))
        step = earlier.get(step.base)
    return tuple(reversed(labels))


def verdict_words(trial: Trial) -> str:
    """One clause on why a trial did not pass."""
    match trial.verdict:
        case BuildFailed(messages=messages):
            return f"it does not compile: {messages[0].text}" if messages else "it does not compile"
        case Crashed(what=what):
            return f"it crashed: {what}"
        case TimedOut(seconds=seconds):
            return f"it did not end within {seconds:g} s"
        case Mismatch(explanation=explanation, workload=workload):
            return f"it differs from the reference on {workload.name}: {explanation}"
        case Rejected(rule=rule, evidence=evidence):
            return f"{rule}: {evidence}"
        case Unjudged(problem=problem):
            return problem.message
        case Passed():
            return "it passed"
        case None:
            return "no verdict was reached"


def _pooled(*trials: Trial) -> Interval | None:
    """The speedup from all rounds of several trials of one pair; None where one of them did not pass."""
    ratios: list[float] = []
    for trial in trials:
        parent = None if trial.timing is None else trial.timing.of("parent")
        kernel = None if trial.timing is None else trial.timing.of("kernel")
        if parent is None or kernel is None:
            return None
        ratios += [a / b for a, b in zip(parent.us, kernel.us, strict=True)]
    return median_interval(ratios)


def _outcome(trial: Trial, speedup: Interval | None) -> tuple[Outcome, str]:
    """What became of a judged candidate, with the reason in words."""
    if isinstance(trial.verdict, BuildFailed):
        return Outcome.BUILD_FAILED, verdict_words(trial)
    if not isinstance(trial.verdict, Passed):
        return Outcome.WRONG, verdict_words(trial)
    if speedup is None:
        return Outcome.NOT_FASTER, "it passed, but could not be timed"
    return (Outcome.FASTER if speedup.low > 1 else Outcome.NOT_FASTER), _words(speedup)


def _words(speedup: Interval) -> str:
    return f"{speedup.mid:.2f}× its parent's speed, 95 % interval {speedup.low:.2f}–{speedup.high:.2f}"


def _after(candidate: _Candidate) -> str:
    return f"the kernel after {candidate.skills[-1]}" if candidate.skills else "the kernel"
