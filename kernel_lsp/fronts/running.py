"""Running the engine from a command: signals end the work and its processes before they end us."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import cast

from kernel_lsp.domain import Event, Problem
from kernel_lsp.engine import Engine
from kernel_lsp.settings import Settings

WORKSPACE_MARKS = ("kernel-lsp.toml", "pyproject.toml", ".git")


def run(work: Coroutine[None, None, int]) -> int:
    """The exit code of `work`, or 128 + the signal that cancelled it.

    A second signal does what it does to any program.
    """
    return asyncio.run(_interruptible(work))


async def _interruptible(work: Coroutine[None, None, int]) -> int:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    caught: list[int] = []

    def stop(number: int) -> None:
        caught.append(number)
        for each in numbers:
            loop.remove_signal_handler(each)
        task.cancel()

    for number in numbers:
        loop.add_signal_handler(number, stop, number)
    try:
        return await task
    except asyncio.CancelledError:
        if not caught:
            raise
        return 128 + caught[0]
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


@contextlib.asynccontextmanager
async def engine_for(settings: Settings, workspace: Path) -> AsyncIterator[Engine]:
    """An engine that is closed again however the work ends. Who names a file on the command line trusts it."""
    engine = Engine(settings, workspace=workspace, trusted=True)
    try:
        yield engine
    finally:
        await engine.close()


async def follow(events: AsyncIterator[Event], take: Callable[[Event], None]) -> None:
    """Hand every event to `take`; where that or we are stopped half-way, the engine stops as well."""
    async with closing(events) as stream:
        async for event in stream:
            take(event)


def closing(events: AsyncIterator[Event]) -> contextlib.aclosing[AsyncGenerator[Event, None]]:
    """The engine's stream so that leaving it early ends the work behind it, and not when the collector comes by."""
    return contextlib.aclosing(cast("AsyncGenerator[Event, None]", events))


def workspace_of(path: Path) -> Path:
    """The nearest folder above `path` that looks like a project's, else the file's own."""
    folders = path.resolve().parents
    return next((f for f in folders if any((f / mark).exists() for mark in WORKSPACE_MARKS)), folders[0])


KERNEL_SUFFIXES = (".cpp", ".cc", ".cxx", ".c++", ".cu")


def not_a_kernel(path: Path) -> Problem | None:
    """Why `path` cannot be read as a kernel file; None where it can."""
    problem = _not_text(path)
    if problem is not None or path.suffix.lower() in KERNEL_SUFFIXES:
        return problem
    return Problem(
        code="not-a-kernel",
        message=f"{path} is not a kernel file",
        hint=f"kernels end in {', '.join(KERNEL_SUFFIXES)}",
    )


def not_a_reference(path: Path) -> Problem | None:
    """Why `path` cannot be a reference file; None where it can."""
    problem = _not_text(path)
    if problem is not None or path.suffix == ".py":
        return problem
    return Problem(code="not-a-reference", message=f"{path} is not a Python file", hint="references end in .py")


def _not_text(path: Path) -> Problem | None:
    try:
        if path.is_dir():
            return Problem(code="not-a-file", message=f"{path} is a folder", hint="name one file in it")
        if path.exists() and not path.is_file():
            return Problem(code="not-a-file", message=f"{path} is not a regular file", hint="name a source file")
        path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return Problem(code="no-such-file", message=f"{path} does not exist", hint="check the path")
    except UnicodeDecodeError as error:
        byte = f"byte {error.start} is 0x{error.object[error.start]:02x}"
        return Problem(
            code="not-utf-8",
            message=f"{path} is not UTF-8: {byte}",
            hint="convert it, for example with `iconv -f latin1 -t utf-8`",
        )
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        return Problem(code="unreadable", message=f"{path} cannot be read: {why}", hint="check its permissions")
    return None
