"""Decisions: total, deterministic, explained."""

from __future__ import annotations

from dataclasses import replace

from kernel_lsp.diagnose import RULES, diagnose
from kernel_lsp.domain import Attempt, Features, Finding, Outcome, Severity, Span
from kernel_lsp.optimize.policy import decide, rank
from kernel_lsp.source.features import features
from kernel_lsp.source.parse import parse
from tests.optimize.reading import LIBRARY, PATH

MATMUL = """extern "C" void f(const float* a, const float* b, float* c, int n) {
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) {
      float s = 0;
      for (int k = 0; k < n; ++k) s += a[i * n + k] * b[k * n + j];
      c[i * n + j] = s;
    }
}
"""


def known() -> tuple[Features, tuple[Finding, ...]]:
    found = features(parse(PATH, MATMUL))
    return found, diagnose(found)


def attempt(skill: str, outcome: Outcome) -> Attempt:
    return Attempt(
        number=1,
        parent="p",
        base="p",
        fingerprint="f",
        skill=skill,
        parameters=(),
        outcome=outcome,
        speedup=None,
        detail="",
    )


def test_every_skill_has_a_decision_with_a_reason() -> None:
    found, findings = known()
    decisions = decide(found, findings, LIBRARY)
    assert {decision.skill for decision in decisions} == {skill.name for skill in LIBRARY.skills}
    assert all(decision.reason for decision in decisions)
    assert all((decision.score > 0) == decision.chosen for decision in decisions)
    assert [d.chosen for d in decisions] == sorted((d.chosen for d in decisions), reverse=True)


def test_the_same_input_gives_the_same_order() -> None:
    found, findings = known()
    assert decide(found, findings, LIBRARY) == decide(found, findings, LIBRARY)


def test_strides_call_for_an_interchange() -> None:
    found, findings = known()
    assert decide(found, findings, LIBRARY)[0].skill == "interchange-loops"


def test_failures_lower_a_skill_and_gains_raise_it() -> None:
    found, findings = known()
    failed = [attempt("interchange-loops", Outcome.NOT_FASTER)] * 3
    assert decide(found, findings, LIBRARY, failed)[0].skill != "interchange-loops"
    declined = [attempt("interchange-loops", Outcome.DECLINED)] * 3
    assert decide(found, findings, LIBRARY, declined) == decide(found, findings, LIBRARY)


def test_at_the_limit_nothing_is_proposed() -> None:
    found, _ = known()
    limit = Finding(
        code="KL508",
        rule="at-the-memory-limit",
        message="moves its data at 91 % of this machine's bandwidth",
        severity=Severity.INFORMATION,
        span=Span.line(0),
        function="f",
        loop=None,
        evidence=(),
        headroom=0.0,
    )
    decisions = decide(found, (limit,), LIBRARY)
    assert not any(decision.chosen for decision in decisions)
    assert all("91 %" in decision.reason for decision in decisions)


def test_vetoes_are_explained() -> None:
    found, findings = known()
    parallel = replace(found, loops=tuple(replace(loop, is_parallel=True) for loop in found.loops))
    not_parallel = replace(findings[0], code="KL503", loop=0)
    decision = next(d for d in decide(parallel, (not_parallel,), LIBRARY) if d.skill == "parallelise-outer-loop")
    assert not decision.chosen
    assert "runs in parallel already" in decision.reason


def test_a_single_findings_fix_takes_no_skill_without_it() -> None:
    found, findings = known()
    ranking = rank(found, findings, LIBRARY, may_be_alone=False)
    assert all(choice.finding is not None for choice in ranking.choices)


def test_the_library_and_the_rules_know_each_other() -> None:
    codes = {rule.code for rule in RULES}
    names = {skill.name for skill in LIBRARY.skills}
    for skill in LIBRARY.skills:
        assert set(skill.rule.treats) <= codes, skill.name
    for rule in RULES:
        assert set(rule.skills) <= names, rule.code
