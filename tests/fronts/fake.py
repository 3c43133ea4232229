"""An engine that tells a story it was given. For tests of rendering and exit codes only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

from kernel_lsp.domain import Diagnosed, Event, Finished, Judged, KernelUnit, Profiled, Progress, Timed, Tried, Verdict
from kernel_lsp.settings import OnSave
from kernel_lsp.source.edits import digest
from tests.fronts import values


class FakeEngine:
    def __init__(self, checked: Sequence[Event], optimized: Sequence[Event] = ()) -> None:
        self.checked, self.optimized = checked, optimized
        self.levels: list[OnSave | None] = []
        self.seconds: list[float | None] = []
        self.searched = False
        self.units: list[KernelUnit] = []
        self.closed = 0

    def unit(self, path: Path, text: str | None = None) -> KernelUnit:
        text = path.read_bytes().decode() if text is None else text
        return replace(values.UNIT, path=path, text=text, digest=digest(text), reference=None, problem=None)

    async def check(self, unit: KernelUnit, level: OnSave | None = None, *, anew: bool = False) -> AsyncIterator[Event]:
        self.levels.append(level)
        self.units.append(unit)
        for event in self.checked:
            yield event

    async def optimize(
        self, unit: KernelUnit, *, finding: str | None = None, seconds: float | None = None, confirm: bool = True
    ) -> AsyncIterator[Event]:
        self.seconds.append(seconds)
        for event in self.optimized:
            yield event

    async def was_searched(self, unit: KernelUnit) -> bool:
        return self.searched

    async def close(self) -> None:
        self.closed += 1


def checked(unit: KernelUnit, verdict: Verdict) -> list[Event]:
    """The events of a check, in the engine's order."""
    return [
        Progress(message="building"),
        Judged(unit=unit, verdict=verdict),
        Timed(unit=unit, timing=values.TIMING, roofline=None),
        Timed(unit=unit, timing=values.TIMING, roofline=values.ROOFLINE),
        Profiled(unit=unit, profile=values.PROFILE),
        Diagnosed(unit=unit, findings=(values.FINDING,)),
    ]


def searched(unit: KernelUnit, *attempts: object, finished: Finished | None = None) -> list[Event]:
    tried: list[Event] = [attempt for attempt in attempts if isinstance(attempt, Tried)]
    return [*tried, finished or Finished(unit=unit, offer=values.OFFER, reason="every skill that applies was tried")]
