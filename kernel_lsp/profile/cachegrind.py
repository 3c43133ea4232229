"""Exact cache misses by line: the kernel under valgrind's cachegrind, in a program of its own without Python or torch.

It counts what a simulated cache of this machine's geometry does, so the same code always gives the same numbers.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel_lsp import process
from kernel_lsp.build import content
from kernel_lsp.build.cache import Cache as BuildCache
from kernel_lsp.build.toolchain import Toolchain
from kernel_lsp.domain import Build, KernelUnit, LineCache, Location, Problem, Span
from kernel_lsp.evaluate import Worker
from kernel_lsp.messages import Subject
from kernel_lsp.profile import harness
from kernel_lsp.profile.caches import Cache, read_caches
from kernel_lsp.profile.lines import UserFiles
from kernel_lsp.settings import Settings

RUN_TIMEOUT_S = 10.0

WHOLE_US = 30_000.0
"""CPU time of a call up to which its own shapes are run: cachegrind takes 15 to 100 times as long, up to 3 s."""

SHRUNK_ELEMENTS = (256 * 1024, 64 * 1024)
"""Else tensors are shrunk to this, then to that if it takes too long. As large as time allows: columns of a smaller
array can fit in the first-level cache where the real one's do not."""

_QUIET = {"OMP_NUM_THREADS": "1", "VALGRIND_OPTS": "", "DEBUGINFOD_URLS": ""}
"""One thread: valgrind runs one at a time anyway, and a second one would only spin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCount:
    path: str
    """As in the debug information."""
    line: int
    """One-based; cachegrind's line 0, which means unknown, is left out."""
    instructions: int
    reads: int
    writes: int
    d1_misses: int
    ll_misses: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """One run's, as the cache keeps them."""

    lines: tuple[LineCount, ...]


async def measure(
    unit: KernelUnit,
    build: Build,
    subject: Subject,
    worker: Worker,
    *,
    toolchain: Toolchain,
    settings: Settings,
    files: UserFiles,
    cpu_us: float | None,
) -> tuple[LineCache, ...] | Problem:
    """Counts for the user's lines over one call of the entry, on one thread.

    `cpu_us` is the CPU time of a call on the reference's own shapes, where it is known: a call that takes longer
    than `WHOLE_US` is run on smaller ones. `Problem`s: no valgrind, a kernel that needs torch, a failed run.
    """
    assert unit.reference is not None
    if process.which("valgrind") is None:
        return _no_valgrind()
    artifact = await harness.valgrind_artifact(unit, build, toolchain, settings)
    if isinstance(artifact, Problem):
        return artifact
    program = await harness.prepare(subject, artifact, toolchain, settings)
    if isinstance(program, Problem):
        return program
    command = harness.command(*program, subject, artifact)
    # Equal programs on equal shapes give equal counts, and values hardly matter: a second run would tell nothing new.
    cache = BuildCache(settings.cache_folder / "counts", settings.cache_gb)
    digest = content.sha256(
        "cachegrind",
        *map(str, command),
        *geometry(read_caches()),
        _text(unit.reference),
        repr(subject.directives),
        str(whole := cpu_us is not None and cpu_us <= WHOLE_US),
    )
    if (known := cache.recall(digest, Counts)) is not None:
        return in_user_files(known.value.lines, files)
    with tempfile.TemporaryDirectory(prefix="kernel-lsp-") as name:
        folder = Path(name)
        for elements in (0,) if whole else SHRUNK_ELEMENTS:
            captured = await worker.capture(
                reference=unit.reference, subject=subject, directory=folder, max_elements=elements
            )
            if isinstance(captured, Problem):
                return captured
            arguments = harness.command_line(subject.entry, captured.arguments)
            if isinstance(arguments, Problem):
                return arguments
            counts = await _run([*command, *arguments], folder)
            if counts is not None:
                break
    if counts is None:
        return _failed(f"the kernel took more than {RUN_TIMEOUT_S:.0f} s under cachegrind")
    if isinstance(counts, Problem):
        return counts
    with cache.private() as folder:
        cache.publish(folder, digest, Counts(lines=counts))
    return in_user_files(counts, files)


def _text(path: Path) -> str:
    """Empty where it has gone meanwhile."""
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


