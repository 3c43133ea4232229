"""The jobs, seen from the parent: which child is asked what, in which order, and what its end means."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import random
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kernel_lsp.domain import (
    Crashed,
    Device,
    Location,
    Mismatch,
    Passed,
    Problem,
    Rejected,
    Samples,
    Span,
    TimedOut,
    Timing,
    Unjudged,
    Verdict,
    Workload,
)
from kernel_lsp.messages import (
    Capture,
    Captured,
    Effort,
    Evaluate,
    GpuMeasured,
    Limits,
    MeasureGpu,
    ReadyToSample,
    Reply,
    Sample,
    Sampled,
    Subject,
    TimingPlan,
    TimingTaken,
    VerdictReached,
)
from kernel_lsp.worker import kernel_child, reference_child
from kernel_lsp.worker.children import Child, Died, Overran, Reaper, fork
from kernel_lsp.worker.exchange import (
    CapturedArguments,
    CaptureTo,
    Compare,
    CompareTimed,
    Compile,
    Declined,
    Exhausted,
    Faulted,
    KernelReply,
    KernelRequest,
    Lap,
    Lapped,
    Load,
    Measure,
    Measured,
    Next,
    Open,
    Prepared,
    PrepareTiming,
    Raised,
    Ran,
    Ready,
    ReferenceReply,
    ReferenceRequest,
    Refused,
    Returned,
    Run,
    SetUp,
    TimingReady,
    Wrong,
)

JUDGE_S = {Effort.QUICK: 3.0, Effort.FULL: 6.0, Effort.THOROUGH: 40.0}
"""Wall time after which no further optional workload is begun; a save is waiting for the first two."""

COMPILER_MODULES = ("torch._dynamo", "torch._inductor.compile_fx", "torch._inductor.codegen.cpp")

COMPILE_S = 240.0
"""`torch.compile` of a large model takes minutes on few cores."""

LEAST_ROUNDS = 7
"""A distribution-free 95 % interval for a median needs six samples; one more in case the first is odd."""

VERIFIED_LAPS = 3
"""Timed calls per subject, chosen at random, whose outputs are compared too."""

WARM_LAPS = 2

REFERENCE_MEMORY = 4
"""Times a kernel's limit: the reference is computed twice, once in float64, beside what it is compared with."""

ROOMY_BYTES = 8 * 2**30

Send = Callable[[Reply], Awaitable[None]]


class Stop(Exception):
    """The job is over, with this as its last word."""

    def __init__(self, reply: Verdict | Problem) -> None:
        super().__init__()
        self.reply = reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """A job's private folder and what is in it."""

    home: Path
    shared: Path
    """Arguments; the reference's child writes them, the kernels' children map them."""

    def of(self, name: str) -> Path:
        folder = self.home / name
        folder.mkdir(exist_ok=True)
        return folder


class Job:
    """The children of one job; all are gone, and their files, when its context is left."""

    def __init__(self, reaper: Reaper, limits: Limits, folders: Folders, device: Device) -> None:
        self._reaper = reaper
        self._limits = limits
        self._folders = folders
        self._device = device
        self._children: list[Child] = []

    def kernel(self, name: str) -> Kernel:
        folder = self._folders.of(f"kernel-{name}")
        serve = partial(kernel_child.serve, folder=folder, shared=self._folders.shared, device=self._device)
        return Kernel(self._fork(serve, folder), self._limits, folder)

    def reference(self, name: str = "reference", returned: str = "kernel-0") -> Reference:
        serve = partial(
            reference_child.serve,
            shared=self._folders.shared,
            returned=self._folders.of(returned),
            device=self._device,
        )
        memory = REFERENCE_MEMORY * self._limits.memory_bytes
        return Reference(self._fork(serve, self._folders.of(name), memory), self._limits)

    async def end(self) -> None:
        await asyncio.gather(*(child.end() for child in self._children))

    def _fork(self, serve: Any, folder: Path, memory: int | None = None) -> Child:
        child = fork(self._reaper, serve, folder=folder, limits=self._limits, memory_bytes=memory, device=self._device)
        self._children.append(child)
        return child


