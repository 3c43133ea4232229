"""The server's end of the worker: start it, hand it one job at a time, cancel it, start it again when it dies.

No torch here. The worker is `python -m kernel_lsp.worker` under the user's interpreter; framed messages go over a
socket pair of which it inherits one end.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import os
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from kernel_lsp import process, wire
from kernel_lsp.domain import Ceilings, Device, Problem
from kernel_lsp.messages import (
    Cancel,
    Capture,
    Captured,
    Done,
    Effort,
    Evaluate,
    Failed,
    Go,
    GpuMeasured,
    Hello,
    Limits,
    MeasureGpu,
    ReadyToSample,
    Reply,
    Request,
    Sample,
    Sampled,
    Subject,
    TimingPlan,
    TimingTaken,
    VerdictReached,
)
from kernel_lsp.settings import Settings

START_S = 120.0
"""A cold `import torch` from a slow disk takes tens of seconds."""

PRINTED_BYTES = 16 * 1024
"""Printed output that is kept of a kernel: what fits in a message to a person."""

COMPILE_S = 300.0
"""What `torch.compile` may take on top of everything else; the worker gives it 240 s itself."""

GRACE_S = 5.0
"""Between asking the worker to end and killing it."""

STDERR_TAIL = 8 * 1024

PACKAGE = Path(__file__).resolve().parent


class WorkerDied(Exception):
    """The worker's end of the socket closed, or what came from it was no message."""


class Worker:
    """A warm worker. Jobs are served one at a time, in the order asked: two timings at once would spoil both.

    Cancelling the task that awaits a job cancels the job and kills its children; the worker survives. A worker
    that died is started again by the next job.
    """

    def __init__(self, settings: Settings, link: _Link) -> None:
        self.settings = settings
        self.hello: Hello = link.hello
        self._link: _Link | None = link
        self._turn = asyncio.Lock()
        self._numbers = itertools.count(1)
        self._closed = False

    @classmethod
    async def start(cls, settings: Settings) -> Worker | Problem:
        """A worker that has imported torch; a `Problem` where its interpreter cannot."""
        link = await _connect(settings)
        return link if isinstance(link, Problem) else cls(settings, link)

    async def evaluate(
        self,
        *,
        reference: Path,
        subjects: tuple[Subject, ...],
        effort: Effort,
        timing: TimingPlan | None,
        seed: int | None = None,
    ) -> AsyncGenerator[VerdictReached | TimingTaken | Failed, None]:
        """Judge `subjects[0]`, then time all subjects and the baselines, if it passed and there is a plan.

        A second `TimingTaken`, `torch.compile` in it, follows where the plan asks for it and it can be had. A second
        `VerdictReached` follows where an output of a timed call turns out wrong; it stands instead of the first.
        """
        job = next(self._numbers)
        request = Evaluate(
            job=job,
            reference=reference,
            subjects=subjects,
            effort=effort,
            timing=timing,
            limits=self._limits,
            seed=seed,
        )
        # Every subject and the reference may each take the limit; timing has its own budget.
        seconds = self.settings.timeout_s * (2 + len(subjects)) + (0.0 if timing is None else 4 * timing.budget_s)
        if timing is not None and timing.compiled:
            seconds += COMPILE_S
        async with contextlib.aclosing(self._replies(request, seconds)) as replies:
            async for reply in replies:
                if isinstance(reply, (VerdictReached, TimingTaken, Failed)):
                    yield reply

    async def sample(
        self,
        *,
        reference: Path,
        subject: Subject,
        seconds: float,
        watch: Callable[[int], AbstractAsyncContextManager[None]],
    ) -> Sampled | Problem:
        """Call the kernel for `seconds` inside `watch(pid)`, which is entered once the child is warm and waits."""
        job = next(self._numbers)
        request = Sample(job=job, reference=reference, subject=subject, seconds=seconds, limits=self._limits)
        result: Sampled | Problem | None = None
        async with (
            contextlib.AsyncExitStack() as watching,
            contextlib.aclosing(self._replies(request, 2 * self.settings.timeout_s + seconds)) as replies,
        ):
            async for reply in replies:
                match reply:
                    case ReadyToSample(pid=pid):
                        await watching.enter_async_context(watch(pid))
                        self._send(Go(job=job))
                    case Sampled():
                        result = reply
                        await watching.aclose()
                    case Failed(problem=problem):
                        result = problem
        return result or _ended_early("sampling")

    async def capture(
        self, *, reference: Path, subject: Subject, directory: Path, max_elements: int
    ) -> Captured | Problem:
        """Write the arguments of one call of the kernel to `directory`; see `messages.Capture`."""
        request = Capture(
            job=next(self._numbers),
            reference=reference,
            subject=subject,
            directory=directory,
            max_elements=max_elements,
            limits=self._limits,
        )
        result: Captured | Problem | None = None
        async with contextlib.aclosing(self._replies(request, 2 * self.settings.timeout_s)) as replies:
            async for reply in replies:
                match reply:
                    case Captured():
                        result = reply
                    case Failed(problem=problem):
                        result = problem
        return result or _ended_early("capturing the arguments")

    async def ceilings(self) -> Ceilings | Problem:
        """What the GPU can do at best, measured now: a few seconds, most of them for starting CUDA."""
        request = MeasureGpu(job=next(self._numbers), limits=self._limits)
        result: Ceilings | Problem | None = None
        async with contextlib.aclosing(self._replies(request, self.settings.timeout_s)) as replies:
            async for reply in replies:
                match reply:
                    case GpuMeasured(ceilings=ceilings):
                        result = ceilings
                    case Failed(problem=problem):
                        result = problem
        return result or _ended_early("measuring the GPU")

    async def close(self) -> None:
        """End the worker and all its children."""
        self._closed = True
        if self._link is not None:
            link, self._link = self._link, None
            await link.close()

    # --------------------------------------------------------------------------------------------------------

    @property
    def _limits(self) -> Limits:
        return Limits(
            seconds=self.settings.timeout_s,
            memory_bytes=int(self.settings.memory_gb * 2**30),
            output_bytes=PRINTED_BYTES,
        )

    async def _replies(self, request: Request, seconds: float) -> AsyncGenerator[Reply, None]:
        """Every reply to `request` up to its last, which is `Failed` in the place of whatever goes wrong here.

        A worker silent for longer than the job may take is killed: a job never hangs the server.
        """
        async with self._turn:
            link = await self._live_link()
            if isinstance(link, Problem):
                yield Failed(job=request.job, problem=link)
                return
            if _needs_gpu(request) and link.hello.cuda is None:
                yield Failed(job=request.job, problem=_no_gpu(link.hello))
                return
            deadline = asyncio.get_running_loop().time() + seconds + GRACE_S
            ended = False
            try:
                link.send(request)
                while not ended:
                    reply = await asyncio.wait_for(
                        link.receive(), max(0.0, deadline - asyncio.get_running_loop().time())
                    )
                    if getattr(reply, "job", None) != request.job:
                        continue  # of a job that was cancelled
                    ended = isinstance(reply, (Done, Failed))
                    if not isinstance(reply, Done):
                        yield reply
            except asyncio.TimeoutError:
                ended = True
                await self._drop(link)
                yield Failed(job=request.job, problem=_silent(seconds))
            except WorkerDied:
                ended = True
                problem = _died(link)
                await self._drop(link)
                yield Failed(job=request.job, problem=problem)
            finally:
                if not ended:
                    link.send(Cancel(job=request.job))

    async def _live_link(self) -> _Link | Problem:
        if self._closed:
            return Problem(code="worker-closed", message="the worker was closed", hint="start the server again")
        if self._link is None or not self._link.alive:
            if self._link is not None:
                await self._drop(self._link)
            link = await _connect(self.settings)
            if isinstance(link, Problem):
                return link
            self._link, self.hello = link, link.hello
        return self._link

    async def _drop(self, link: _Link) -> None:
        if self._link is link:
            self._link = None
        await link.close()

    def _send(self, request: Request) -> None:
        if self._link is not None:
            self._link.send(request)


