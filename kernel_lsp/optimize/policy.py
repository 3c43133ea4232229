"""Which skill to try next, and why not the others: deterministic, total, and explained."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernel_lsp.diagnose.rules import LIMITS
from kernel_lsp.domain import Attempt, Features, Finding, Outcome, SkillDecision
from kernel_lsp.optimize.skills import Library, Skill

STATIC_HEADROOM = 0.25
"""Assumed for a finding whose headroom no profile has measured: below what a hot finding has, above a cold one's.*"""


ALONE_HEADROOM = 0.05
"""Assumed where the text alone calls for a skill: tried after whatever a finding calls for.*"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A skill to try on a finding, or on the whole file."""

    skill: Skill
    finding: Finding | None
    decision: SkillDecision


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    choices: tuple[Choice, ...]
    """Best first."""
    passed_over: tuple[SkillDecision, ...]
    """Every skill that no choice names, each with the reason."""

    @property
    def decisions(self) -> tuple[SkillDecision, ...]:
        return (*(choice.decision for choice in self.choices), *self.passed_over)


def decide(
    features: Features, findings: Sequence[Finding], library: Library, tried: Iterable[Attempt] = ()
) -> tuple[SkillDecision, ...]:
    """Every skill's decision on a text: the chosen ones by score, then the others with why they were passed over.

    `tried` are the attempts on this kernel so far, whatever text they were made from.
    """
    return rank(features, findings, library, tried).decisions


def rank(
    features: Features,
    findings: Sequence[Finding],
    library: Library,
    tried: Iterable[Attempt] = (),
    *,
    may_be_alone: bool = True,
) -> Ranking:
    """As `decide`, with the skills and findings at hand.

    score = priority × headroom × prior, where prior = 2 (wins + 1) / (tries + 2): twice the mean of the Beta
    posterior over the skill's outcomes on this kernel, so 1 for a skill without history. Ties go by the findings'
    order, then by the skill's name. `may_be_alone` allows skills that the text alone calls for.
    """
    limit = next((finding for finding in findings if finding.code in {rule.code for rule in LIMITS}), None)
    attempts = tuple(tried)
    choices: list[tuple[float, int, str, Choice]] = []
    passed_over: list[SkillDecision] = []
    for skill in library.skills:
        if limit is not None:
            passed_over.append(_passed_over(skill, f"nothing is left to gain: {limit.message}"))
            continue
        objection: str | None = None
        fitting: list[tuple[int, Finding | None]] = []
        for order, finding in enumerate(findings):
            if finding.code not in skill.rule.treats:
                continue
            reason = skill.rule.objection(features, finding)
            if reason is None:
                fitting.append((order, finding))
            else:
                objection = objection or f"{finding.code} calls for it, but {reason}"
        if not fitting and objection is None and may_be_alone and skill.rule.alone:
            reason = skill.rule.objection(features, None)
            if reason is None:
                fitting.append((len(findings), None))
        for order, fits in fitting:
            choice = _choice(skill, fits, attempts)
            choices.append((-choice.decision.score, order, skill.name, choice))
        if not fitting:
            codes = ", ".join(skill.rule.treats)
            passed_over.append(_passed_over(skill, objection or f"no finding calls for it (it treats {codes})"))
    ranked = sorted(choices, key=lambda entry: entry[:3])
    return Ranking(choices=tuple(entry[3] for entry in ranked), passed_over=tuple(passed_over))


def _choice(skill: Skill, finding: Finding | None, attempts: Sequence[Attempt]) -> Choice:
    tries, wins = _record(skill.name, attempts)
    if finding is None:
        headroom, evidence = ALONE_HEADROOM, "no finding, but the text calls for it"
    elif finding.headroom is None:
        headroom, evidence = STATIC_HEADROOM, f"{_place(finding)}: not measured"
    else:
        headroom, evidence = finding.headroom, f"{_place(finding)}: up to {finding.headroom:.0%} of the time"
    decision = SkillDecision(
        skill=skill.name,
        finding=None if finding is None else finding.code,
        score=skill.rule.priority * headroom * 2 * (wins + 1) / (tries + 2),
        reason=evidence + ("" if tries == 0 else f"; {wins} of {tries} tries on this kernel were faster"),
        chosen=True,
    )
    return Choice(skill=skill, finding=finding, decision=decision)


def _place(finding: Finding) -> str:
    return f"{finding.code} {finding.rule} on line {finding.span.start.line + 1}"


def _record(skill: str, attempts: Iterable[Attempt]) -> tuple[int, int]:
    """How often a skill was measured, and how often that was faster."""
    measured = [
        attempt.outcome
        for attempt in attempts
        if attempt.skill == skill and attempt.outcome not in (Outcome.DECLINED, Outcome.REPEATED)
    ]
    return len(measured), measured.count(Outcome.FASTER)


def _passed_over(skill: Skill, reason: str) -> SkillDecision:
    return SkillDecision(skill=skill.name, finding=None, score=0.0, reason=reason, chosen=False)