class Kernel:
    """A kernel's child; everything that goes wrong in it is the kernel's doing."""

    def __init__(self, child: Child, limits: Limits, folder: Path) -> None:
        self.folder = folder
        self.pid = child.pid
        self._child = child
        self._limits = limits

    async def ask(
        self, request: KernelRequest, during: str, workload: Workload | None = None, extra_s: float = 0.0
    ) -> Returned | Ready | Raised | Lapped | Ran:
        """Its answer.

        Raises:
            Stop: with `Crashed` or `TimedOut`, where it gives none.
        """
        reply: KernelReply | Died | Overran = await self._child.ask(
            request, KernelReply, self._limits.seconds + extra_s
        )
        match reply:
            case Faulted(what=what):
                raise Stop(Crashed(what=what, workload=workload, output_tail=self._child.output_tail))
            case Died(what=what):
                where = f" {during}" if what.startswith("called exit") else ""
                raise Stop(Crashed(what=what + where, workload=workload, output_tail=self._child.output_tail))
            case Overran():
                raise Stop(
                    TimedOut(seconds=self._limits.seconds, workload=workload, output_tail=self._child.output_tail)
                )
            case _:
                return reply

    async def load(self, subject: Subject) -> None:
        """Load the artifact.

        Raises:
            Stop
        """
        request = Load(artifact=subject.artifact, entry=subject.entry, entry_name=subject.entry_name)
        reply = await self.ask(request, "while it was loaded")
        if isinstance(reply, Raised):
            self.crash(f"cannot be loaded: {reply.text.removeprefix('NotLoaded: ')}")

    def crash(self, what: str, workload: Workload | None = None) -> None:
        """Raises `Stop` with `Crashed`."""
        raise Stop(Crashed(what=what, workload=workload, output_tail=self._child.output_tail))


class Reference:
    """The reference's child; what goes wrong in it is never the kernel's doing."""

    def __init__(self, child: Child, limits: Limits) -> None:
        self._child = child
        self._limits = limits
        self._path = Path()

    async def open(self, reference: Path, subject: Subject, effort: Effort, seed: int | None) -> None:
        """
        Raises:
            Stop: with the `Problem` of a reference that cannot be used.
        """
        self._path = reference
        await self.ask(
            Open(
                reference=reference,
                artifact=subject.artifact,
                entry=subject.entry,
                entry_name=subject.entry_name,
                directives=subject.directives,
                source=subject.path,
                effort=effort,
                seconds=min(JUDGE_S[effort], self._limits.seconds / 2),
                seed=seed,
            )
        )

    async def ask(self, request: ReferenceRequest, seconds: float | None = None) -> Any:
        """Its answer, which is never `Refused`.

        Raises:
            Stop: with a `Problem`.
        """
        reply: ReferenceReply | Died | Overran = await self._child.ask(
            request, ReferenceReply, seconds or self._limits.seconds
        )
        match reply:
            case Refused(problem=problem):
                raise Stop(problem)
            case Died(what=what):
                raise Stop(self._problem("reference-crashed", f"the reference's process ended: {what}"))
            case Overran(seconds=limit):
                raise Stop(self._problem("reference-slow", f"the reference took longer than {limit:.0f} s"))
            case _:
                return reply

    def _problem(self, code: str, message: str) -> Problem:
        lines = self._child.output_tail.strip().splitlines()
        return Problem(
            code=code,
            message=f"{message}{f' ({lines[-1][:200]})' if lines and code == 'reference-crashed' else ''}",
            hint="run the reference by itself; use smaller inputs, or raise `timeout-s` in the settings",
            location=Location(path=self._path, span=Span.line(0)),
        )


async def evaluate(request: Evaluate, reaper: Reaper, send: Send) -> None:
    """Judge the first subject, then time all.

    Raises:
        Stop: with the `Problem` that keeps it from being judged.
    """
    async with _job(reaper, request.limits, request.subjects[0].device) as job:
        try:
            # Forked before anything is known that a kernel could look for in memory.
            kernel, reference = job.kernel("0"), job.reference()
            await reference.open(request.reference, request.subjects[0], request.effort, request.seed)
            passed = await _judge(kernel, reference, request.subjects[0])
            await send(VerdictReached(job=request.job, verdict=passed))
            if request.timing is not None:
                await _Timing(request, request.timing, job).run(kernel, reference, send)
        except Stop as stop:
            if isinstance(stop.reply, Problem):
                raise
            await send(VerdictReached(job=request.job, verdict=stop.reply))


async def sample(request: Sample, reaper: Reaper, send: Send, go: asyncio.Event) -> None:
    """Call the kernel in a loop once the server says that its profiler watches.

    Raises:
        Stop: with a `Problem`.
    """
    async with _job(reaper, request.limits, request.subject.device) as job:
        try:
            kernel, reference = job.kernel("0"), job.reference()
            await reference.open(request.reference, request.subject, Effort.QUICK, None)
            await kernel.load(request.subject)
            ready: TimingReady = await reference.ask(PrepareTiming())
            await _set_up(kernel, ready)
            await send(ReadyToSample(job=request.job, pid=kernel.pid))
            await asyncio.wait_for(go.wait(), request.limits.seconds)
            ran = await kernel.ask(Run(seconds=request.seconds), "while it was sampled", extra_s=request.seconds)
            if not isinstance(ran, Ran):
                raise Stop(_failed_call(request.subject, ran))
        except (asyncio.TimeoutError, TimeoutError):
            raise Stop(_not_watched()) from None
        except Stop as stop:
            if isinstance(stop.reply, Problem):
                raise
            raise Stop(_failed_call(request.subject, stop.reply)) from None
        calls = Samples(subject=request.subject.name, us=ran.us)
        await send(Sampled(job=request.job, calls=calls, cpu_us=ran.cpu_us))