class _Link:
    """One worker process and the socket to it."""

    hello: Hello
    is_ready: bool = False
    """Has said hello."""

    def __init__(self, worker: Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._process = worker
        self._reader = reader
        self._writer = writer
        self.stderr = bytearray()
        self._replies: asyncio.Queue[Reply | None] = asyncio.Queue()
        # Tasks of their own: a job that is cancelled must not leave half a message behind for the next one.
        self._tasks = (asyncio.ensure_future(self._keep_stderr()), asyncio.ensure_future(self._keep_replies()))

    @property
    def alive(self) -> bool:
        return self._process.returncode is None and not self._reader.at_eof()

    def send(self, request: Request) -> None:
        if not self._writer.is_closing():
            self._writer.write(wire.frame(request))

    async def receive(self) -> Reply:
        """The next reply.

        Raises:
            WorkerDied: where there will be none.
        """
        reply = await self._replies.get()
        if reply is None:
            self._replies.put_nowait(None)
            raise WorkerDied
        return reply

    async def settled_stderr(self) -> str:
        """What it printed on stderr, once it has ended."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._tasks[0]), GRACE_S)
        return self.stderr.decode(errors="replace")

    async def close(self) -> None:
        """Close the socket, which ends the worker and its children; kill what does not end by itself."""
        self._writer.close()
        try:
            # One that still imports torch sees no closed socket, and has nothing to end.
            await asyncio.wait_for(self._process.wait(), GRACE_S if self.is_ready else 0)
        except asyncio.TimeoutError:
            pass
        finally:
            await process.end(self._process)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            with contextlib.suppress(ConnectionError):
                await self._writer.wait_closed()

    async def _keep_replies(self) -> None:
        try:
            while True:
                length = wire.body_length(await self._reader.readexactly(wire.HEADER_BYTES))
                self._replies.put_nowait(wire.loads(Reply, await self._reader.readexactly(length)))
        except (asyncio.IncompleteReadError, ConnectionError, wire.WireError):
            self._replies.put_nowait(None)

    async def _keep_stderr(self) -> None:
        assert self._process.stderr is not None
        while chunk := await self._process.stderr.read(65536):
            self.stderr += chunk
            del self.stderr[:-STDERR_TAIL]


async def _connect(settings: Settings) -> _Link | Problem:
    python = settings.python or sys.executable
    importable = _importable(settings)
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            worker = await process.start(
                [python, "-m", "kernel_lsp.worker", "--fd", str(theirs.fileno())],
                # `-m` searches the working folder first, where a user's own `random.py` may lie.
                cwd=importable,
                env={
                    **process.interpreter_environment(importable),
                    "TORCHINDUCTOR_CACHE_DIR": str(_inductor_cache(settings)),
                    "TORCHINDUCTOR_COMPILE_THREADS": "1",
                    # It would lie in the child's own temporary folder, and take 14 s to make each time.
                    "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
                },
                stdout=DEVNULL,
                stderr=PIPE,
                pass_fds=(theirs.fileno(),),
            )
        except process.ToolMissing as error:
            ours.close()
            return Problem(
                code="no-python",
                message=f"the worker's interpreter cannot be run: {error}",
                hint="set `python` in the settings to an interpreter that has torch",
            )
    try:
        ours.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=ours, limit=wire.MAX_FRAME)
    except BaseException:
        ours.close()
        await process.end(worker)
        raise
    link = _Link(worker, reader, writer)
    try:
        first = await asyncio.wait_for(link.receive(), START_S)
    except asyncio.TimeoutError:
        problem = _silent(START_S)
    except WorkerDied:
        problem = _no_start(python, await link.settled_stderr())
    except BaseException:
        await link.close()
        raise
    else:
        if isinstance(first, Hello):
            link.hello, link.is_ready = first, True
            return link
        problem = first.problem if isinstance(first, Failed) else _no_start(python, "")
    await link.close()
    return problem


def _importable(settings: Settings) -> Path:
    """A folder with this package and nothing else: another interpreter must not find our site-packages."""
    folder = settings.cache_folder.resolve() / "importable" / hashlib.sha256(str(PACKAGE).encode()).hexdigest()[:16]
    link = folder / PACKAGE.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            link.symlink_to(PACKAGE, target_is_directory=True)
    except OSError:
        return PACKAGE.parent
    return folder


def _inductor_cache(settings: Settings) -> Path:
    return settings.cache_folder.resolve() / f"inductor-{os.getuid()}"


def _no_start(python: str, stderr: str) -> Problem:
    lines = [line for line in stderr.strip().splitlines() if line.strip()]
    why = f": {lines[-1].strip()}" if lines else ""
    return Problem(
        code="worker-start",
        message=f"the worker did not start under {python}{why}",
        hint="it needs Python 3.10 or later with torch 2.10 or later; set `python` in the settings",
    )


def _needs_gpu(request: Request) -> bool:
    match request:
        case Evaluate(subjects=subjects):
            return any(subject.device is Device.CUDA for subject in subjects)
        case Sample(subject=subject) | Capture(subject=subject):
            return subject.device is Device.CUDA
        case MeasureGpu():
            return True
        case _:
            return False


def _no_gpu(hello: Hello) -> Problem:
    return Problem(
        code="no-gpu",
        message=f"CUDA kernels cannot be judged here: the worker's torch {hello.torch} sees no GPU",
        hint="run it where `nvidia-smi` shows one, and set `python` in the settings to an interpreter whose torch is "
        "built with CUDA",
    )


def _died(link: _Link) -> Problem:
    lines = [line for line in link.stderr.decode(errors="replace").strip().splitlines() if line.strip()]
    why = f": {lines[-1].strip()}" if lines else ""
    return Problem(
        code="worker-died",
        message=f"the worker ended during the job{why}",
        hint="save again, it is started anew; if it happens again, lower `memory-gb` or report it",
    )


def _silent(seconds: float) -> Problem:
    return Problem(
        code="worker-silent",
        message=f"the worker did not answer within {seconds:.0f} s and was stopped",
        hint="save again; if the reference is slow, raise `timeout-s` in the settings",
    )


def _ended_early(what: str) -> Problem:
    return Problem(
        code="worker-died",
        message=f"{what} ended without a result",
        hint="save again; if it happens again, report it",
    )
