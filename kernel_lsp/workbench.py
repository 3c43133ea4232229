"""Where toolchain, builder, worker and history meet: one kernel text in, its build, verdict, times or profile out.

The engine strings these steps into a loop for people; the search takes them as its `Bench`. Everything slow to
get (the toolchain, the warm worker, the ceilings) is got once, on first use, and asked for again if it failed:
what was missing may have been installed since.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from kernel_lsp import diagnose
from kernel_lsp.build.bare import bare
from kernel_lsp.build.builder import Builder
from kernel_lsp.build.toolchain import Toolchain, discover
from kernel_lsp.domain import (
    Build,
    BuildFailed,
    Ceilings,
    Device,
    Finding,
    KernelUnit,
    Language,
    Mismatch,
    Passed,
    Problem,
    Profile,
    Rejected,
    Roofline,
    Route,
    Unjudged,
    Verdict,
)
from kernel_lsp.evaluate import Worker
from kernel_lsp.messages import Effort, Failed, Subject, TimingPlan, TimingTaken, VerdictReached
from kernel_lsp.optimize.search import Assessment, Trial
from kernel_lsp.profile import ceilings as ceiling
from kernel_lsp.profile.collect import collect
from kernel_lsp.profile.lines import moved
from kernel_lsp.profile.roofline import roofline
from kernel_lsp.settings import Settings
from kernel_lsp.source.features import features
from kernel_lsp.source.parse import parse
from kernel_lsp.store import Store, StoredMemory

T = TypeVar("T")

ON_SAVE = TimingPlan(rounds=40, budget_s=1.5, cold_cache=True, eager=True, compiled=False)
WITH_COMPILED = TimingPlan(rounds=40, budget_s=2.0, cold_cache=True, eager=True, compiled=True)
IN_SEARCH = TimingPlan(rounds=25, budget_s=0.6, cold_cache=True, eager=False, compiled=False)
BEFORE_OFFER = TimingPlan(rounds=60, budget_s=2.0, cold_cache=True, eager=True, compiled=True)

MOST_BESIDE = 64
"""Python files beside a reference that count as its own; in a folder of more they hardly are."""

KEPT_RESULTS = 64
"""Texts whose timings and assessments are kept in memory; a search tries a few dozen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one build was found to be, kept for as long as neither it nor its reference changes."""

    text: str
    """The unit's, to whose lines the profile refers."""
    verdict: Verdict
    """Never one that another run might change: a crash may be the machine's doing, a limit of time its load's."""
    taken: TimingTaken | None
    compiled: TimingTaken | None = None
    """With `torch.compile` in it."""
    profile: Profile | None = None


