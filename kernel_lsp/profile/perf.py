"""Linux perf around another process: samples by the software clock, and hardware counters where there are any.

Only user code is sampled (`:u`), which is all that an unprivileged user may see, and only between the `enable`
that perf has acknowledged and the end of `Recorder.watch`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kernel_lsp import process
from kernel_lsp.domain import Counter, Problem
from kernel_lsp.profile.perf_output import SCRIPT_FIELDS, Address, parse_counters, parse_script

FREQUENCY_HZ = 4999
"""Samples a second and thread; not a round number, so that it stays out of step with the code."""

BUFFER_PAGES = 32
"""Per processor: the default is all that an unprivileged user may lock, so a second editor's perf would be refused."""

COUNTED = (
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "L1-dcache-loads",
    "L1-dcache-load-misses",
)

START_S = 15.0
"""perf reads the mappings of the process and of all its threads before it acknowledges: 0.2 s for torch."""

MOST_NAMES = 500
"""Names that are demangled; a command line holds many more, a report shows a dozen."""

END_S = 15.0
SCRIPT_S = 30.0

_QUIET = {"PERF_CONFIG": "/dev/null", "DEBUGINFOD_URLS": "", "PERF_PAGER": "cat"}
"""The user's own perf settings must not change what we parse, and symbols are not worth a network."""

HIGHEST_PARANOID = 2
"""At 2 one may still sample one's own user code; Debian's 3 and Ubuntu's 4 forbid it all (perf-security(7) of the
kernel's documentation)."""

_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
_EVENT_SOURCES = Path("/sys/bus/event_source/devices")


async def version() -> str | Problem:
    """`6.1.187`; a `Problem` where perf is not installed, or only Ubuntu's wrapper for another kernel is."""
    try:
        answer = await process.run(["perf", "--version"], env=_QUIET, timeout_s=20)
    except process.ToolMissing:
        return _no_perf("is not installed")
    found = re.search(r"perf version (\S+)", answer.stdout)
    return found[1] if answer.ok and found else _no_perf("does not run on this kernel")


async def probe() -> str | Problem:
    """perf's version if it can sample here; it is tried on a program that does nothing."""
    found = await version()
    if isinstance(found, Problem):
        return found
    command = ["perf", "record", *_RECORD, "-o", "/dev/null", "--", "true"]
    try:
        tried = await process.run(command, env=_QUIET, timeout_s=20)
    except process.ToolMissing:
        return _no_perf("is not installed")
    return found if tried.ok else refusal(tried.stderr, paranoid_level(), os.geteuid() == 0)


_RECORD = ("-e", "cpu-clock:u", "-F", str(FREQUENCY_HZ), "-m", str(BUFFER_PAGES), "--no-buildid", "--no-buildid-cache")


class Recorder:
    """Watches one process and keeps what perf recorded in `folder`, which is the caller's to remove."""

    def __init__(self, folder: Path, *, counters: bool) -> None:
        self._samples = folder / "samples.data"
        self._counts = folder / "counters.json"
        self._counters = counters
        self.problem: Problem | None = None
        """Why there are no samples; set by `watch`."""

    @contextlib.asynccontextmanager
    async def watch(self, pid: int) -> AsyncIterator[None]:
        """Record all threads of `pid`, also those that it starts meanwhile. Never raises for what perf does."""
        target = ["-p", str(pid)]
        async with contextlib.AsyncExitStack() as attached:
            if self._counters:
                events = ",".join(f"{name}:u" for name in COUNTED)
                stat = ["perf", "stat", "-j", "-e", events, "-o", str(self._counts), *target]
                # Without counters the rest goes on: what forbids them forbids sampling too, and is said there.
                await attached.enter_async_context(_attached(stat))
            record = ["perf", "record", *_RECORD, "-o", str(self._samples), *target]
            recording = await attached.enter_async_context(_attached(record))
            yield
        self.problem = recording.problem

    async def samples(self) -> Mapping[Address, int] | Problem:
        """Samples by address, once `watch` has ended."""
        if self.problem is not None:
            return self.problem
        command: list[str | Path] = [
            "perf",
            "script",
            "-i",
            self._samples,
            "-F",
            SCRIPT_FIELDS,
            "--show-mmap-events",
            "--no-inline",
            # perf demangles every symbol of every library that it meets: 2 of 3.5 s for torch's.
            "--no-demangle",
        ]
        try:
            # Of a recording that prints more than `process.OUTPUT_CAP`, the first hundred thousand samples are kept.
            script = await process.run(command, env=_QUIET, timeout_s=SCRIPT_S)
        except process.ToolMissing:
            return _no_perf("is not installed")
        if not script.ok:
            return _failed(script.stderr)
        samples = parse_script(script.stdout)
        return await _demangled(samples) if samples else _no_samples()

    def counters(self, calls: int) -> tuple[Counter, ...]:
        """Hardware counters per call over `calls` calls; empty where the machine has none."""
        try:
            return parse_counters(self._counts.read_text(encoding="utf-8", errors="replace"), calls)
        except OSError:
            return ()


async def _demangled(samples: dict[Address, int]) -> dict[Address, int]:
    """`samples` with C++ names as people write them; as they are where there is no `c++filt`."""
    mangled = sorted({address.symbol for address in samples if address.symbol.startswith("_Z")})
    if not mangled:
        return samples
    try:
        done = await process.run(["c++filt", *mangled[:MOST_NAMES]], timeout_s=SCRIPT_S)
    except process.ToolMissing:
        return samples
    names = dict(zip(mangled, done.stdout.splitlines(), strict=False))
    return {replace(a, symbol=names.get(a.symbol, a.symbol)): count for a, count in samples.items()}


