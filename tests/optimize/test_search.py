"""The search's logic over a bench that is a table: what is tried, kept, remembered, offered, and why it stops.

`TableBench` is a test double: it stands for the real builder and worker and knows the time of each text by the words
in it. The search over the real ones is tested with the engine.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from kernel_lsp.diagnose.rules import LIMITS
from kernel_lsp.domain import (
    Artifact,
    ArtifactKind,
    Attempt,
    Build,
    BuildFailed,
    Decided,
    Event,
    Features,
    Finding,
    Finished,
    KernelUnit,
    Mismatch,
    Outcome,
    Passed,
    Problem,
    Route,
    Samples,
    Severity,
    Span,
    TextEdit,
    Timing,
    Tried,
    Unjudged,
    Verdict,
    Workload,
)
from kernel_lsp.messages import Effort
from kernel_lsp.optimize.memory import InMemory
from kernel_lsp.optimize.rewriting import Declined
from kernel_lsp.optimize.rules import ParameterRange, SkillRule
from kernel_lsp.optimize.search import Assessment, Trial, search
from kernel_lsp.optimize.skills import Library, Skill
from kernel_lsp.settings import Settings
from kernel_lsp.source.edits import apply, digest
from kernel_lsp.source.pairing import read_unit
from kernel_lsp.source.parse import ParsedSource, parse

PATH = Path("/kernels/kernel.cpp")
TEXT = 'extern "C" void f(const float* x, float* y, int n) { for (int i = 0; i < n; ++i) y[i] = x[i]; }\n'
WORKLOAD = Workload(name="as given", inputs=(), seed=1)


def unit_of(text: str = TEXT) -> KernelUnit:
    return replace(read_unit(PATH, text), problem=None)


def finding(code: str = "KL501", headroom: float = 0.5) -> Finding:
    return Finding(
        code=code,
        rule="a-fault",
        message=f"{code} holds",
        severity=Severity.WARNING,
        span=Span.line(0),
        function="f",
        loop=0,
        evidence=(),
        headroom=headroom,
    )


def appending(name: str, needs: str = "", values: tuple[int, ...] = (0,), treats: str = "KL501") -> Skill:
    """A skill that declares a variable named after itself, where `needs` is in the text."""

    def rewrite(
        source: ParsedSource, features: Features, finding: Finding | None, parameters: Mapping[str, int]
    ) -> tuple[TextEdit, ...] | Declined:
        word = name if len(values) == 1 else f"{name}{parameters['size']}"
        if name in source.text or needs not in source.text:
            return Declined("it is there already" if name in source.text else f"needs {needs}")
        end = source.span(source.root).end
        return (TextEdit(span=Span(start=end, end=end), new_text=f"int {word};\n"),)

    parameters = () if len(values) == 1 else (ParameterRange(name="size", values=values, meaning=""),)
    rule = SkillRule(treats=(treats,), priority=0.5, conditions=(), vetoes=(), parameters=parameters)
    return Skill(name=name, description="", folder=Path("/skills") / name, document="", rule=rule, rewrite=rewrite)


@dataclass
class TableBench:
    """Time of a text: 100 µs over the factors of the words in it."""

    factors: Mapping[str, float]
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    """Word → verdict on texts with it."""
    findings: tuple[Finding, ...] = (finding(),)
    noise: float = 0.01
    thorough: Mapping[str, Verdict] = field(default_factory=dict)
    compared: list[tuple[str, str, Effort]] = field(default_factory=list)

    def has_passed(self, unit: KernelUnit) -> bool:
        return False

    async def assess(self, unit: KernelUnit) -> Assessment:
        await asyncio.sleep(0)
        return Assessment(findings=self.findings, roofline=None)

    async def compare(self, candidate: KernelUnit, parent: KernelUnit, effort: Effort) -> Trial:
        await asyncio.sleep(0)
        self.compared.append((candidate.text, parent.text, effort))
        table = {**self.verdicts, **(self.thorough if effort is Effort.THOROUGH else {})}
        verdict = next((v for word, v in table.items() if word in candidate.text), Passed(results=(), binding=()))
        if not isinstance(verdict, Passed):
            return Trial(build=None, verdict=verdict, timing=None)
        samples = (
            Samples(subject="kernel", us=self.times(candidate.text, 1.0)),
            Samples(subject="parent", us=self.times(parent.text, -1.0)),
        )
        return Trial(
            build=built(candidate),
            verdict=verdict,
            timing=Timing(workload=WORKLOAD, samples=samples, threads=2, cold_cache=True),
        )

    def times(self, text: str, sign: float) -> tuple[float, ...]:
        median = 100.0 / math.prod(factor for word, factor in self.factors.items() if word in text)
        return tuple(median * (1 + sign * self.noise * math.sin(i)) for i in range(25))


def built(unit: KernelUnit) -> Build:
    artifact = Artifact(path=Path("/a.so"), kind=ArtifactKind.C_LIBRARY, name="", digest="d")
    return Build(
        unit_digest=unit.digest,
        artifact=artifact,
        route=Route.PLAIN,
        route_reason="",
        messages=(),
        remarks=(),
        seconds=0.1,
        cached=False,
    )


def library(*skills: Skill) -> Library:
    return Library(skills=tuple(sorted(skills, key=lambda skill: skill.name)), problems=())


async def run(
    bench: TableBench,
    skills: Library,
    memory: InMemory | None = None,
    settings: Settings | None = None,
    only_finding: str | None = None,
) -> list[Event]:
    events = search(unit_of(), bench, skills, settings or Settings(), memory or InMemory(), only_finding=only_finding)
    return [event async for event in events]


def finished(events: list[Event]) -> Finished:
    last = events[-1]
    assert isinstance(last, Finished)
    assert not any(isinstance(event, Finished) for event in events[:-1])
    return last


def outcomes(events: list[Event]) -> list[tuple[str, Outcome]]:
    return [(event.attempt.skill, event.attempt.outcome) for event in events if isinstance(event, Tried)]


async def test_gains_are_composed_over_rounds_and_offered_once_confirmed() -> None:
    bench = TableBench({"alpha": 2.0, "beta": 3.0})
    end = finished(await run(bench, library(appending("alpha"), appending("beta", needs="alpha"))))
    assert end.offer is not None
    assert end.offer.skills == ("alpha", "beta")
    assert end.offer.speedup.low > 1
    assert end.offer.speedup.mid == pytest.approx(6, rel=0.05)
    assert apply(TEXT, end.offer.edits) == end.offer.new_text == TEXT + "int alpha;\nint beta;\n"
    assert end.offer.unit_digest == digest(TEXT)
    candidate, parent, effort = bench.compared[-1]
    assert (candidate, parent, effort) == (end.offer.new_text, TEXT, Effort.THOROUGH)


async def test_skills_for_one_finding_compete() -> None:
    bench = TableBench({"alpha": 2.0, "beta": 5.0, "gamma": 9.0})
    exclusive = library(appending("alpha"), appending("beta"), appending("gamma", treats="KL503"))
    bench.findings = (finding(), finding("KL503", headroom=0.1))
    events = await run(bench, exclusive)
    assert outcomes(events)[:2] == [("alpha", Outcome.FASTER), ("beta", Outcome.FASTER)]
    end = finished(events)
    assert end.offer is not None
    assert end.offer.skills[0] == "beta"


async def test_the_best_parameters_win() -> None:
    bench = TableBench({"tile4": 2.0, "tile8": 4.0, "tile9": 3.0})
    end = finished(await run(bench, library(appending("tile", values=(4, 8, 9)))))
    assert end.offer is not None
    assert end.offer.skills == ("tile (size=8)",)
    assert [attempt.parameters for attempt in end.attempts[:3]] == [(("size", 4),), (("size", 8),), (("size", 9),)]


async def test_a_skill_whose_first_parameters_gain_nothing_is_left() -> None:
    bench = TableBench({})
    end = finished(await run(bench, library(appending("tile", values=(1, 2, 3, 4)))))
    assert [a.outcome for a in end.attempts if a.parent == end.attempts[0].parent][:3].count(Outcome.NOT_FASTER) == 2


async def test_a_step_that_gains_nothing_may_lead_to_one_that_does() -> None:
    bench = TableBench({"beta": 3.0})
    events = await run(bench, library(appending("alpha"), appending("beta", needs="alpha")))
    end = finished(events)
    assert end.offer is not None
    assert end.offer.skills == ("alpha", "beta")
    faster = next(a for a in end.attempts if a.outcome is Outcome.FASTER)
    assert faster.parent == end.attempts[0].parent, "a stone's successors are measured against the incumbent"


async def test_what_is_only_within_the_noise_is_not_offered() -> None:
    bench = TableBench({"alpha": 1.02}, noise=0.2)
    end = finished(await run(bench, library(appending("alpha"))))
    assert end.offer is None
    assert end.attempts[0].outcome is Outcome.NOT_FASTER
    assert end.reason == "every skill that applies was tried"


async def test_a_promising_candidate_is_timed_twice_before_it_is_dropped() -> None:
    bench = TableBench({"alpha": 1.15}, noise=0.6)
    await run(bench, library(appending("alpha")))
    assert [text for text, *_ in bench.compared].count(TEXT + "int alpha;\n") == 2


WRONG = Mismatch(output="y", workload=WORKLOAD, worst=None, statistics=None, explanation="only zeros")


async def test_wrong_and_broken_candidates_are_dropped_with_the_reason() -> None:
    bench = TableBench({"alpha": 9.0, "beta": 9.0}, verdicts={"alpha": WRONG, "beta": BuildFailed(messages=())})
    end = finished(await run(bench, library(appending("alpha"), appending("beta"))))
    assert end.offer is None
    assert [(a.outcome, a.detail) for a in end.attempts] == [
        (Outcome.WRONG, "it differs from the reference on as given: only zeros"),
        (Outcome.BUILD_FAILED, "it does not compile"),
    ]


async def test_a_kernel_that_does_not_pass_is_not_optimised() -> None:
    bench = TableBench({}, verdicts={"extern": WRONG})
    end = finished(await run(bench, library(appending("alpha"))))
    assert end.offer is None
    assert "only a kernel that passes" in end.reason
    assert len(bench.compared) == 1


async def test_what_the_thorough_judge_refuses_falls_back_to_the_step_before() -> None:
    bench = TableBench({"alpha": 2.0, "beta": 2.0}, thorough={"beta": WRONG})
    end = finished(await run(bench, library(appending("alpha"), appending("beta", needs="alpha"))))
    assert end.offer is not None
    assert end.offer.skills == ("alpha",)
    assert "not borne out" in end.reason
    bench = TableBench({"alpha": 2.0}, thorough={"alpha": WRONG})
    assert finished(await run(bench, library(appending("alpha")))).offer is None


async def test_at_the_limit_it_stops_with_the_proof() -> None:
    bench = TableBench({"alpha": 2.0}, findings=(finding(LIMITS[0].code, headroom=0.0),))
    events = await run(bench, library(appending("alpha")))
    assert finished(events).reason == f"{LIMITS[0].code} holds"
    assert outcomes(events) == []
    assert any(isinstance(event, Decided) for event in events)


async def test_patience_ends_it() -> None:
    skills = library(*(appending(name) for name in ("alpha", "beta", "gamma", "delta")))
    end = finished(await run(TableBench({}), skills, settings=Settings(patience=2)))
    assert end.reason == "2 attempts without gain"
    assert len(end.attempts) == 2


async def test_the_budget_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10_000, 10))
    monkeypatch.setattr("kernel_lsp.optimize.search.time.monotonic", lambda: float(next(clock)))
    end = finished(
        await run(TableBench({"alpha": 2.0}), library(appending("alpha")), settings=Settings(optimize_seconds=20))
    )
    assert end.reason == "the budget of 20 s is spent"


async def test_only_the_findings_skills_are_tried_for_its_fix() -> None:
    bench = TableBench({"alpha": 2.0, "beta": 2.0}, findings=(finding("KL501"), finding("KL503")))
    events = await run(bench, library(appending("alpha"), appending("beta", treats="KL503")), only_finding="KL503")
    assert {skill for skill, _ in outcomes(events)} == {"beta"}


async def test_a_judge_that_fails_ends_it_and_is_not_remembered() -> None:
    lost = Unjudged(problem=Problem(code="worker-lost", message="the worker died", hint=""))
    memory = InMemory()
    bench = TableBench({}, verdicts={"alpha": lost})
    end = finished(await run(bench, library(appending("alpha")), memory))
    assert end.reason == "the judge failed: the worker died"
    assert memory.attempts(str(PATH)) == ()


async def test_nothing_is_tried_twice_even_after_a_restart() -> None:
    memory = InMemory()
    skills = library(appending("alpha"), appending("beta", needs="alpha"), appending("gamma"))
    first = TableBench({"alpha": 2.0, "beta": 2.0}, verdicts={"gamma": WRONG})
    whole = finished(await run(first, skills, memory))
    second = TableBench({"alpha": 2.0, "beta": 2.0}, verdicts={"gamma": WRONG})
    again = finished(await run(second, skills, memory))
    assert again.offer is not None
    assert whole.offer is not None
    assert again.offer.new_text == whole.offer.new_text
    assert {a.outcome for a in again.attempts} <= {Outcome.REPEATED, Outcome.DECLINED}
    assert len(second.compared) == 2, "only the initial text and the offer are measured again"


async def test_a_cancelled_search_resumes() -> None:
    memory = InMemory()
    skills = library(appending("alpha"), appending("beta", needs="alpha"))
    bench = TableBench({"alpha": 2.0, "beta": 2.0})
    events: AsyncIterator[Event] = search(unit_of(), bench, skills, Settings(), memory)
    async for event in events:
        if isinstance(event, Tried):
            break
    await events.aclose()  # type: ignore[attr-defined]
    assert len(memory.attempts(str(PATH))) == 1
    resumed = TableBench({"alpha": 2.0, "beta": 2.0})
    end = finished(await run(resumed, skills, memory))
    assert end.offer is not None
    assert end.offer.skills == ("alpha", "beta")
    assert not any(
        effort is Effort.QUICK and "beta" not in text and "alpha" in text for text, _, effort in resumed.compared
    )


async def test_a_second_search_begins_at_the_best_that_the_first_found() -> None:
    memory = InMemory()
    skills = library(appending("alpha"), appending("beta", needs="alpha"))
    factors = {"alpha": 2.0, "beta": 3.0}
    first = finished(await run(TableBench(factors), skills, memory))
    again = TableBench(factors)
    second = finished(await run(again, skills, memory))
    assert first.offer is not None and second.offer is not None
    assert second.offer.new_text == first.offer.new_text
    assert second.offer.skills == first.offer.skills == ("alpha", "beta")
    # The text as it is, and the offer anew: nothing that was measured before is measured again.
    assert [effort for _, _, effort in again.compared] == [Effort.QUICK, Effort.THOROUGH]


async def test_a_stepping_stone_stays_in_the_lineage_of_a_resumed_search() -> None:
    memory = InMemory()
    skills = library(appending("alpha"), appending("beta", needs="alpha"))
    factors = {"beta": 3.0}
    await run(TableBench(factors), skills, memory)
    end = finished(await run(TableBench(factors), skills, memory))
    assert end.offer is not None
    assert end.offer.skills == ("alpha", "beta")


async def test_a_rewrite_that_breaks_the_syntax_is_never_built() -> None:
    def breaks(
        source: ParsedSource, features: Features, finding: Finding | None, parameters: Mapping[str, int]
    ) -> tuple[TextEdit, ...] | Declined:
        return (TextEdit(span=Span.line(0, 0, 0), new_text="void ("),)

    bench = TableBench({})
    end = finished(await run(bench, library(replace(appending("alpha"), rewrite=breaks))))
    assert end.attempts[0].outcome is Outcome.DECLINED
    assert "fault of the skill" in end.attempts[0].detail
    assert len(bench.compared) == 1


def test_memory_keeps_kernels_apart() -> None:
    memory = InMemory()
    attempt = Attempt(
        number=1,
        parent="",
        base="",
        fingerprint="f",
        skill="s",
        parameters=(),
        outcome=Outcome.WRONG,
        speedup=None,
        detail="",
    )
    memory.remember("a", attempt, "text")
    assert memory.attempts("a") == (attempt,)
    assert memory.attempts("b") == ()
    assert parse(PATH, TEXT).text == TEXT
