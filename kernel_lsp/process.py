"""The only user of subprocesses: limits, process groups, cancellation, capped logs.

Every child leads a process group of its own and dies with us (`PR_SET_PDEATHSIG`, where `setpriv` is there).
Cancelling the task that awaits a child kills the whole group before the cancellation goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

OUTPUT_CAP = 8 * 1024 * 1024
"""Bytes kept of each stream; a compiler may print megabytes for one mistake in a template."""

_SECRET_MARKS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    command: tuple[str, ...]
    code: int
    """Exit status; negative for a signal, as in `subprocess`."""
    stdout: str
    stderr: str
    timed_out: bool

    @property
    def ok(self) -> bool:
        return self.code == 0 and not self.timed_out


class ToolMissing(Exception):
    """The program is not on this machine."""


def child_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Our environment without secrets, in the C locale so that messages can be parsed, and with `extra`."""
    kept = {
        name: value for name, value in os.environ.items() if not any(mark in name.upper() for mark in _SECRET_MARKS)
    }
    return {**kept, "LC_ALL": "C.UTF-8", **(extra or {})}


def guarded(command: Sequence[str | Path], memory_bytes: int | None = None) -> list[str]:
    """`command` so that it dies with us and, where asked, under an address-space limit."""
    parts = [str(part) for part in command]
    if memory_bytes is not None and (prlimit := which("prlimit")):
        parts = [prlimit, f"--as={memory_bytes}", "--", *parts]
    if setpriv := which("setpriv"):
        parts = [setpriv, "--pdeathsig", "KILL", "--", *parts]
    return parts


async def start(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int = DEVNULL,
    stdout: int = PIPE,
    stderr: int = PIPE,
    pass_fds: Sequence[int] = (),
    memory_bytes: int | None = None,
) -> Process:
    """Start a long-lived child in a group of its own; end it with `kill_group`.

    Raises:
        ToolMissing: where the program cannot be found or run.
    """
    if which(str(command[0])) is None:
        raise ToolMissing(str(command[0]))
    try:
        return await asyncio.create_subprocess_exec(
            *guarded(command, memory_bytes),
            cwd=cwd,
            env=child_environment(env),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=tuple(pass_fds),
            start_new_session=True,
        )
    except OSError as error:
        raise ToolMissing(f"{command[0]}: {error.strerror}") from error


async def run(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 600.0,
    memory_bytes: int | None = None,
) -> Completed:
    """Run to the end, at most `timeout_s` seconds, keeping at most `OUTPUT_CAP` bytes of each stream.

    Raises:
        ToolMissing: where the program cannot be found or run.
    """
    process = await start(command, cwd=cwd, env=env, memory_bytes=memory_bytes)
    assert process.stdout is not None
    assert process.stderr is not None
    streams = [asyncio.ensure_future(_capped(process.stdout)), asyncio.ensure_future(_capped(process.stderr))]
    timed_out = False
    try:
        try:
            await asyncio.wait_for(_exited(process), timeout_s)
        except asyncio.TimeoutError:
            timed_out = True
        finally:
            # Also after a regular end: a compiler driver may leave a helper behind that holds our pipes open.
            kill_group(process)
        stdout, stderr = await asyncio.gather(*streams)
        code = await process.wait()
    finally:
        for stream in streams:
            stream.cancel()
    return Completed(
        command=tuple(str(part) for part in command),
        code=code,
        stdout=stdout,
        stderr=stderr,
        timed_out=timed_out,
    )


def kill_group(process: Process) -> None:
    """Kill a child started here and all that it started. Harmless where they are gone already."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


async def end(process: Process) -> None:
    """Kill a child's group and collect the child."""
    kill_group(process)
    await process.wait()


def tool_version(output: str) -> str:
    """The first line of what `tool --version` printed."""
    return output.strip().splitlines()[0].strip() if output.strip() else ""


def interpreter_environment(package_parent: Path) -> dict[str, str]:
    """Environment in which another interpreter finds this package, and nothing else of ours."""
    return {"PYTHONPATH": str(package_parent), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}


def which(name: str) -> str | None:
    """Where `name` is: on PATH, else beside our interpreter (an environment used without being activated)."""
    path = os.pathsep.join((os.environ.get("PATH", ""), str(Path(sys.executable).parent)))
    return shutil.which(name, path=path)


async def _exited(process: Process) -> None:
    """Until the child itself has ended. `Process.wait` would also wait for whoever else holds its pipes."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


async def _capped(stream: asyncio.StreamReader) -> str:
    kept = bytearray()
    while chunk := await stream.read(65536):
        if len(kept) < OUTPUT_CAP:
            kept += chunk[: OUTPUT_CAP - len(kept)]
    return kept.decode(errors="replace")