def counters_exist() -> bool:
    """The kernel offers this processor's own counters; most virtual machines do not have them."""
    try:
        sources = [source.name for source in _EVENT_SOURCES.iterdir()]
    except OSError:
        return False
    return any(re.match(r"cpu(_core|_atom)?$|armv\d|apple_|riscv", name) for name in sources)


def paranoid_level() -> int | None:
    """`kernel.perf_event_paranoid`; None where it cannot be read, as in some sandboxes."""
    try:
        return int(_PARANOID.read_text())
    except (OSError, ValueError):
        return None


def refusal(stderr: str, paranoid: int | None, privileged: bool) -> Problem:
    """Why perf did not start, from what it printed and the kernel's setting."""
    if re.search(r"\(Function not implemented\)|syscall.*not (?:implemented|available)|ENOSYS", stderr):
        return Problem(
            code="perf-not-permitted",
            message="this system has no perf_event_open call, as in some sandboxes, so lines cannot be sampled",
            hint="run on the host or in a container whose runtime offers it (runc, not gVisor)",
        )
    if re.search(r"not permitted|[Pp]ermission denied|No permission|limited|EPERM|EACCES|paranoid", stderr):
        if paranoid is not None and paranoid > HIGHEST_PARANOID and not privileged:
            return Problem(
                code="perf-not-permitted",
                message=f"kernel.perf_event_paranoid is {paranoid}, which forbids sampling one's own processes",
                hint=f"allow it until the next start: sudo sysctl kernel.perf_event_paranoid={HIGHEST_PARANOID}",
            )
        return Problem(
            code="perf-not-permitted",
            message="perf may not watch processes here, as in containers whose seccomp profile forbids it",
            hint="start the container with: docker run --cap-add PERFMON --cap-add SYS_PTRACE "
            "(older Docker: --security-opt seccomp=unconfined)",
        )
    return _failed(stderr)


# --------------------------------------------------------------------------------------------------------------


class _Attached:
    """One perf process, and what went wrong with it."""

    def __init__(self) -> None:
        self.problem: Problem | None = None


@contextlib.asynccontextmanager
async def _attached(command: Sequence[str]) -> AsyncIterator[_Attached]:
    """Start `command` with its events off, switch them on, and let it write its file once the body is done.

    perf is told and answers over a socket pair: its answer proves that every thread is being watched, and the
    socket's end that perf is gone. Where the body ends by an exception, perf is killed at once.
    """
    state = _Attached()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        control = ["--delay", "-1", "--control", f"fd:{theirs.fileno()},{theirs.fileno()}"]
        try:
            perf = await process.start(
                [*command, *control], env=_QUIET, stdout=asyncio.subprocess.DEVNULL, pass_fds=(theirs.fileno(),)
            )
        except process.ToolMissing:
            state.problem = _no_perf("is not installed")
            yield state
            return
        theirs.close()
        output = asyncio.ensure_future(perf.communicate())
        try:
            if not await _enabled(ours):
                state.problem = refusal(await _last_words(perf, output), paranoid_level(), os.geteuid() == 0)
            yield state
            if state.problem is None and perf.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    perf.send_signal(signal.SIGINT)
                if not await _ended(output):
                    state.problem = _failed("it did not end")
        finally:
            output.cancel()
            await process.end(perf)


async def _enabled(control: socket.socket) -> bool:
    """Tell perf to start, and wait until it has; False where it ended or stayed silent instead."""
    control.setblocking(False)
    loop = asyncio.get_running_loop()
    answer = b""
    try:
        await loop.sock_sendall(control, b"enable\n")
        while b"ack" not in answer:
            received = await asyncio.wait_for(loop.sock_recv(control, 64), START_S)
            if not received:
                return False
            answer += received
    except (OSError, asyncio.TimeoutError):
        return False
    return True


async def _last_words(perf: asyncio.subprocess.Process, output: asyncio.Future[tuple[bytes, bytes]]) -> str:
    """What perf printed before it ended; it is killed if it has not."""
    if not await _ended(output, seconds=1.0):
        process.kill_group(perf)
        if not await _ended(output, seconds=1.0):
            return "it did not start watching"
    return output.result()[1].decode(errors="replace")


async def _ended(output: asyncio.Future[tuple[bytes, bytes]], seconds: float = END_S) -> bool:
    done, _ = await asyncio.wait([output], timeout=seconds)
    return bool(done)


def _no_perf(what: str) -> Problem:
    return Problem(
        code="no-perf",
        message=f"perf, which samples where the time goes, {what}",
        hint="install it: sudo apt install linux-perf (Debian) or linux-tools-$(uname -r) (Ubuntu)",
    )


def _no_samples() -> Problem:
    return Problem(
        code="no-samples",
        message="perf took no sample while the kernel ran",
        hint="save again; if it happens again, run `kernel-lsp doctor`",
    )


def _failed(stderr: str) -> Problem:
    lines = [
        line.strip() for line in stderr.splitlines() if line.strip() and not line.startswith(("Events ", "Error:"))
    ]
    return Problem(
        code="perf-failed",
        message=f"perf could not sample the kernel: {lines[0] if lines else 'it ended without a message'}",
        hint="run `kernel-lsp doctor`; perf 5.10 or later is needed",
    )
