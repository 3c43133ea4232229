from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from kernel_lsp import process
from kernel_lsp.domain import Problem
from kernel_lsp.profile import perf

FIXTURES = Path(__file__).parent / "fixtures"
REFUSED = (FIXTURES / "refused.txt").read_text(encoding="utf-8")

THREADS = """
import sys, threading, zlib
print("ready", flush=True)
sys.stdin.readline()
data = b"x" * 30_000_000
work = [threading.Thread(target=zlib.crc32, args=(data,)) for _ in range(20)]
for thread in work: thread.start()
for thread in work: thread.join()
print("done", flush=True)
sys.stdin.readline()
"""


def test_a_paranoid_kernel_names_the_setting() -> None:
    problem = perf.refusal(REFUSED, paranoid=4, privileged=False)
    assert problem.code == "perf-not-permitted"
    assert "kernel.perf_event_paranoid is 4" in problem.message
    assert problem.hint.endswith("sudo sysctl kernel.perf_event_paranoid=2")


@pytest.mark.parametrize(("paranoid", "privileged"), [(2, False), (4, True), (None, False)])
def test_where_the_setting_is_not_to_blame_it_is_the_container(paranoid: int | None, privileged: bool) -> None:
    problem = perf.refusal(REFUSED, paranoid, privileged)
    assert problem.code == "perf-not-permitted"
    assert "--cap-add PERFMON" in problem.hint


def test_a_sandbox_without_the_call() -> None:
    text = "The sys_perf_event_open() syscall returned with 38 (Function not implemented) for event (cpu-clock:u)."
    problem = perf.refusal("Error:\n" + text, paranoid=2, privileged=True)
    assert problem.code == "perf-not-permitted"
    assert "perf_event_open" in problem.message


def test_any_other_failure_is_quoted() -> None:
    problem = perf.refusal("Events disabled\nError:\nunknown option `control'\n", paranoid=2, privileged=True)
    assert problem.code == "perf-failed"
    assert "unknown option `control'" in problem.message


async def test_no_perf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "which", lambda name: None)
    for problem in (await perf.version(), await perf.probe()):
        assert isinstance(problem, Problem)
        assert problem.code == "no-perf"
    recorder = perf.Recorder(tmp_path, counters=True)
    async with recorder.watch(1):
        pass
    assert await recorder.samples() == await perf.version()
    assert recorder.counters(1) == ()


async def test_a_wrapper_that_finds_no_perf_for_this_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrapper = tmp_path / "perf"
    wrapper.write_text("#!/bin/sh\necho 'WARNING: perf not found for kernel 6.8.0-1' >&2\nexit 2\n", encoding="utf-8")
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    problem = await perf.version()
    assert isinstance(problem, Problem)
    assert "linux-tools" in problem.hint


@pytest.mark.parametrize("script", ["exit 1", "exec sleep 60"], ids=["ends at once", "never answers"])
async def test_a_perf_that_does_not_start_does_not_stop_the_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    fake = tmp_path / "perf"
    fake.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(perf, "START_S", 0.5)
    recorder = perf.Recorder(tmp_path, counters=False)
    async with recorder.watch(1):
        called = True
    assert called
    assert isinstance(await recorder.samples(), Problem)


@pytest.fixture
async def working_perf() -> None:
    found = await perf.probe()
    if isinstance(found, Problem):
        pytest.skip(found.message)


@pytest.mark.tools
async def test_threads_started_later_are_sampled(tmp_path: Path, working_perf: None) -> None:
    child = await process.start([sys.executable, "-c", THREADS], stdin=asyncio.subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    recorder = perf.Recorder(tmp_path, counters=False)
    try:
        assert await child.stdout.readline() == b"ready\n"
        async with recorder.watch(child.pid):
            child.stdin.write(b"go\n")
            assert await child.stdout.readline() == b"done\n"
    finally:
        await process.end(child)
    script = await process.run(["perf", "script", "-i", tmp_path / "samples.data", "-F", "tid,ip"])
    assert {line.split()[0] for line in script.stdout.splitlines()} - {str(child.pid)}
    samples = await recorder.samples()
    assert not isinstance(samples, Problem)
    assert sum(samples.values()) == len(script.stdout.splitlines())


@pytest.mark.tools
async def test_a_process_that_ends_meanwhile(tmp_path: Path, working_perf: None) -> None:
    child = await process.start(
        [sys.executable, "-c", "input()\nx = 0\nfor i in range(3000000): x += i"], stdin=asyncio.subprocess.PIPE
    )
    assert child.stdin is not None
    recorder = perf.Recorder(tmp_path, counters=False)
    async with recorder.watch(child.pid):
        child.stdin.write(b"\n")
        await child.communicate()
    samples = await recorder.samples()
    assert not isinstance(samples, Problem)
    assert any("python" in address.object for address in samples)


@pytest.mark.tools
async def test_a_process_that_is_gone(tmp_path: Path, working_perf: None) -> None:
    recorder = perf.Recorder(tmp_path, counters=False)
    async with recorder.watch(2**22 - 1):
        pass
    assert isinstance(recorder.problem, Problem)
    assert recorder.problem.code == "perf-failed"


@pytest.mark.tools
async def test_cancelling_leaves_no_perf_behind(tmp_path: Path, working_perf: None) -> None:
    child = await process.start([sys.executable, "-c", "input()"], stdin=asyncio.subprocess.PIPE)
    attached = asyncio.Event()

    async def watch_for_ever() -> None:
        async with perf.Recorder(tmp_path, counters=False).watch(child.pid):
            attached.set()
            await asyncio.sleep(60)

    task = asyncio.ensure_future(watch_for_ever())
    await attached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await process.end(child)
    listed = await process.run(["pgrep", "-f", str(tmp_path)])
    assert listed.stdout == ""