async def capture(request: Capture, reaper: Reaper, send: Send) -> None:
    """Write the arguments of one call.

    Raises:
        Stop: with a `Problem`.
    """
    async with _job(reaper, request.limits, request.subject.device) as job:
        reference = job.reference()
        await reference.open(request.reference, request.subject, Effort.QUICK, None)
        captured: CapturedArguments = await reference.ask(
            CaptureTo(directory=request.directory.absolute(), max_elements=request.max_elements)
        )
        await send(Captured(job=request.job, arguments=captured.arguments))


async def measure_gpu(request: MeasureGpu, reaper: Reaper, send: Send) -> None:
    """Measure the GPU's ceilings.

    Raises:
        Stop: with a `Problem`.
    """
    async with _job(reaper, request.limits, Device.CUDA) as job:
        measured: Measured = await job.reference().ask(Measure())
        await send(GpuMeasured(job=request.job, ceilings=measured.ceilings))


async def _judge(kernel: Kernel, reference: Reference, subject: Subject) -> Passed:
    """
    Raises:
        Stop: with any verdict but `Passed`.
    """
    await kernel.load(subject)
    reply = await reference.ask(Next())
    while True:
        match reply:
            case Exhausted():
                return Passed(results=reply.results, binding=reply.binding, notes=reply.notes)
            case Wrong(verdict=verdict):
                raise Stop(verdict)
            case Prepared():
                outcome = await kernel.ask(reply.call, "during the call", reply.workload)
                match outcome:
                    case Returned():
                        reply = await reference.ask(Compare(outcome=outcome))
                    case Raised(text=text) if not reply.given:
                        reply = await reference.ask(Declined(text=text))
                    case Raised(text=text):
                        kernel.crash(f"raised {text}", reply.workload)
                    case _:
                        kernel.crash("wrote over the worker's private channel", reply.workload)


# --- timing -------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Runner:
    """One that is timed."""

    name: str
    lap: Callable[[Lap], Awaitable[Lapped]]
    verify: Callable[[int, Returned], Awaitable[None]] | None = None


class _Timing:
    """The timing of one job: everyone ready first, then rounds."""

    def __init__(self, request: Evaluate, plan: TimingPlan, job: Job) -> None:
        self._request = request
        self._plan = plan
        self._job = job

    async def run(self, kernel: Kernel, reference: Reference, send: Send) -> None:
        """
        Raises:
            Stop: where the first subject fails now, or gives a wrong result.
        """
        ready: TimingReady = await reference.ask(PrepareTiming())
        await _set_up(kernel, ready)
        runners = [_kernel_runner(self._request.subjects[0].name, kernel, reference), *await self._others(ready)]
        if self._plan.eager:
            runners.append(Runner(name="eager", lap=reference.ask))
        if self._plan.compiled and (compiled := await self._compiled()) is not None:
            runners.append(compiled)
        await send(await self._measured(runners, ready))

    async def _others(self, ready: TimingReady) -> list[Runner]:
        """Subjects that were judged in runs of their own; one that fails now is left out, and blames nobody."""
        runners = []
        for number, subject in enumerate(self._request.subjects[1:], 1):
            with contextlib.suppress(Stop):
                other = self._job.kernel(str(number))
                await other.load(subject)
                await _set_up(other, ready)
                runners.append(_kernel_runner(subject.name, other, None))
        return runners

    async def _compiled(self) -> Runner | None:
        """The reference under `torch.compile`, in a child of its own: it may fail, or take minutes."""
        _import_compiler()
        reference = self._job.reference("compiled", "compiled-returns")
        try:
            await reference.open(self._request.reference, self._request.subjects[0], Effort.QUICK, None)
            await reference.ask(Compile(), COMPILE_S)
        except Stop:
            return None
        return Runner(name="compiled", lap=reference.ask)

    async def _measured(self, runners: list[Runner], ready: TimingReady) -> TimingTaken:
        samples, notes = await _rounds(runners, self._plan, len(ready.calls))
        timing = Timing(
            workload=ready.workload,
            samples=samples,
            threads=len(os.sched_getaffinity(0)),
            cold_cache=self._plan.cold_cache,
            notes=notes,
        )
        return TimingTaken(
            job=self._request.job, timing=timing, compulsory_bytes=ready.compulsory_bytes, flops=ready.flops
        )


def _import_compiler() -> None:
    """Have torch's compiler in the warm parent once, so that no child pays the four seconds that importing takes.

    It starts no thread there: with one compile thread (as the server's environment asks) there is no pool.
    """
    with contextlib.suppress(Exception):
        for module in COMPILER_MODULES:
            importlib.import_module(module)


