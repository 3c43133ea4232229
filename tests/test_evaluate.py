"""The server's end of the worker: timing, sampling, cancelling, restarting, and nothing left behind."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from kernel_lsp.domain import ArtifactKind, Mismatch, Passed, Problem, TimedOut
from kernel_lsp.evaluate import Worker
from kernel_lsp.messages import Captured, Effort, Sampled, Subject, TimingPlan
from kernel_lsp.settings import Settings
from tests.worker.kernels import build, judge, python_kernel, reference, running

pytestmark = pytest.mark.asyncio(loop_scope="module")
TORCH = [pytest.mark.torch, pytest.mark.compiler]
PLAN = TimingPlan(rounds=9, budget_s=5.0, cold_cache=False, eager=True, compiled=False)

SCALE = """
import torch
N = 5000
def reference(x):
    return x * 2
def inputs():
    return (torch.randn(N),)
"""
HONEST = "void scale(const float* x, float* y, int n) {\n for (int i = 0; i < n; i++) y[i] = x[i] * 2; }"
ENDLESS = "void scale(const float* x, float* y, int n) {\n for (volatile int k = 0;; k++); }"


def processes() -> set[int]:
    """All descendants of this process."""
    parents = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                stat = Path(entry.path, "stat").read_text()
            except OSError:
                continue
            state, parent = stat.rpartition(")")[2].split()[:2]
            if state != "Z":
                parents[int(entry.name)] = int(parent)
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


def descriptors() -> int:
    return len(list(os.scandir("/proc/self/fd")))


def leftovers(worker: int) -> list[Path]:
    return [
        folder
        for directory in ("/dev/shm", tempfile.gettempdir())
        for folder in Path(directory).glob(f"kernel-lsp-{os.getuid()}-{worker}-*")
    ]


async def until(condition: object, seconds: float = 20.0) -> None:
    end = asyncio.get_running_loop().time() + seconds
    while not condition():  # type: ignore[operator]
        assert asyncio.get_running_loop().time() < end, "it did not happen in time"
        await asyncio.sleep(0.02)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def worker() -> AsyncIterator[Worker]:
    async with running() as started:
        yield started


class TestWithTorch:
    pytestmark = TORCH

    async def test_timing_is_interleaved_and_complete(self, worker: Worker, tmp_path: Path) -> None:
        path = reference(tmp_path, SCALE)
        kernel, parent = build(tmp_path, HONEST), build(tmp_path, HONEST, name="parent")
        verdicts, timings = await judge(worker, path, kernel, Effort.QUICK, timing=PLAN, others=(parent,))
        assert isinstance(verdicts[0], Passed)
        (taken,) = timings
        assert [s.subject for s in taken.timing.samples] == ["kernel", "parent", "eager"]
        assert {len(s.us) for s in taken.timing.samples} == {PLAN.rounds}
        assert all(us > 0 for s in taken.timing.samples for us in s.us)
        assert taken.timing.speedup("parent") is not None
        assert taken.compulsory_bytes == 2 * 4 * 5000
        assert taken.flops is None
        assert taken.timing.threads == len(os.sched_getaffinity(0))

    async def test_operations_are_counted_where_torch_can(self, worker: Worker, tmp_path: Path) -> None:
        text = "import torch\ndef reference(a, b):\n    return a @ b\n"
        text += "def inputs():\n    return torch.randn(6, 8), torch.randn(8, 10)\n"
        signature = "torch::Tensor mm(torch::Tensor a, torch::Tensor b)"
        kernel = python_kernel(tmp_path, "def mm(a, b):\n    return torch.einsum('ij,jk->ik', a, b)", signature)
        _, (taken,) = await judge(worker, reference(tmp_path, text), kernel, Effort.QUICK, timing=PLAN)
        assert taken.flops == 2 * 6 * 8 * 10
        assert taken.compulsory_bytes == 4 * (48 + 80 + 60)

    async def test_a_kernel_that_cheats_when_timed_is_caught(self, worker: Worker, tmp_path: Path) -> None:
        code = "calls = 0\ndef f(x):\n    global calls\n    calls += 1\n"
        code += "    return x * 2 if calls < 12 else torch.empty_like(x)"
        kernel = python_kernel(tmp_path, code, "torch::Tensor f(torch::Tensor x)")
        verdicts, timings = await judge(worker, reference(tmp_path, SCALE), kernel, Effort.QUICK, timing=PLAN)
        assert isinstance(verdicts[0], Passed)
        assert isinstance(verdicts[-1], Mismatch)
        assert verdicts[-1].explanation.startswith("right when judged, wrong in a timed call")
        assert not timings

    async def test_an_in_place_kernel_is_timed_on_fresh_values(self, worker: Worker, tmp_path: Path) -> None:
        text = SCALE.replace("return x * 2", "x.mul_(2)")
        code = "void twice(float* x, int n) {\n for (int i = 0; i < n; i++) x[i] *= 2; }"
        verdicts, timings = await judge(worker, reference(tmp_path, text), build(tmp_path, code), timing=PLAN)
        assert len(verdicts) == 1
        assert isinstance(verdicts[0], Passed)
        assert len(timings) == 1

    async def test_sampling_calls_the_kernel_while_it_is_watched(self, worker: Worker, tmp_path: Path) -> None:
        watched: list[int] = []

        @asynccontextmanager
        async def watch(pid: int) -> AsyncIterator[None]:
            assert pid in processes()
            watched.append(pid)
            yield
            watched.append(-pid)

        sampled = await worker.sample(
            reference=reference(tmp_path, SCALE), subject=build(tmp_path, HONEST), seconds=0.2, watch=watch
        )
        assert isinstance(sampled, Sampled)
        assert len(watched) == 2
        assert len(sampled.calls.us) > 10
        assert sampled.cpu_us > 0

    async def test_captured_arguments_are_small_enough_and_right(self, worker: Worker, tmp_path: Path) -> None:
        folder = tmp_path / "captured"
        folder.mkdir()
        captured = await worker.capture(
            reference=reference(tmp_path, SCALE),
            subject=build(tmp_path, HONEST),
            directory=folder,
            max_elements=700,
        )
        assert isinstance(captured, Captured)
        x, y, n = captured.arguments
        assert x.tensor is not None
        assert x.tensor.shape == (5000 >> 3,)
        assert x.file is not None
        assert (folder / x.file).stat().st_size == 4 * 625
        assert (x.is_output, y.is_output) == (False, True)
        assert n.number == "625"

    async def test_cancelling_kills_the_children_and_keeps_the_worker(self, worker: Worker, tmp_path: Path) -> None:
        path, endless, honest = reference(tmp_path, SCALE), build(tmp_path, ENDLESS, name="e"), build(tmp_path, HONEST)
        await judge(worker, path, honest, Effort.QUICK)
        before = processes()
        for _ in range(3):
            job = asyncio.ensure_future(judge(worker, path, endless))
            await until(lambda: len(processes()) >= len(before) + 2)
            job.cancel()
            with pytest.raises(asyncio.CancelledError):
                await job
            await until(lambda: processes() == before)
        verdicts, _ = await judge(worker, path, honest, Effort.QUICK)
        assert isinstance(verdicts[0], Passed)

    async def test_leaving_the_stream_early_cancels_too(self, worker: Worker, tmp_path: Path) -> None:
        path, honest = reference(tmp_path, SCALE), build(tmp_path, HONEST)
        plan = TimingPlan(rounds=10_000, budget_s=60.0, cold_cache=True, eager=True, compiled=False)
        before = processes()
        async with aclosing(
            worker.evaluate(reference=path, subjects=(honest,), effort=Effort.QUICK, timing=plan)
        ) as replies:
            async for _ in replies:
                break
        await until(lambda: processes() == before)

    async def test_a_worker_that_was_killed_is_started_again(self, worker: Worker, tmp_path: Path) -> None:
        path, endless, honest = reference(tmp_path, SCALE), build(tmp_path, ENDLESS, name="e"), build(tmp_path, HONEST)
        job = asyncio.ensure_future(judge(worker, path, endless))
        await until(lambda: len(processes()) >= 3)
        (parent,) = (pid for pid in processes() if _parent(pid) == os.getpid())
        os.kill(parent, signal.SIGKILL)
        verdicts, _ = await job
        (problem,) = verdicts
        assert isinstance(problem, Problem)
        assert problem.code == "worker-died"
        await until(lambda: not processes())
        verdicts, _ = await judge(worker, path, honest, Effort.QUICK)
        assert isinstance(verdicts[0], Passed)

    async def test_two_jobs_at_once_take_turns(self, worker: Worker, tmp_path: Path) -> None:
        path, honest = reference(tmp_path, SCALE), build(tmp_path, HONEST)
        both = await asyncio.gather(*(judge(worker, path, honest, Effort.QUICK, timing=PLAN) for _ in range(2)))
        assert all(isinstance(verdicts[0], Passed) and len(timings) == 1 for verdicts, timings in both)

    async def test_fifty_evaluations_leave_nothing_behind(self, worker: Worker, tmp_path: Path) -> None:
        # Four elements: nothing to vary, so an evaluation is as short as can be.
        path, honest = reference(tmp_path, SCALE.replace("(N)", "(4)").replace("5000", "4")), build(tmp_path, HONEST)
        crash = build(tmp_path, HONEST.replace("for (", "exit(0); for ("), name="crash")
        for kernel in (honest, crash):
            await judge(worker, path, kernel, Effort.QUICK)
        gc.collect()
        before, tasks, running_now = descriptors(), len(asyncio.all_tasks()), processes()
        (parent,) = (pid for pid in running_now if _parent(pid) == os.getpid())
        theirs = len(list(os.scandir(f"/proc/{parent}/fd")))
        for number in range(50):
            await judge(worker, path, crash if number % 2 else honest, Effort.QUICK)
        await until(lambda: processes() == running_now)
        assert descriptors() == before
        assert len(asyncio.all_tasks()) == tasks
        assert len(list(os.scandir(f"/proc/{parent}/fd"))) == theirs
        assert leftovers(parent) == []

    async def test_a_deleted_artifact_is_said(self, worker: Worker, tmp_path: Path) -> None:
        kernel = build(tmp_path, HONEST)
        kernel.artifact.path.unlink()
        verdicts, _ = await judge(worker, reference(tmp_path, SCALE), kernel)
        assert "cannot be loaded" in str(verdicts[0])

    async def test_a_missing_entry_is_said(self, worker: Worker, tmp_path: Path) -> None:
        kernel = build(tmp_path, HONEST)
        other = build(tmp_path, HONEST.replace("scale", "other"), name="other")
        wrong = Subject(
            name="kernel", artifact=other.artifact, entry=kernel.entry, entry_name="scale", directives=(),
            path=kernel.path,
        )  # fmt: skip
        assert wrong.artifact.kind is ArtifactKind.C_LIBRARY
        verdicts, _ = await judge(worker, reference(tmp_path, SCALE), wrong)
        assert "exports no `scale`" in str(verdicts[0])

    @pytest.mark.parametrize("slow", ["reference", "kernel"])
    async def test_a_side_that_never_answers_is_stopped_and_named(self, tmp_path: Path, slow: str) -> None:
        text = SCALE if slow == "kernel" else SCALE.replace("return x * 2", "while True: pass")
        kernel = build(tmp_path, ENDLESS if slow == "kernel" else HONEST)
        async with running(Settings(timeout_s=1.0)) as worker:
            (verdict,), _ = await judge(worker, reference(tmp_path, text), kernel)
        if slow == "kernel":
            assert isinstance(verdict, TimedOut)
        else:
            assert isinstance(verdict, Problem)
            assert verdict.code == "reference-slow"


async def test_an_interpreter_without_torch_is_a_problem_with_a_remedy(tmp_path: Path) -> None:
    interpreter = tmp_path / "python"
    interpreter.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    interpreter.chmod(0o755)
    problem = await Worker.start(Settings(python=str(interpreter)))
    assert isinstance(problem, Problem)
    assert problem.code == "no-torch"
    assert "pip install torch" in problem.hint


@pytest.mark.parametrize("body", [None, "exit 3", "echo broken >&2; exit 1"])
async def test_an_interpreter_that_does_not_run_is_a_problem(tmp_path: Path, body: str | None) -> None:
    interpreter = tmp_path / "python"
    if body is not None:
        interpreter.write_text(f"#!/bin/sh\n{body}\n")
        interpreter.chmod(0o755)
    before = descriptors()
    problem = await Worker.start(Settings(python=str(interpreter)))
    assert isinstance(problem, Problem)
    assert problem.code == ("no-python" if body is None else "worker-start")
    assert ("broken" in problem.message) == (body is not None and "broken" in body)
    gc.collect()
    assert descriptors() <= before + 1


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