async def _run(command: Sequence[str | Path], folder: Path) -> tuple[LineCount, ...] | Problem | None:
    """Counts of one run of `command`; None where it took too long."""
    output = folder / "cachegrind.out"
    tool = [
        "valgrind",
        "--tool=cachegrind",
        "--cache-sim=yes",
        "--branch-sim=no",
        # Else it leaves its pipes in the temporary folder when it is killed.
        "--vgdb=no",
        f"--cachegrind-out-file={output}",
        *geometry(read_caches()),
    ]
    try:
        ran = await process.run(
            [*tool, *command],
            cwd=folder,
            env={**_QUIET, "LD_LIBRARY_PATH": str(Path(command[0]).parent)},
            timeout_s=RUN_TIMEOUT_S,
        )
    except process.ToolMissing:
        return _no_valgrind()
    if ran.timed_out:
        return None
    if not ran.ok:
        said = [line.strip() for line in ran.stderr.splitlines() if line.strip() and not line.startswith("==")]
        why = said[-1] if said else f"the run ended with status {ran.code}"
        return harness.needs_thin(why) if why.endswith("torch") else _failed(why)
    return parse(output.read_text(encoding="utf-8", errors="replace"))


def geometry(caches: Sequence[Cache]) -> tuple[str, ...]:
    """Cachegrind's options for the first-level and last-level caches of `caches`.

    Given because cachegrind's own look at the processor goes wrong in virtual machines. It simulates only powers of
    two of sets, so a size is rounded down to one; a cache not fully described is left to cachegrind.
    """
    if not caches:
        return ()
    options = []
    for name, cache in (("D1", caches[0]), ("LL", caches[-1])):
        if cache.ways and cache.line and (sets := cache.size // (cache.ways * cache.line)):
            size = (1 << (sets.bit_length() - 1)) * cache.ways * cache.line
            options.append(f"--{name}={size},{cache.ways},{cache.line}")
    return tuple(options)


async def version() -> str | Problem:
    """`3.19.0`; a `Problem` where valgrind is not installed."""
    try:
        answer = await process.run(["valgrind", "--version"], env=_QUIET, timeout_s=20)
    except process.ToolMissing:
        return _no_valgrind()
    found = re.search(r"valgrind-(\S+)", answer.stdout)
    return found[1] if answer.ok and found else _no_valgrind()


def parse(text: str) -> tuple[LineCount, ...]:
    """Counts by file and line, added up over functions, from a cachegrind.out file.

    Its format: `events:` names the columns, `fl=` and `fn=` say where we are, and each line of numbers is a line of
    the source and its counts (Valgrind manual, "Cachegrind: Cachegrind's output file format").
    """
    columns: dict[str, int] = {}
    totals: dict[tuple[str, int], list[int]] = {}
    path = ""
    for row in text.splitlines():
        if row.startswith("fl="):
            path = row[3:]
        elif row.startswith("events:"):
            columns = {name: index for index, name in enumerate(row[7:].split())}
        elif (numbers := _numbers(row)) and columns and numbers[0] > 0:
            counts = totals.setdefault((path, numbers[0]), [0] * len(columns))
            for index, number in enumerate(numbers[1 : len(columns) + 1]):
                counts[index] += number

    def total(counts: list[int], *names: str) -> int:
        return sum(counts[columns[name]] for name in names if name in columns)

    return tuple(
        LineCount(
            path=path,
            line=line,
            instructions=total(counts, "Ir"),
            reads=total(counts, "Dr"),
            writes=total(counts, "Dw"),
            d1_misses=total(counts, "D1mr", "D1mw"),
            ll_misses=total(counts, "DLmr", "DLmw"),
        )
        for (path, line), counts in totals.items()
        if len(counts) == len(columns)
    )


def _numbers(row: str) -> tuple[int, ...]:
    parts = row.split()
    if not parts or not all(part.isascii() and part.isdigit() and len(part) < 20 for part in parts):
        return ()
    return tuple(int(part) for part in parts)


def in_user_files(counts: Iterable[LineCount], files: UserFiles) -> tuple[LineCache, ...]:
    """The counts on the user's own lines, most instructions first."""
    lines = [
        LineCache(
            location=Location(path=place[0], span=Span.line(place[1] - 1)),
            instructions=count.instructions,
            reads=count.reads,
            writes=count.writes,
            d1_misses=count.d1_misses,
            ll_misses=count.ll_misses,
        )
        for count in counts
        if (place := files.find(count.path, count.line)) is not None
    ]
    lines.sort(key=lambda line: (-line.instructions, str(line.location.path), line.location.span))
    return tuple(lines)


def _no_valgrind() -> Problem:
    return Problem(
        code="no-valgrind",
        message="valgrind, which counts cache misses by line, is not installed",
        hint="install it: sudo apt install valgrind",
    )


def _failed(why: str) -> Problem:
    return Problem(
        code="cachegrind-failed",
        message=f"cache misses were not counted: {why}",
        hint="nothing else depends on it; samples and timings hold",
    )
