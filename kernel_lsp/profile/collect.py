"""One profile of a built kernel: samples by line, counters, busy threads, cache misses, as far as they can be had."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from kernel_lsp.build.toolchain import Toolchain
from kernel_lsp.domain import Build, Counter, KernelUnit, LineCache, Problem, Profile
from kernel_lsp.evaluate import Worker
from kernel_lsp.messages import Sampled, Subject
from kernel_lsp.profile import cachegrind, perf
from kernel_lsp.profile.lines import Attribution, UserFiles, resolve
from kernel_lsp.settings import Settings


async def collect(  # noqa: PLR0917 - what is profiled, and with what
    unit: KernelUnit,
    build: Build,
    subject: Subject,
    worker: Worker,
    toolchain: Toolchain,
    settings: Settings,
    *,
    seconds: float = 0.6,
    cache: bool = True,
) -> Profile:
    """Profile `subject`, built from `unit` by `build`, calling it for `seconds`; with `cache`, cachegrind too.

    Whatever cannot be measured is left out, and a `Problem` in the profile says why and what to do; the rest goes
    on. Nothing is left behind, also where the task is cancelled.
    """
    files = UserFiles.of(unit, settings.flags)
    if unit.reference is None:
        return _profile(unit, worker, problems=[_no_reference()])
    problems: list[Problem] = []
    tools: list[str] = []
    with tempfile.TemporaryDirectory(prefix="kernel-lsp-") as folder:
        tool = await perf.version()
        recorder = perf.Recorder(Path(folder), counters=perf.counters_exist())
        sampled = await worker.sample(
            reference=unit.reference,
            subject=subject,
            seconds=seconds,
            watch=_unwatched if isinstance(tool, Problem) else recorder.watch,
        )
        attribution: Attribution | Problem
        counters: tuple[Counter, ...] = ()
        if isinstance(sampled, Problem):
            attribution = sampled
        elif isinstance(tool, Problem):
            attribution = tool
        else:
            tools.append(f"perf {tool}")
            attribution = await _attributed(recorder, build, files)
            counters = recorder.counters(len(sampled.calls.us))
    if isinstance(attribution, Problem):
        problems.append(attribution)
    cache_lines: tuple[LineCache, ...] = ()
    # A kernel that the worker could not even call will not run under cachegrind either: one message is enough.
    if cache and isinstance(sampled, Sampled):
        counted = await cachegrind.measure(
            unit,
            build,
            subject,
            worker,
            toolchain=toolchain,
            settings=settings,
            files=files,
            cpu_us=sampled.cpu_us / len(sampled.calls.us) if sampled.calls.us else None,
        )
        if isinstance(counted, Problem):
            problems.append(counted)
        else:
            cache_lines = counted
            tools.append(f"cachegrind {await cachegrind.version()}")
    return _profile(
        unit,
        worker,
        tool=" + ".join(tools),
        attribution=attribution if isinstance(attribution, Attribution) else None,
        cache=cache_lines,
        counters=counters,
        busy_threads=busy_threads(sampled) if isinstance(sampled, Sampled) else None,
        problems=problems,
    )


def busy_threads(sampled: Sampled) -> float | None:
    """CPU time over wall time of the calls; None where no call was timed."""
    wall_us = sum(sampled.calls.us)
    return sampled.cpu_us / wall_us if wall_us > 0 else None


async def _attributed(recorder: perf.Recorder, build: Build, files: UserFiles) -> Attribution | Problem:
    samples = await recorder.samples()
    if isinstance(samples, Problem):
        return samples
    assert build.artifact is not None
    return await resolve(samples, build.artifact.path, files)


def _profile(
    unit: KernelUnit,
    worker: Worker,
    *,
    tool: str = "",
    attribution: Attribution | None = None,
    cache: tuple[LineCache, ...] = (),
    counters: tuple[Counter, ...] = (),
    busy_threads: float | None = None,
    problems: list[Problem],
) -> Profile:
    return Profile(
        unit_digest=unit.digest,
        tool=tool,
        samples=attribution.samples if attribution else 0,
        lines=attribution.lines if attribution else (),
        outside=attribution.outside if attribution else (),
        cache=cache,
        counters=counters,
        busy_threads=busy_threads,
        threads=worker.hello.threads,
        problems=tuple(problems),
    )


@contextlib.asynccontextmanager
async def _unwatched(pid: int) -> AsyncIterator[None]:
    """For a machine without perf: the calls are timed all the same."""
    yield


def _no_reference() -> Problem:
    return Problem(
        code="no-reference",
        message="a kernel without a reference has no arguments to be called with, so it cannot be profiled",
        hint="add a reference; see the kernel's own message",
    )
