"""The warm parent's loop: requests in, jobs started and cancelled, replies out.

It imports torch and nothing of the user's, starts no thread and enters no parallel region, for a process that has
done either cannot be forked safely.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import shutil
import signal
import socket
from pathlib import Path

from kernel_lsp import wire
from kernel_lsp.domain import Problem
from kernel_lsp.messages import Cancel, Capture, Done, Evaluate, Failed, Go, Hello, MeasureGpu, Reply, Request, Sample
from kernel_lsp.worker import jobs
from kernel_lsp.worker.children import Reaper
from kernel_lsp.worker.reference_child import import_ahead

_PR_SET_PDEATHSIG = 1


async def serve(connection: socket.socket, hello: Hello) -> None:
    """Serve until the server closes its end or asks us to end; nothing of ours is left then."""
    connection.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=connection)
    server = _Server(writer, Reaper())
    # The server's death must not kill us before we have cleaned up after our children.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGTERM), 0, 0, 0)
    await server.send(hello)
    _remove_leftovers()
    import_ahead()
    reading = asyncio.ensure_future(server.read(reader))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, reading.cancel)
    with contextlib.suppress(asyncio.CancelledError, asyncio.IncompleteReadError, ConnectionError):
        await reading
    await server.cancel()


class _Server:
    def __init__(self, writer: asyncio.StreamWriter, reaper: Reaper) -> None:
        self._writer = writer
        self._reaper = reaper
        self._job: asyncio.Task[None] | None = None
        self._number = 0
        self._go = asyncio.Event()

    async def read(self, reader: asyncio.StreamReader) -> None:
        while True:
            length = wire.body_length(await reader.readexactly(wire.HEADER_BYTES))
            request: Request = wire.loads(Request, await reader.readexactly(length))
            match request:
                case Cancel(job=job):
                    if job == self._number:
                        await self.cancel()
                case Go(job=job):
                    if job == self._number:
                        self._go.set()
                case _:
                    await self.cancel()
                    self._number = request.job
                    self._go.clear()
                    self._job = asyncio.ensure_future(self._serve(request))

    async def send(self, reply: Reply) -> None:
        self._writer.write(wire.frame(reply))
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()

    async def cancel(self) -> None:
        """End the running job, if there is one: its children are gone when this returns."""
        job, self._job = self._job, None
        if job is not None:
            job.cancel()
            await asyncio.wait([job])

    async def _serve(self, request: Evaluate | Sample | Capture | MeasureGpu) -> None:
        try:
            match request:
                case Evaluate():
                    await jobs.evaluate(request, self._reaper, self.send)
                case Sample():
                    await jobs.sample(request, self._reaper, self.send, self._go)
                case Capture():
                    await jobs.capture(request, self._reaper, self.send)
                case MeasureGpu():
                    await jobs.measure_gpu(request, self._reaper, self.send)
            last: Reply = Done(job=request.job)
        except jobs.Stop as stop:
            assert isinstance(stop.reply, Problem)
            last = Failed(job=request.job, problem=stop.reply)
        except OSError as error:
            # No room for files or processes: the next job may find some.
            last = Failed(job=request.job, problem=_no_room(error))
        except Exception as error:
            last = Failed(job=request.job, problem=_our_fault(error))
        await self.send(last)


def _our_fault(error: Exception) -> Problem:
    return Problem(
        code="worker-fault",
        message=f"the worker made a mistake: {type(error).__name__}: {error}",
        hint="please report it together with the kernel and its reference",
    )


def _no_room(error: OSError) -> Problem:
    return Problem(
        code="no-room",
        message=f"the worker could not go on: {error.strerror or error}",
        hint="free memory or disk space, then save again",
    )


def _remove_leftovers() -> None:
    """Folders of workers that were killed before they could clean up."""
    for directory in {jobs.roomy_directory(), Path("/dev/shm"), Path("/tmp")}:
        for folder in directory.glob(f"{jobs.folder_prefix()}*"):
            owner = folder.name.removeprefix(jobs.folder_prefix()).partition("-")[0]
            if owner.isdigit() and not Path(f"/proc/{owner}").exists() and folder.stat().st_uid == os.getuid():
                shutil.rmtree(folder, ignore_errors=True)
