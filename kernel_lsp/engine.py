"""The product without a front: check, diagnose and optimise a kernel as streams of events.

Knows no editor, no terminal and no torch. Every event carries the unit it is about, so a front can drop what
belongs to a text that has changed since.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Iterator
from dataclasses import replace
from pathlib import Path

from kernel_lsp import diagnose
from kernel_lsp.doctor import ToolReport, examine
from kernel_lsp.domain import (
    Build,
    Built,
    Device,
    Diagnosed,
    Event,
    Finding,
    Finished,
    Judged,
    KernelUnit,
    Language,
    Noted,
    Passed,
    Problem,
    Profile,
    Profiled,
    Progress,
    Roofline,
    Route,
    SkillDecision,
    Timed,
    Unjudged,
    Verdict,
)
from kernel_lsp.messages import Effort, TimingTaken
from kernel_lsp.optimize import skills
from kernel_lsp.optimize.policy import decide
from kernel_lsp.optimize.search import search
from kernel_lsp.settings import OnSave, Settings
from kernel_lsp.source.features import features
from kernel_lsp.source.pairing import read_unit
from kernel_lsp.source.parse import ParsedSource, parse
from kernel_lsp.workbench import ON_SAVE, WITH_COMPILED, Measured, Workbench, device_of, failed_build, subject_of

UNTRUSTED = Problem(
    code="untrusted-workspace",
    message="this workspace is not trusted, so no kernel is built or run",
    hint="trust the workspace in the editor; findings from the text alone go on",
)


class Engine:
    """One per workspace. Cancelling the task that reads a stream stops the work and all its processes."""

    def __init__(self, settings: Settings, *, workspace: Path | None = None, trusted: bool = True) -> None:
        self.settings = settings
        self.trusted = trusted
        self.workspace = workspace
        self._parsed: dict[Path, ParsedSource] = {}
        self._bench = Workbench(settings)

    async def close(self) -> None:
        await self._bench.close()

    def warm(self) -> None:
        """Start the worker now, so that the first check need not wait for it."""
        if self.trusted:
            self._bench.warm()

    def unit(self, path: Path, text: str | None = None) -> KernelUnit:
        """The kernel in `path`, with `text` in place of what the disk holds.

        Raises:
            OSError, UnicodeDecodeError: where the file must be read and cannot be.
        """
        if text is None:
            # Bytes first: reading as text would fold line ends, and positions and edits are exact.
            text = path.read_bytes().decode("utf-8")
        return read_unit(path, text)

    def static_findings(self, path: Path, text: str) -> tuple[Finding, ...]:
        """Findings from the text alone; parses only what changed since the last call for `path`."""
        parsed = self._parsed[path] = parse(path, text, self._parsed.get(path))
        return diagnose.from_text(parsed)

    def decisions(self, path: Path, text: str, findings: tuple[Finding, ...]) -> tuple[SkillDecision, ...]:
        """What an optimisation would try on `findings` of `text`, and why it would pass over the rest; runs nothing."""
        library = skills.load(skills.shipped_folder())
        return decide(features(parse(path, text, self._parsed.get(path))), findings, library)

    def forget(self, path: Path) -> None:
        """Drop what is kept of a file that was closed."""
        self._parsed.pop(path, None)

    async def check(
        self, unit: KernelUnit, level: OnSave | None = None, *, anew: bool = False
    ) -> AsyncGenerator[Event, None]:
        """Build, judge, time, profile and diagnose, each told as soon as it is known.

        What is known of the same code beside the same reference is told again at once, unless `anew`.
        Where the disk fails in the middle, that is the verdict.

        The order: compiler messages, findings from the text and the compiler's remarks, verdict, timing, profile
        with its findings, and last the timing with `torch.compile`, whose own compilation may take long.
        """
        try:
            async with contextlib.aclosing(self._checked(unit, level or self.settings.on_save, anew=anew)) as events:
                async for event in events:
                    yield event
        except OSError as error:
            yield Judged(unit=unit, verdict=Unjudged(problem=_disk_failed(error)))

    async def _checked(self, unit: KernelUnit, level: OnSave, *, anew: bool) -> AsyncGenerator[Event, None]:
        text_features = features(parse(unit.path, unit.text))
        from_text = Diagnosed(unit=unit, findings=diagnose.diagnose(text_features, path=unit.path))
        if not self.trusted:
            yield Noted(problem=UNTRUSTED)
        if not self.trusted or level is OnSave.OFF:
            yield from_text
            return
        yield Progress(message="building")
        self._bench.warm()
        build = await self._bench.build(unit)
        if isinstance(build, Problem):
            yield from_text
            yield Judged(unit=unit, verdict=Unjudged(problem=build))
            return
        for problem in self._bench.problems():
            yield Noted(problem=problem)
        yield Built(unit=unit, build=build)
        yield Diagnosed(unit=unit, findings=diagnose.diagnose(text_features, build=build, path=unit.path))
        if build.artifact is None:
            yield self._judged(unit, failed_build(build))
        elif unit.problem is not None or unit.entry is None or unit.reference is None:
            yield Judged(unit=unit, verdict=Unjudged(problem=unit.problem or _no_entry(unit)))
        elif unit.language is Language.CUDA and await self._bench.gpu() is None:
            yield Judged(unit=unit, verdict=Unjudged(problem=_no_gpu()))
        else:
            async with contextlib.aclosing(self._measured(unit, build, level, anew=anew)) as events:
                async for event in events:
                    yield event

    async def _measured(
        self, unit: KernelUnit, build: Build, level: OnSave, *, anew: bool
    ) -> AsyncGenerator[Event, None]:
        """Judge, time and profile what was built, as far as it is not known."""
        known = None if anew else self._bench.recall(unit, build)
        if known is None:
            yield Progress(message="judging against the reference")
            async for result in self._evaluate(unit, build, compiled=False):
                if isinstance(result, TimingTaken):
                    known = None if known is None else replace(known, taken=result)
                    yield Timed(unit=unit, timing=result.timing, roofline=None)
                else:
                    known = Measured(text=unit.text, verdict=result, taken=None)
                    yield Judged(unit=unit, verdict=result)
            if known is None:
                return
            timing = None if known.taken is None else known.taken.timing
            self._bench.store.record(unit.path, unit.digest, known.verdict, timing)
        else:
            yield Judged(unit=unit, verdict=known.verdict)
        self._bench.remember(unit, build, known)
        if known.taken is None or not isinstance(known.verdict, Passed):
            return

        yield Progress(message="measuring this machine's limits")
        device = device_of(unit)
        if isinstance(ceilings := await self._bench.ceilings(device), Problem):
            yield Noted(problem=ceilings)
        roofline = await self._bench.roofline(known.taken, device)
        yield Timed(unit=unit, timing=known.taken.timing, roofline=roofline)
        if level is OnSave.PROFILE and device is Device.CPU:
            if known.profile is None:
                yield Progress(message="profiling")
                profile = await self._bench.profile(unit, build)
                if isinstance(profile, Problem):
                    yield Noted(problem=profile)
                else:
                    known = replace(known, profile=profile)
                    self._bench.remember(unit, build, known)
            if known.profile is not None:
                for event in self._profiled(unit, build, known.profile, roofline):
                    yield event
        if self.settings.compiled_baseline:
            if known.compiled is None:
                yield Progress(message="timing torch.compile")
                async for result in self._evaluate(unit, build, compiled=True):
                    if not isinstance(result, TimingTaken):
                        # The same text on other secret seeds: whatever they bring to light is told.
                        if not isinstance(result, Passed):
                            known = replace(known, verdict=result)
                            yield self._judged(unit, result)
                    elif result.timing.of("compiled") is not None:
                        known = replace(known, compiled=result)
                self._bench.remember(unit, build, known)
            if known.compiled is not None:
                roofline = await self._bench.roofline(known.compiled, device)
                yield Timed(unit=unit, timing=known.compiled.timing, roofline=roofline)

    async def optimize(
        self,
        unit: KernelUnit,
        *,
        finding: str | None = None,
        seconds: float | None = None,
        confirm: bool = True,
    ) -> AsyncGenerator[Event, None]:
        """Search for a faster kernel; the last event is `Finished`, with the offer if there is one.

        With `confirm`, the offer is judged and timed once more as the user's own build makes it, where the search
        used the thin layer; a difference between the two is our fault and withdraws the offer.
        """
        if not self.trusted:
            yield Finished(unit=unit, offer=None, reason=UNTRUSTED.message)
            return
        if unit.language is Language.CUDA:
            yield Finished(unit=unit, offer=None, reason="CUDA kernels are not rewritten yet")
            return
        settings = self.settings if seconds is None else replace(self.settings, optimize_seconds=seconds)
        self._bench.warm()
        library = skills.load(skills.shipped_folder())
        for problem in library.problems:
            yield Noted(problem=problem)
        try:
            memory = await self._bench.memory(unit)
            async with contextlib.aclosing(
                search(unit, self._bench, library, settings, memory, only_finding=finding)
            ) as events:
                async for event in events:
                    if isinstance(event, Finished) and confirm and event.offer is not None:
                        async for confirmed in self._confirmed(event):
                            yield confirmed
                    else:
                        yield event
        except OSError as error:
            yield Finished(unit=unit, offer=None, reason=_disk_failed(error).message)

    async def was_searched(self, unit: KernelUnit) -> bool:
        """An earlier search, of this session or before, tried something on `unit`'s file as things stand."""
        return bool((await self._bench.memory(unit)).attempts(str(unit.path)))

    async def confirm(self, finished: Finished) -> Finished:
        """`finished` with its offer measured in the ordinary build, or without it."""
        result = finished
        async for event in self._confirmed(finished):
            if isinstance(event, Finished):
                result = event
        return result

    async def gpu(self) -> str | None:
        """Name of the GPU that CUDA kernels are judged on; None without one."""
        return await self._bench.gpu()

    async def doctor(self) -> tuple[ToolReport, ...]:
        """Every tool that is used, where it is, and what mends its absence."""
        return await examine(self.settings)

    async def _evaluate(
        self, unit: KernelUnit, build: Build, *, compiled: bool
    ) -> AsyncGenerator[Verdict | TimingTaken, None]:
        effort = Effort.QUICK if compiled else Effort.FULL
        plan = WITH_COMPILED if compiled else ON_SAVE
        results = self._bench.evaluate(unit, (subject_of(unit, build),), effort, plan)
        async with contextlib.aclosing(results):
            async for result in results:
                yield result

    def _profiled(self, unit: KernelUnit, build: Build, profile: Profile, roofline: Roofline | None) -> Iterator[Event]:
        for problem in profile.problems:
            yield Noted(problem=problem)
        yield Profiled(unit=unit, profile=profile)
        findings = diagnose.diagnose(
            features(parse(unit.path, unit.text)), build=build, profile=profile, roofline=roofline, path=unit.path
        )
        self._bench.keep(unit, findings, roofline)
        yield Diagnosed(unit=unit, findings=findings)

    async def _confirmed(self, finished: Finished) -> AsyncGenerator[Event, None]:
        offer = finished.offer
        assert offer is not None
        unit = finished.unit
        candidate = read_unit(unit.path, offer.new_text, entry=unit.entry_name)
        build = await self._bench.build(candidate)
        if isinstance(build, Build) and build.route is not Route.THIN:
            yield finished
            return
        yield Progress(message="confirming with the ordinary build")
        trial = await self._bench.confirm(candidate, unit)
        speedup = None if trial.timing is None else trial.timing.speedup("parent")
        if isinstance(trial.verdict, Passed) and trial.timing is not None and speedup is not None and speedup.low > 1:
            confirmed = replace(
                offer, verdict=trial.verdict, timing=trial.timing, roofline=trial.roofline, speedup=speedup
            )
            yield replace(finished, offer=confirmed)
            return
        yield replace(
            finished,
            offer=None,
            reason="the ordinary build does not bear out what the thin layer measured; please report this",
        )

    def _judged(self, unit: KernelUnit, verdict: Verdict) -> Judged:
        self._bench.store.record(unit.path, unit.digest, verdict, None)
        return Judged(unit=unit, verdict=verdict)


def _disk_failed(error: OSError) -> Problem:
    where = f" ({error.filename})" if error.filename else ""
    return Problem(
        code="disk-failed",
        message=f"a file of ours could not be written or read: {error.strerror or error}{where}",
        hint="free some space there, or name another folder in the setting `cache-dir` and in TMPDIR",
    )


def _no_entry(unit: KernelUnit) -> Problem:
    return Problem(
        code="no-entry",
        message=f"{unit.path.name} has no function to judge",
        hint="name one with `// kernel-lsp: entry=…`",
    )


def _no_gpu() -> Problem:
    return Problem(
        code="no-gpu",
        message="built for the GPU, but not run: there is none here that the worker's torch can use",
        hint="findings from the text and the compiler's figures hold; `kernel-lsp doctor` says what is missing",
    )