class Workbench:
    """Builds, judges, times and profiles kernel texts on this machine."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.cache_dir = settings.cache_folder
        self.store = Store(self.cache_dir / "history.sqlite")
        self._toolchain = _Once(lambda: discover(settings))
        self._builder = _Once(self._make_builder)
        self._worker = _Once(lambda: Worker.start(settings))
        self._ceilings = _Once(self._measure_ceilings)
        self._gpu_ceilings = _Once(self._measure_gpu)
        self._timings: OrderedDict[str, TimingTaken] = OrderedDict()
        self._assessments: OrderedDict[str, Assessment] = OrderedDict()
        self._measured: OrderedDict[str, Measured] = OrderedDict()
        self._torch: tuple[Path, float] | None = None

    async def close(self) -> None:
        """End the worker and close the history. Running steps must have been cancelled before."""
        for once in (self._toolchain, self._builder, self._ceilings, self._gpu_ceilings):
            once.cancel()
        worker = await self._worker.settle()
        if isinstance(worker, Worker):
            await worker.close()
        self.store.close()

    async def toolchain(self) -> Toolchain | Problem:
        return await self._toolchain.get()

    async def worker(self) -> Worker | Problem:
        return await self._worker.get()

    async def gpu(self) -> str | None:
        """Name of the GPU that kernels run on; None without one, or where the worker does not start."""
        worker = await self.worker()
        return None if isinstance(worker, Problem) else worker.hello.cuda

    def warm(self) -> None:
        """Start the worker and look for the tools, without waiting for either."""
        self._builder.begin()
        self._worker.begin()

    async def build(self, unit: KernelUnit, route: Route | None = None) -> Build | Problem:
        await self._follow_torch()
        builder = await self._builder.get()
        if isinstance(builder, Problem):
            return builder
        return await builder.build(unit, route)

    def problems(self) -> tuple[Problem, ...]:
        """What limits the history and the build cache on this machine, as far as it has shown."""
        builder = self._builder.known()
        of_builds = tuple(builder.problems) if isinstance(builder, Builder) else ()
        return of_builds if self.store.problem is None else (self.store.problem, *of_builds)

    async def evaluate(
        self, unit: KernelUnit, subjects: tuple[Subject, ...], effort: Effort, timing: TimingPlan | None
    ) -> AsyncGenerator[Verdict | TimingTaken, None]:
        """The verdict on `subjects[0]`, which was built from `unit`, then its timings if it passed."""
        if unit.problem is not None or unit.reference is None:
            yield Unjudged(problem=unit.problem or _no_reference(unit))
            return
        worker = await self.worker()
        if isinstance(worker, Problem):
            yield Unjudged(problem=worker)
            return
        plan = None if timing is None else self._as_set(timing)
        async with contextlib.aclosing(
            worker.evaluate(reference=unit.reference, subjects=subjects, effort=effort, timing=plan)
        ) as replies:
            async for reply in replies:
                match reply:
                    case VerdictReached(verdict=verdict):
                        yield verdict
                    case TimingTaken():
                        _keep(self._timings, unit.digest, reply)
                        yield reply
                    case Failed(problem=problem):
                        yield Unjudged(problem=problem)

    async def profile(self, unit: KernelUnit, build: Build, *, cache: bool = True) -> Profile | Problem:
        tools, worker = await self.toolchain(), await self.worker()
        for missing in (tools, worker):
            if isinstance(missing, Problem):
                return missing
        assert isinstance(tools, Toolchain)
        assert isinstance(worker, Worker)
        subject = subject_of(unit, build)
        return await collect(unit, build, subject, worker, tools, self.settings, cache=cache)

    async def ceilings(self, device: Device = Device.CPU) -> Ceilings | Problem:
        """What this machine can do at best: from the history, else measured now, which takes some seconds."""
        return await (self._ceilings if device is Device.CPU else self._gpu_ceilings).get()

    async def roofline(self, taken: TimingTaken, device: Device = Device.CPU) -> Roofline | None:
        ceilings = await self.ceilings(device)
        if isinstance(ceilings, Problem):
            return None
        return roofline(taken.timing, taken.compulsory_bytes, taken.flops, ceilings)

    async def memory(self, unit: KernelUnit) -> StoredMemory:
        """Attempts on kernels judged by the same reference, with the same compiler and flags, on this machine."""
        tools = await self.toolchain()
        compiler = "" if isinstance(tools, Problem) else tools.compiler_version
        reference = b"" if unit.reference is None else unit.reference.read_bytes()
        device = await self._device_name(unit)
        parts = (hashlib.sha256(reference).hexdigest(), compiler, *self.settings.flags, device)
        return self.store.memory("\0".join(parts))

    def recall(self, unit: KernelUnit, build: Build) -> Measured | None:
        """What is known of the same artifact beside the same reference, at the lines of `unit`'s text."""
        known = self._measured.get(_state(unit, build))
        if known is None or known.text == unit.text:
            return known
        profile = known.profile and moved(known.profile, unit, bare(known.text), bare(unit.text))
        return replace(known, text=unit.text, profile=profile)

    def remember(self, unit: KernelUnit, build: Build, measured: Measured) -> None:
        if isinstance(measured.verdict, (Passed, Mismatch, Rejected)):
            _keep(self._measured, _state(unit, build), measured)
        else:
            self._measured.pop(_state(unit, build), None)
        if measured.taken is not None:
            _keep(self._timings, unit.digest, measured.taken)

    def keep(self, unit: KernelUnit, findings: tuple[Finding, ...], where: Roofline | None) -> None:
        """Remember what a check found, so that a search over the same text begins where the check ended."""
        _keep(self._assessments, unit.digest, Assessment(findings=findings, roofline=where))

    # --- optimize.search.Bench ------------------------------------------------------------------------------

    def has_passed(self, unit: KernelUnit) -> bool:
        """This very text passed, and was timed, in this session."""
        return unit.digest in self._timings

    async def assess(self, unit: KernelUnit) -> Assessment:
        """Findings and roofline of a text that has passed, profiled by sampling alone, once."""
        if (known := self._assessments.get(unit.digest)) is not None:
            return known
        build = await self.build(unit)
        taken = self._timings.get(unit.digest)
        where = None if taken is None else await self.roofline(taken, device_of(unit))
        profile = None
        if isinstance(build, Build) and build.artifact is not None:
            # Counting cache misses takes seconds, and a search looks at many texts.
            profile = await self.profile(unit, build, cache=False)
        findings = diagnose.diagnose(
            features(parse(unit.path, unit.text)),
            build=build if isinstance(build, Build) else None,
            profile=profile if isinstance(profile, Profile) else None,
            roofline=where,
            path=unit.path,
        )
        if isinstance(profile, Profile) and where is not None:
            self.keep(unit, findings, where)
        return Assessment(findings=findings, roofline=where)

    async def compare(self, candidate: KernelUnit, parent: KernelUnit, effort: Effort) -> Trial:
        """Build, judge and time `candidate` beside `parent`, as `kernel` and `parent`, in one run.

        A candidate never takes a slower way than its parent did: what the thin layer refuses in it, but not in the
        parent, is more likely a mistake of the rewrite than worth the forty seconds that torch's headers take.
        """
        parent_build = await self.build(parent)
        route = Route.THIN if isinstance(parent_build, Build) and parent_build.route is Route.THIN else None
        return await self._compared(candidate, await self.build(candidate, route), parent, parent_build, effort)

    async def confirm(self, candidate: KernelUnit, parent: KernelUnit) -> Trial:
        """The same in thorough mode, both built as the user's own build will build them."""
        build, parent_build = await asyncio.gather(self.build(candidate, Route.WHOLE), self.build(parent, Route.WHOLE))
        return await self._compared(candidate, build, parent, parent_build, Effort.THOROUGH)

    async def _compared(
        self,
        candidate: KernelUnit,
        build: Build | Problem,
        parent: KernelUnit,
        parent_build: Build | Problem,
        effort: Effort,
    ) -> Trial:
        if isinstance(build, Problem):
            return Trial(build=None, verdict=Unjudged(problem=build), timing=None)
        if isinstance(parent_build, Problem):
            return Trial(build=None, verdict=Unjudged(problem=parent_build), timing=None)
        if build.artifact is None or parent_build.artifact is None:
            return Trial(build=build, verdict=failed_build(build), timing=None)
        subjects = (subject_of(candidate, build), subject_of(parent, parent_build, "parent"))
        verdict: Verdict | None = None
        taken: TimingTaken | None = None
        plan = IN_SEARCH if effort is Effort.QUICK else BEFORE_OFFER
        async with contextlib.aclosing(self.evaluate(candidate, subjects, effort, plan)) as results:
            async for result in results:
                if isinstance(result, TimingTaken):
                    taken = result
                else:
                    verdict = result
        if taken is None or not isinstance(verdict, Passed):
            return Trial(build=build, verdict=verdict, timing=None)
        where = await self.roofline(taken, device_of(candidate))
        return Trial(build=build, verdict=verdict, timing=taken.timing, roofline=where)

    # --------------------------------------------------------------------------------------------------------

    async def _follow_torch(self) -> None:
        """Begin anew with a torch that was installed over the one in use: half of either would crash in riddles."""
        tools = self._toolchain.known()
        if not isinstance(tools, Toolchain) or tools.torch is None:
            return
        stamp = (tools.torch.root, _changed_at(tools.torch.root / "version.py"))
        if self._torch is None or self._torch[0] != stamp[0]:
            self._torch = stamp
        elif self._torch != stamp:
            self._torch = None
            self._measured.clear()
            worker = await self._worker.settle()
            if isinstance(worker, Worker):
                await worker.close()
            self._toolchain = _Once(lambda: discover(self.settings))
            self._builder = _Once(self._make_builder)
            self._worker = _Once(lambda: Worker.start(self.settings))

    async def _make_builder(self) -> Builder | Problem:
        tools = await self.toolchain()
        return tools if isinstance(tools, Problem) else Builder(tools, self.settings, self.cache_dir / "builds")

    async def _measure_ceilings(self) -> Ceilings | Problem:
        known = self.store.ceilings(ceiling.device_name(), len(os.sched_getaffinity(0)))
        if known is not None:
            return known
        tools = await self.toolchain()
        if isinstance(tools, Problem):
            return tools
        measured = await ceiling.measure(tools)
        if isinstance(measured, Ceilings):
            self.store.keep_ceilings(measured)
        return measured

    async def _device_name(self, unit: KernelUnit) -> str:
        if device_of(unit) is Device.CPU:
            return ceiling.device_name()
        worker = await self.worker()
        return "" if isinstance(worker, Problem) else worker.hello.cuda or ""

    async def _measure_gpu(self) -> Ceilings | Problem:
        worker = await self.worker()
        if isinstance(worker, Problem):
            return worker
        # A GPU's ceilings do not depend on how many of the machine's threads are ours.
        known = None if worker.hello.cuda is None else self.store.ceilings(worker.hello.cuda, threads=0)
        if known is not None:
            return known
        measured = await worker.ceilings()
        if isinstance(measured, Ceilings):
            self.store.keep_ceilings(measured)
        return measured

    def _as_set(self, plan: TimingPlan) -> TimingPlan:
        return TimingPlan(
            rounds=plan.rounds,
            budget_s=plan.budget_s,
            cold_cache=self.settings.cold_cache,
            eager=plan.eager,
            compiled=plan.compiled and self.settings.compiled_baseline,
        )


