"""Forked children that run what is not ours: limited, watched, and gone with all their descendants afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import resource
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from kernel_lsp import wire
from kernel_lsp.domain import Device
from kernel_lsp.messages import Limits
from kernel_lsp.worker.channel import Channel
from kernel_lsp.worker.printed import Printed

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

THREAD_BYTES = 160 * 2**20
"""Address space that one more thread reserves without using it: 8 MiB of stack, 128 MiB for glibc's arena of that
thread while it aligns it, and room for guard pages. Allowed on top of the limit for each processor."""

CUDA_BYTES = 4 * 2**30
"""Writable memory that CUDA, cuBLAS and cuDNN take for themselves in a process, with room to spare."""

PROCESSES = 4096
"""Processes and threads that may be started on top of all that run on the machine when a child begins."""

_SIGNALS = {
    signal.SIGSEGV: "segmentation fault",
    signal.SIGBUS: "bus error",
    signal.SIGFPE: "floating-point exception (an integer division by zero)",
    signal.SIGILL: "illegal instruction",
    signal.SIGABRT: "aborted",
    signal.SIGKILL: "killed, most likely for lack of memory",
    signal.SIGTRAP: "trapped",
    signal.SIGXCPU: "processor time limit",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Died:
    """A child ended, or said something that is no message."""

    what: str
    """`segmentation fault`, `called exit(0)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overran:
    """A child did not answer in time."""

    seconds: float


class Reaper:
    """Collects every child of this process, adopted orphans included, from the loop's SIGCHLD handler."""

    def __init__(self) -> None:
        self._waiting: dict[int, asyncio.Future[int]] = {}
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self.reap)

    def exit_of(self, pid: int) -> asyncio.Future[int]:
        """Resolves to the wait status of `pid`, a child just forked."""
        future = asyncio.get_running_loop().create_future()
        self._waiting[pid] = future
        return future

    def reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                future = self._waiting.pop(pid, None)
                if future is not None and not future.done():
                    future.set_result(status)

    def kill_all(self) -> None:
        """Kill and collect all descendants. Each generation killed hands its children to us, so few rounds do."""
        for _ in range(1000):
            children = _children_of(os.getpid())
            if not children:
                return
            for pid in children:
                with contextlib.suppress(ProcessLookupError):
                    # Its group first: a fork bomb must not outrun us one process at a time.
                    if os.getpgid(pid) == pid:
                        os.killpg(pid, signal.SIGKILL)
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                pid, status = os.waitpid(-1, 0)
                future = self._waiting.pop(pid, None)
                if future is not None and not future.done():
                    future.set_result(status)
            self.reap()


class Child:
    """The parent's end of one forked child, asked one thing at a time."""

    def __init__(self, pid: int, exited: asyncio.Future[int], printed: Printed, connection: socket.socket) -> None:
        self.pid = pid
        self._exited = exited
        self._printed = printed
        self._socket = connection
        self._incoming = bytearray()

    @property
    def output_tail(self) -> str:
        return self._printed.tail()

    async def ask(self, message: Any, kind: Any, seconds: float) -> Any:
        """The child's answer to `message`, a value of the union `kind`; else `Died` or `Overran`.

        The child is dead after either.
        """
        try:
            return await asyncio.wait_for(self._exchange(message, kind), seconds)
        except (asyncio.TimeoutError, TimeoutError):
            await self._killed()
            return Overran(seconds=seconds)
        except (ConnectionError, EOFError):
            # It may hold on to life with its end closed; it has nothing more to say to us.
            await asyncio.wait([self._exited], timeout=1.0)
            await self._killed()
            return Died(what=describe_exit(self._exited.result()))
        except wire.WireError:
            await self._killed()
            return Died(what="wrote over the worker's private channel")

    async def end(self) -> None:
        """Kill it and let go of everything that belongs to it."""
        self._socket.close()
        try:
            await self._killed()
        finally:
            self._printed.close()

    async def _exchange(self, message: Any, kind: Any) -> Any:
        await asyncio.get_running_loop().sock_sendall(self._socket, wire.frame(message))
        length = wire.body_length(await self._exactly(wire.HEADER_BYTES))
        return wire.loads(kind, await self._exactly(length))

    async def _killed(self) -> None:
        if not self._exited.done():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            await asyncio.wait([self._exited])

    async def _exactly(self, count: int) -> bytes:
        """The next `count` bytes.

        Raises:
            EOFError: where the child's end is closed, or the child is gone (a grandchild may keep the end open).
        """
        loop = asyncio.get_running_loop()
        while len(self._incoming) < count:
            reading = asyncio.ensure_future(loop.sock_recv(self._socket, 1 << 16))
            watched: tuple[asyncio.Future[Any], ...] = (reading, self._exited)
            try:
                await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
                if not reading.done():
                    # The last words of a child may arrive with its end.
                    await asyncio.wait([reading], timeout=0.01)
            finally:
                if not reading.done():
                    reading.cancel()
            chunk = reading.result() if reading.done() and not reading.cancelled() else b""
            if not chunk:
                raise EOFError
            self._incoming += chunk
        taken = bytes(self._incoming[:count])
        del self._incoming[:count]
        return taken


def fork(
    reaper: Reaper,
    serve: Callable[[Channel], None],
    *,
    folder: Path,
    limits: Limits,
    memory_bytes: int | None = None,
    device: Device = Device.CPU,
) -> Child:
    """Start `serve` in a child whose home and temporary folder is `folder`."""
    ours, theirs = socket.socketpair()
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become_child(
            serve,
            channel=theirs.detach(),
            output=writing,
            parent=parent,
            folder=folder,
            memory_bytes=memory_bytes or limits.memory_bytes,
            device=device,
        )
    theirs.close()
    os.close(writing)
    ours.setblocking(False)
    return Child(pid, reaper.exit_of(pid), Printed(reading, limits.output_bytes), ours)


def describe_exit(status: int) -> str:
    """A wait status in words."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            return _SIGNALS.get(signal.Signals(number)) or f"killed by {signal.Signals(number).name}"
        except ValueError:
            return f"killed by signal {number}"
    return f"called exit({os.WEXITSTATUS(status)})"


def _become_child(
    serve: Callable[[Channel], None],
    *,
    channel: int,
    output: int,
    parent: int,
    folder: Path,
    memory_bytes: int,
    device: Device,
) -> NoReturn:
    code = 70
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(code)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        _close_all_but({0, 1, 2, channel})
        os.set_inheritable(channel, False)
        os.chdir(folder)
        os.environ.update(TMPDIR=str(folder), HOME=os.environ.get("HOME", str(folder)))
        tempfile.tempdir = None
        _limit(memory_bytes, device)
        serve(Channel(channel))
        code = 0
    except BaseException as error:
        with contextlib.suppress(BaseException):
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        # Not sys.exit: the parent's own exit handlers and buffers are in this copy too.
        os._exit(code)


def _limit(memory_bytes: int, device: Device) -> None:
    size, *_, data, _ = (int(n) * resource.getpagesize() for n in Path("/proc/self/statm").read_text().split())
    threads = len(os.sched_getaffinity(0)) * THREAD_BYTES
    if device is Device.CUDA:
        # The driver reserves as many addresses as all GPUs and the host have memory, without using them: they may not
        # be limited. What is writable and private may, and the reservation is neither.
        _lower(resource.RLIMIT_DATA, data + memory_bytes + threads + CUDA_BYTES)
    else:
        _lower(resource.RLIMIT_AS, size + memory_bytes + threads)
    _lower(resource.RLIMIT_FSIZE, memory_bytes)
    _lower(resource.RLIMIT_CORE, 0)
    running = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    _lower(resource.RLIMIT_NPROC, running + PROCESSES)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def _lower(which: int, limit: int) -> None:
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(which, (limit, limit))


def _close_all_but(kept: set[int]) -> None:
    for entry in list(Path("/proc/self/fd").iterdir()):
        if (number := int(entry.name)) not in kept:
            with contextlib.suppress(OSError):
                os.close(number)


def _children_of(parent: int) -> list[int]:
    """Children of `parent`, those that have ended but are not collected included."""
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            stat = Path(entry.path, "stat").read_text(errors="replace")
            # The name in brackets may hold anything, brackets too.
            if int(stat.rpartition(")")[2].split()[1]) == parent:
                found.append(int(entry.name))
    return found


def _prctl(option: int, value: int) -> None:
    _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0)
