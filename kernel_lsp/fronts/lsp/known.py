"""What is known of one kernel text: the events of a check, folded into one value."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kernel_lsp.domain import (
    Build,
    Built,
    Diagnosed,
    Event,
    Finding,
    Judged,
    KernelUnit,
    Passed,
    Profile,
    Profiled,
    Roofline,
    Timed,
    Timing,
    Verdict,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    unit: KernelUnit
    build: Build | None = None
    verdict: Verdict | None = None
    timing: Timing | None = None
    roofline: Roofline | None = None
    profile: Profile | None = None
    findings: tuple[Finding, ...] | None = None
    """None until the first diagnosis."""

    def of(self, unit: KernelUnit) -> Known:
        """The same of `unit`, which holds the same text."""
        return replace(self, unit=unit)

    def after(self, event: Event) -> Known:
        """With what `event` adds; `self` where it adds nothing."""
        match event:
            case Built(build=build):
                return replace(self, build=build)
            case Judged(verdict=Passed() as verdict):
                return replace(self, verdict=verdict)
            case Judged(verdict=verdict):
                return replace(self, verdict=verdict, timing=None, roofline=None, profile=None)
            case Timed(timing=timing, roofline=roofline):
                return replace(self, timing=timing, roofline=roofline or self.roofline)
            case Profiled(profile=profile):
                return replace(self, profile=profile)
            case Diagnosed(findings=findings):
                return replace(self, findings=findings)
            case _:
                return self
