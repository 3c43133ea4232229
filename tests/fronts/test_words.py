"""Every sentence that people read, held in snapshots, and the rounding under them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from kernel_lsp.doctor import Fitness, ToolReport
from kernel_lsp.domain import (
    Attempt,
    BuildFailed,
    Crashed,
    Finished,
    Interval,
    Outcome,
    Passed,
    Rejected,
    Route,
    SkillDecision,
    TimedOut,
    Unjudged,
    VectorRemark,
    Verdict,
)
from kernel_lsp.fronts import words
from tests.fronts import values

VERDICTS: dict[str, Verdict] = {
    "passed": values.PASSED,
    "passed without statistics": Passed(results=(), binding=()),
    "build failed": BuildFailed(messages=(values.WARNING, values.ERROR)),
    "link failed": BuildFailed(messages=()),
    "crashed": Crashed(what="segmentation fault", workload=values.JITTERED, output_tail="starting\nrow 17\n"),
    "crashed before any workload": Crashed(what="called exit(0)", workload=None, output_tail=""),
    "timed out": TimedOut(seconds=60.0, workload=values.WORKLOAD, output_tail=""),
    "mismatch": values.MISMATCH,
    "rejected": Rejected(rule="changed-inputs", evidence="input x differs after the call", workload=values.WORKLOAD),
    "unjudged": Unjudged(problem=values.NO_REFERENCE),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_verdicts(name: str, snapshot: SnapshotAssertion) -> None:
    verdict = VERDICTS[name]
    said = [words.lens(verdict), words.verdict_sentence(verdict), *words.verdict_details(verdict)]
    assert "\n".join(said) == snapshot
    assert words.verdict_markdown(verdict) == snapshot(name="markdown")


def test_lens(snapshot: SnapshotAssertion) -> None:
    thin, whole = values.build(route=Route.THIN), values.build(route=Route.WHOLE)
    lines = [
        words.lens(None),
        words.lens(values.PASSED),
        words.lens(values.PASSED, values.TIMING),
        words.lens(values.PASSED, values.TIMING, values.ROOFLINE, thin),
        words.lens(values.PASSED, values.TIMING, values.ROOFLINE, whole),
        words.lens(values.PASSED, values.SEARCHED, values.ROOFLINE),
        # A wrong kernel has no speed, whatever was measured.
        words.lens(values.MISMATCH, values.TIMING, values.ROOFLINE),
    ]
    assert "\n".join(lines) == snapshot


def test_findings_and_hover(snapshot: SnapshotAssertion) -> None:
    assert words.finding_text(values.FINDING) == snapshot
    hover = words.hover_markdown(
        (values.FINDING,),
        verdict=values.PASSED,
        timing=values.TIMING,
        roofline=values.ROOFLINE,
        profile=values.PROFILE,
    )
    assert hover == snapshot(name="hover")
    assert words.line_hint(values.PROFILE.lines[0]) == "97 % of samples"
    assert words.line_hint_tooltip(values.PROFILE.lines[0], values.PROFILE) == snapshot(name="tooltip")
    assert words.hover_markdown() == ""


def attempt(outcome: Outcome, detail: str, speedup: Interval | None = None) -> Attempt:
    return Attempt(
        number=4,
        parent="p",
        base="p",
        fingerprint="f",
        skill="tile-for-cache",
        parameters=(("columns", 16), ("rows", 4)),
        outcome=outcome,
        speedup=speedup,
        detail=detail,
    )


def test_searching(snapshot: SnapshotAssertion) -> None:
    faster = Interval(low=1.80, mid=1.84, high=1.90)
    same = Interval(low=0.97, mid=1.01, high=1.04)
    attempts = (
        attempt(Outcome.FASTER, "1.84× its parent's speed", faster),
        attempt(Outcome.NOT_FASTER, "1.01× its parent's speed", same),
        attempt(Outcome.WRONG, "it differs from the reference on ROWS=17: only the last column"),
        attempt(Outcome.BUILD_FAILED, "it does not compile: expected ';'"),
        attempt(Outcome.DECLINED, "the loops depend on each other"),
        attempt(Outcome.REPEATED, "the same text was tried before"),
    )
    decision = SkillDecision(
        skill="interchange-loops", finding="KL501", score=0.9, reason="KL501 on line 6", chosen=True
    )
    lines = [words.attempt_line(each) for each in attempts]
    lines += [
        words.decision_line(decision),
        words.decision_line(SkillDecision(skill="x", finding=None, score=0.0, reason="no finding", chosen=False)),
        words.offer_sentence(values.OFFER),
        words.finished_sentence(
            Finished(unit=values.UNIT, offer=values.OFFER, reason="6 attempts without gain", attempts=attempts)
        ),
        words.finished_sentence(
            Finished(unit=values.UNIT, offer=None, reason="at the memory limit", attempts=attempts[:1])
        ),
    ]
    assert "\n".join(lines) == snapshot


def test_builds(snapshot: SnapshotAssertion) -> None:
    lines = [
        words.build_sentence(values.build()),
        words.build_sentence(values.build(cached=True)),
        words.build_sentence(values.build(route=Route.WHOLE)),
        words.build_sentence(values.build(failed=True)),
        words.compiler_text(values.ERROR),
        words.compiler_text(values.WARNING),
        words.remark_text(VectorRemark(location=values.ERROR.location, vectorized=False, reason="no vectype")),  # type: ignore[arg-type]
    ]
    assert "\n".join(lines) == snapshot


def test_problems_and_tools(snapshot: SnapshotAssertion) -> None:
    def tool(name: str, fitness: Fitness, *, required: bool = False, remedy: str | None = None) -> ToolReport:
        return ToolReport(
            name=name,
            version=None if fitness is Fitness.MISSING else "1.2",
            path=None,
            needed_for="testing",
            required=required,
            fitness=fitness,
            detail="not permitted" if fitness is Fitness.LIMITED else "",
            remedy=remedy,
        )

    compiler = tool("g++", Fitness.READY, required=True)
    perf = tool("perf", Fitness.LIMITED, remedy="sudo sysctl kernel.perf_event_paranoid=2")
    ncu = tool("ncu", Fitness.MISSING)
    torch = tool("torch", Fitness.MISSING, required=True, remedy="pip install torch")
    lines = [words.problem_text(values.NO_REFERENCE), words.problem_text(values.NO_PERF)]
    for report in (compiler, perf, ncu, torch):
        lines.append(f"{words.tool_state(report)} | {words.tool_purpose(report)} | {words.tool_remedy(report)}")
    lines += [words.doctor_sentence(r) for r in ([compiler, ncu], [compiler, perf], [compiler, perf, torch])]
    assert "\n".join(lines) == snapshot


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0.0004, "0.40 ns"),
        (0.8421, "842 ns"),
        (0.99951, "1.00 µs"),
        (12.34, "12.3 µs"),
        (999.4, "999 µs"),
        (999.6, "1.00 ms"),
        (1843.0, "1.84 ms"),
        (123456.0, "123 ms"),
        (2.31e6, "2.31 s"),
        (180e6, "180 s"),
    ],
)
def test_durations(us: float, text: str) -> None:
    assert words.duration(us) == text


@given(st.floats(min_value=1e-3, max_value=1e8))
def test_a_duration_reads_back_within_its_digits(us: float) -> None:
    number, unit = words.duration(us).split(" ")
    scale = {"ns": 1e-3, "µs": 1.0, "ms": 1e3, "s": 1e6}[unit]
    assert float(number) * scale == pytest.approx(us, rel=0.006)
    # Never four digits before the point where a larger unit would do, never a lost one.
    assert unit == "s" or float(number) < 1000
    assert len(re.sub(r"\D", "", number)) >= 3


@given(st.floats(min_value=1e-6, max_value=1e6), st.floats(min_value=1.0, max_value=2.0))
def test_no_speed_is_claimed_inside_the_noise(middle: float, spread: float) -> None:
    interval = Interval(low=middle / spread, mid=middle, high=middle * spread)
    text = words.against(interval, "torch")
    assert text.startswith("≈ torch") == (interval.low <= 1 <= interval.high)
    assert float(words.factor(interval).split("×")[0]) == pytest.approx(middle, rel=0.06)


@given(st.floats(min_value=0.0, max_value=1.0))
def test_only_nothing_is_shown_as_zero_percent(share: float) -> None:
    assert (words.percent(share) == "0 %") == (share == 0)