def subject_of(unit: KernelUnit, build: Build, name: str = "kernel") -> Subject:
    """How the worker calls a built unit that has an entry."""
    assert build.artifact is not None
    assert unit.entry is not None
    assert unit.entry_name is not None
    return Subject(
        name=name,
        artifact=build.artifact,
        entry=unit.entry,
        entry_name=unit.entry_name,
        directives=unit.directives,
        path=unit.path,
        device=device_of(unit),
    )


def device_of(unit: KernelUnit) -> Device:
    return Device.CUDA if unit.language is Language.CUDA else Device.CPU


def failed_build(build: Build) -> Verdict:
    """The verdict on a build that gave no artifact."""
    return BuildFailed(messages=build.messages) if build.problem is None else Unjudged(problem=build.problem)


def _state(unit: KernelUnit, build: Build) -> str:
    """Digest of all that a verdict rests on but the machine: artifact, call, the reference and what lies beside it."""
    assert build.artifact is not None
    assert unit.reference is not None
    hasher = hashlib.sha256(repr((build.artifact.digest, unit.path, unit.entry_name, unit.directives)).encode())
    beside = sorted(unit.reference.parent.glob("*.py"))[:MOST_BESIDE]
    for path in (unit.reference, *beside):
        with contextlib.suppress(OSError):
            hasher.update(hashlib.sha256(path.read_bytes()).digest())
    return hasher.hexdigest()