async def _set_up(kernel: Kernel, ready: TimingReady) -> None:
    reply = await kernel.ask(SetUp(calls=ready.calls), "during a call before timing", ready.workload)
    if isinstance(reply, Raised):
        kernel.crash(f"raised {reply.text}", ready.workload)


def _kernel_runner(name: str, kernel: Kernel, reference: Reference | None) -> Runner:
    async def lap(request: Lap) -> Lapped:
        reply = await kernel.ask(request, "during a timed call")
        if isinstance(reply, Raised):
            kernel.crash(f"raised {reply.text}")
        if not isinstance(reply, Lapped):
            kernel.crash("wrote over the worker's private channel")
        assert isinstance(reply, Lapped)
        return reply

    async def verify(which: int, outcome: Returned) -> None:
        assert reference is not None
        reply = await reference.ask(CompareTimed(which=which, outcome=outcome, files=kernel.folder))
        if isinstance(reply, Wrong):
            raise Stop(reply.verdict)

    return Runner(name=name, lap=lap, verify=verify if reference is not None else None)


async def _rounds(
    runners: list[Runner], plan: TimingPlan, rotations: int
) -> tuple[tuple[Samples, ...], tuple[str, ...]]:
    """Interleaved rounds in random order, all subjects on the same inputs within one round; and notes on them.

    Raises:
        Stop
    """
    order = random.SystemRandom()
    for runner in runners:
        for number in range(WARM_LAPS):
            await runner.lap(Lap(which=number % rotations, cold_cache=False, keep=False))
    taken: dict[str, list[float]] = {runner.name: [] for runner in runners}
    elsewhere = dict.fromkeys(taken, 0)
    verified = set(order.sample(range(max(1, plan.rounds)), min(VERIFIED_LAPS, plan.rounds)))
    verified.add(order.randrange(LEAST_ROUNDS))  # one at least, should the budget end it early
    end = time.monotonic() + plan.budget_s
    for number in range(plan.rounds):
        if number >= LEAST_ROUNDS and time.monotonic() > end:
            break
        which = number % rotations
        for runner in order.sample(runners, len(runners)):
            keep = number in verified and runner.verify is not None
            lapped = await runner.lap(Lap(which=which, cold_cache=plan.cold_cache, keep=keep))
            taken[runner.name].append(lapped.us)
            elsewhere[runner.name] += lapped.elsewhere
            if keep and runner.verify is not None:
                if lapped.returned is None:
                    raise Stop(Crashed(what="wrote over the worker's private channel", workload=None, output_tail=""))
                await runner.verify(which, lapped.returned)
    notes = tuple(
        f"{name}: the current stream was busy for less time than the call took, so the host's clock counts"
        for name, times in elsewhere.items()
        if 2 * times > len(taken[name])
    )
    return tuple(Samples(subject=name, us=tuple(us)) for name, us in taken.items()), notes


# ------------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _job(reaper: Reaper, limits: Limits, device: Device) -> AsyncIterator[Job]:
    with _folders() as folders:
        job = Job(reaper, limits, folders, device)
        try:
            yield job
        finally:
            await job.end()
            # What a kernel left behind, a daemon of its own too: it has been adopted by us.
            reaper.kill_all()


@contextlib.contextmanager
def _folders() -> Iterator[Folders]:
    home = Path(tempfile.mkdtemp(prefix=f"{folder_prefix()}{os.getpid()}-", dir=roomy_directory()))
    try:
        (home / "shared").mkdir()
        yield Folders(home=home, shared=home / "shared")
    finally:
        shutil.rmtree(home, ignore_errors=True)


def folder_prefix() -> str:
    return f"kernel-lsp-{os.getuid()}-"


def roomy_directory() -> Path:
    """Memory-backed where there is room for tensors, else the ordinary temporary folder."""
    memory = Path("/dev/shm")
    try:
        if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free >= ROOMY_BYTES:
            return memory
    except OSError:
        pass
    return Path(tempfile.gettempdir())


def _failed_call(subject: Subject, what: object) -> Problem:
    match what:
        case Raised(text=text):
            words = f"raised {text}"
        case Crashed(what=words):
            pass
        case TimedOut(seconds=seconds):
            words = f"took longer than {seconds:.0f} s"
        case Mismatch() | Rejected() | Unjudged():
            words = "gave a wrong result"
        case _:
            words = "gave no answer"
    return Problem(
        code="kernel-failed",
        message=f"`{subject.entry.name}` {words}",
        hint="save again to see the verdict",
        location=Location(path=subject.path, span=subject.entry.name_span),
    )


def _not_watched() -> Problem:
    return Problem(code="not-watched", message="the profiler did not start", hint="see what `kernel-lsp doctor` says")
