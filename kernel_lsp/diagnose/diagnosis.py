"""From evidence to a ranked list of findings: run the rules, fold what a deeper cause explains, order by headroom."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from kernel_lsp.diagnose.context import HOT_SHARE, Context
from kernel_lsp.diagnose.rule import Claim, Rule
from kernel_lsp.diagnose.rules import LIMITS, RULES
from kernel_lsp.domain import Build, Evidence, Features, Finding, Profile, Roofline, Severity

COLD_SHARE = 0.01
"""Below this share of the samples a finding is not worth a line.*"""


def diagnose(
    features: Features,
    *,
    build: Build | None = None,
    profile: Profile | None = None,
    roofline: Roofline | None = None,
    path: Path | None = None,
) -> tuple[Finding, ...]:
    """Findings by headroom, largest first, then by code and place; without a profile static ones only, as hints.

    A kernel at one of the device's limits gets that one finding and no other. No headroom exceeds the kernel's
    distance from the nearest limit, and headrooms overlap: they never add up. `path` is the file of `features`;
    evidence in other files is left aside. Without it all evidence is taken for that file's.
    """
    context = Context(features, build=build, profile=profile, roofline=roofline, path=path)
    at_limit = [_found(context, rule, claim) for rule in LIMITS for claim in rule.check(context)]
    if at_limit:
        return tuple(found.finding for found in at_limit)
    on_gpu = {function.qualified_name for function in features.functions if function.is_device}
    found = [
        _found(context, rule, claim)
        for rule in RULES
        if rule not in LIMITS
        for claim in rule.check(context)
        if rule.on_device or claim.function not in on_gpu
    ]
    kept = [item for item in found if item.claim.share is None or item.claim.share >= COLD_SHARE]
    return tuple(sorted((item.finding for item in _fold(kept)), key=rank))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    claim: Claim
    finding: Finding


def _found(context: Context, rule: Rule, claim: Claim) -> _Found:
    finding = Finding(
        code=rule.code,
        rule=rule.name,
        message=claim.message,
        severity=rule.severity or severity(claim.share),
        span=claim.span,
        function=claim.function,
        loop=None if claim.loop is None else claim.loop.id,
        evidence=claim.evidence,
        headroom=headroom(claim, context.roofline),
        ruled_out=_ruled_out(context, rule, claim),
    )
    return _Found(claim=claim, finding=finding)


def severity(share: float | None) -> Severity:
    """A warning once at least `HOT_SHARE` of the samples bear the claim out; a hint until then."""
    return Severity.WARNING if share is not None and share >= HOT_SHARE else Severity.HINT


def headroom(claim: Claim, roofline: Roofline | None) -> float | None:
    """Upper bound on the share of the kernel's time that the claim's fix can save; None without a profile.

    `share × saved`, as in Amdahl's law: what the fix does to the lines at fault, and nothing elsewhere. With a
    roofline no more than `1 − roofline.share`, since no rewrite takes less time than the nearest limit does.
    """
    if claim.share is None:
        return None
    bound = 1.0 if roofline is None else 1.0 - min(1.0, roofline.share)
    return max(0.0, min(1.0, bound, claim.share * claim.saved))


def _ruled_out(context: Context, rule: Rule, claim: Claim) -> tuple[str, ...]:
    if claim.loop is None or not context.has_measurements:
        return ()
    excluded = (other.rules_out(context, claim.loop) for other in RULES if other is not rule)
    return tuple(text for text in excluded if text is not None)


def _fold(found: list[_Found]) -> list[_Found]:
    """Put each claim that a deeper cause in the same loop explains under that cause's finding, as evidence.

    The deeper finding keeps the larger of the headrooms, for its fix lifts both; where the one that is folded
    stands under another that is folded itself, the evidence goes to the deepest.
    """
    by_place: dict[tuple[int | None, str], int] = {}
    for index, item in enumerate(found):
        by_place.setdefault((item.finding.loop, item.finding.code), index)

    def deepest(index: int) -> int:
        item = found[index]
        for code in item.claim.explained_by:
            deeper = by_place.get((item.finding.loop, code))
            if deeper is not None and deeper != index and item.finding.loop is not None:
                return deepest(deeper)
        return index

    findings = [item.finding for item in found]
    kept = []
    for index, item in enumerate(found):
        cause = deepest(index)
        if cause == index:
            kept.append(index)
        else:
            findings[cause] = _with(findings[cause], item.finding)
    return [_Found(claim=found[index].claim, finding=findings[index]) for index in kept]


def _with(cause: Finding, folded: Finding) -> Finding:
    explains = Evidence(name="explains", value=f"{folded.code} {folded.rule}: {folded.message}", source="kernel-lsp")
    headrooms = [value for value in (cause.headroom, folded.headroom) if value is not None]
    return replace(cause, evidence=(*cause.evidence, explains), headroom=max(headrooms, default=None))


def rank(finding: Finding) -> tuple[float, str, int, int]:
    """Sorts by headroom, largest first, then by code and place."""
    headroom = -1.0 if finding.headroom is None else finding.headroom
    return (-headroom, finding.code, finding.span.start.line, finding.span.start.column)
