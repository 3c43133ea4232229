"""What this machine can do at best, measured once by a small program of our own: memory bandwidth and FMA peaks."""

from __future__ import annotations

import datetime
import os
import platform
import re
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kernel_lsp import process
from kernel_lsp.build.toolchain import Toolchain
from kernel_lsp.domain import Ceilings, Problem
from kernel_lsp.profile.caches import last_level, read_caches

SOURCE = Path(__file__).with_name("ceilings.cpp")

FLAGS = ("-O3", "-march=native", "-ffp-contract=fast", "-std=c++17")

COMPILE_TIMEOUT_S = 60.0
RUN_TIMEOUT_S = 30.0

SMALLEST_ARRAY = 32 * 2**20
LARGEST_ARRAY = 512 * 2**20
"""Bytes. Faulting in the pages of larger ones takes longer than measuring; three of them still exceed any cache."""


async def measure(toolchain: Toolchain) -> Ceilings | Problem:
    """Compile and run `ceilings.cpp` on all threads that this process may use: two to four seconds.

    Each ceiling is the best of its repetitions, as STREAM reports it (https://www.cs.virginia.edu/stream/ref.html):
    whatever else runs can only make a repetition slower. The spread says how far they lie apart.
    """
    threads = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="kernel-lsp-") as folder:
        program = Path(folder) / "ceilings"
        openmp = ["-fopenmp"] if toolchain.openmp else []
        try:
            built = await process.run(
                [toolchain.compiler, *FLAGS, *openmp, SOURCE, "-o", program], timeout_s=COMPILE_TIMEOUT_S
            )
            if not built.ok:
                return _failed(f"does not compile: {_last_line(built.stderr)}")
            ran = await process.run(
                [program, str(array_bytes(sum(cache.size for cache in last_level(read_caches())), available_bytes()))],
                env={"OMP_NUM_THREADS": str(threads), "OMP_PROC_BIND": "false", "OMP_DYNAMIC": "false"},
                timeout_s=RUN_TIMEOUT_S,
            )
        except process.ToolMissing as missing:
            return _failed(f"cannot be run: {missing}")
    if not ran.ok:
        return _failed("was stopped after 30 s" if ran.timed_out else f"ended with status {ran.code}")
    measured = parse(ran.stdout)
    if measured is None:
        return _failed("printed no rates")
    triad, fp32, fp64 = measured
    return Ceilings(
        device=device_name(),
        threads=threads,
        dram_gbs=max(triad),
        fp32_gflops=max(fp32),
        fp64_gflops=max(fp64),
        spread=max(spread(rates) for rates in measured),
        measured_at=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    )


def parse(output: str) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]] | None:
    """Rates of triad (GB/s), fp32 and fp64 (GFLOP/s) from the program's output; None where one is missing."""
    rates: dict[str, tuple[float, ...]] = {}
    for line in output.splitlines():
        name, *values = line.split() or [""]
        try:
            numbers = tuple(float(value) for value in values)
        except ValueError:
            return None
        if numbers and all(0 < number < float("inf") for number in numbers):
            rates[name] = numbers
    if not rates.keys() >= {"triad", "fp32", "fp64"}:
        return None
    return rates["triad"], rates["fp32"], rates["fp64"]


def spread(rates: Sequence[float]) -> float:
    """Interquartile range over the median; 0 for fewer than four."""
    if len(rates) < 4:
        return 0.0
    first, _, third = statistics.quantiles(rates, n=4)
    return (third - first) / statistics.median(rates)


def device_name() -> str:
    """The processor as the kernel names it: `AMD EPYC 9654 96-Core Processor`."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    return cpu_name(text) or platform.processor() or platform.machine()


def cpu_name(cpuinfo: str) -> str:
    """The first processor's name in `/proc/cpuinfo`; on Arm, which has none, the implementer's and part's codes."""
    fields = dict(re.findall(r"^([\w ]+?)\s*:[ \t]*(\S.*?)\s*$", cpuinfo.split("\n\n", 1)[0], re.MULTILINE))
    if "model name" in fields:
        return str(fields["model name"])
    codes = [f"{key} {fields[key]}" for key in ("CPU implementer", "CPU part") if key in fields]
    return ", ".join(codes)


def array_bytes(cache: int, available: int) -> int:
    """Bytes of each of the triad's three arrays: each four times the last-level caches together, which is STREAM's
    rule, within what the machine's memory and patience allow."""
    wanted = min(max(4 * cache, SMALLEST_ARRAY), LARGEST_ARRAY, max(available // 12, 2**20))
    return wanted // 4096 * 4096


def available_bytes() -> int:
    """Memory that can be had without swapping; 2 GiB where the kernel does not say."""
    try:
        found = re.search(r"^MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return int(found[1]) * 1024 if found else 2 * 2**30


def _failed(why: str) -> Problem:
    return Problem(
        code="no-ceilings",
        message=f"this machine's limits could not be measured: the measuring program {why}",
        hint="run `kernel-lsp doctor`; until then nothing is said of the distance to the machine's limit",
    )


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if "error" in line] or text.splitlines()
    return lines[0].strip() if lines else "no message"
