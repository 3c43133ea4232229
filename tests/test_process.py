"""Children are limited, killed with all that they started, and never hold a secret."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from kernel_lsp import process


async def test_a_child_that_leaves_another_behind_does_not_hold_us(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    done = await process.run(["sh", "-c", f"sleep 600 & echo $! > {pid_file}; echo out; echo err >&2"])
    assert (done.code, done.stdout, done.stderr) == (0, "out\n", "err\n")
    assert await gone(int(pid_file.read_text()))


async def test_a_time_limit_kills_the_group(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    done = await process.run(["sh", "-c", f"sleep 600 & echo $! > {pid_file}; wait"], timeout_s=0.5)
    assert done.timed_out and not done.ok
    assert await gone(int(pid_file.read_text()))


async def test_cancelling_kills_the_group(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    task = asyncio.create_task(process.run(["sh", "-c", f"sleep 600 & echo $! > {pid_file}; wait"]))
    while not (pid_file.exists() and pid_file.read_text()):
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await gone(int(pid_file.read_text()))


async def test_output_is_capped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "OUTPUT_CAP", 1000)
    done = await process.run([sys.executable, "-c", "print('x' * 5_000_000)"])
    assert done.ok and len(done.stdout) == 1000


async def test_a_missing_program_is_named() -> None:
    with pytest.raises(process.ToolMissing, match="no-such-compiler"):
        await process.run(["no-such-compiler", "--version"])


async def test_no_secret_reaches_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "GITHUB_TOKEN", "my_password"):
        monkeypatch.setenv(name, "canary-7f3a")
    done = await process.run(["env"])
    assert "canary-7f3a" not in done.stdout


async def gone(pid: int) -> bool:
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        await asyncio.sleep(0.05)
    return False