def _changed_at(path: Path) -> float:
    """0 where it is gone, as while it is being replaced."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _no_reference(unit: KernelUnit) -> Problem:
    return Problem(
        code="no-reference",
        message=f"{unit.path.name} has no Torch reference",
        hint=f"add {unit.path.stem}.py beside it, or name one with `// kernel-lsp: reference=…`",
    )


def _keep(results: OrderedDict[str, T], digest: str, value: T) -> None:
    results[digest] = value
    results.move_to_end(digest)
    while len(results) > KEPT_RESULTS:
        results.popitem(last=False)


class _Once(Generic[T]):
    """A value made once, by whoever asks first; a `Problem` is not kept, so the next one asks again."""

    def __init__(self, make: Callable[[], Awaitable[T]]) -> None:
        self._make = make
        self._task: asyncio.Task[T] | None = None

    def begin(self) -> asyncio.Task[T]:
        task = self._task
        if task is None or (task.done() and (task.cancelled() or isinstance(task.result(), Problem))):
            task = self._task = asyncio.ensure_future(_run(self._make))
        return task

    async def get(self) -> T:
        # Shielded: a check that is cancelled while the worker starts must not take the worker from the next one.
        return await asyncio.shield(self.begin())

    async def settle(self) -> T | None:
        """The value if there is one; where it is on its way, that is given up."""
        if self._task is None:
            return None
        self._task.cancel()
        await asyncio.wait([self._task])
        return None if self._task.cancelled() else self._task.result()

    def known(self) -> T | None:
        """The value if it is there already."""
        done = self._task is not None and self._task.done() and not self._task.cancelled()
        return self._task.result() if done and self._task is not None else None

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


async def _run(make: Callable[[], Awaitable[T]]) -> T:
    return await make()
