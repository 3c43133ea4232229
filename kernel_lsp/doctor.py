"""Which tools this machine has, whether they work, and the command that mends what is missing.

Each tool is asked to do a small piece of its real job: a `perf` that is installed but not permitted, or a torch
whose libraries do not load, is of no use to anyone.
"""

from __future__ import annotations

import asyncio
import enum
import json
import platform
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel_lsp import process
from kernel_lsp.build.toolchain import Toolchain, discover
from kernel_lsp.domain import Problem
from kernel_lsp.settings import Settings

OLDEST_TORCH = (2, 10)
"""First release whose stable C interface has all that the thin layer needs."""

ASK_S = 30.0
"""For one question to a tool; `valgrind` and `nvcc` on a cold disk take seconds."""


class Fitness(enum.Enum):
    READY = "ready"
    LIMITED = "limited"
    """There, but not all of it works here."""
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReport:
    name: str
    version: str | None
    """As the tool says it; None where it is missing or does not run."""
    path: Path | None
    needed_for: str
    required: bool
    """Without it no kernel can be checked."""
    fitness: Fitness
    detail: str = ""
    """What does not work, or what else is worth knowing; one clause."""
    remedy: str | None = None
    """The command or act that mends it; None where nothing needs mending."""

    @property
    def blocks(self) -> bool:
        """Stands in the way of checking any kernel."""
        return self.required and self.fitness is Fitness.MISSING


async def examine(settings: Settings) -> tuple[ToolReport, ...]:
    """Every tool that is used, the required ones first. Takes about as long as `import torch`."""
    groups = await asyncio.gather(
        _torch(settings),
        _toolchain(settings),
        _perf(),
        _simple("valgrind", "exact cache misses on each line", "valgrind"),
        _simple("addr2line", "the source line of each sample", "binutils"),
        _simple("llvm-mca", "telling a dependency chain from busy ports", "llvm"),
        _simple("setpriv", "ending compilers and workers when the server is killed", "util-linux"),
        _simple("nvcc", "CUDA kernels, which are not built yet", None),
        _simple("ncu", "profiling CUDA kernels, which are not built yet", None),
        _simple("bwrap", "a sandbox around kernels, which is not used yet", None),
    )
    reports = [report for group in groups for report in group]
    return tuple(sorted(reports, key=lambda report: not report.required))


# --- torch --------------------------------------------------------------------------------------------------

_IMPORT_TORCH = """
import json, sys
found = {"python": "%d.%d.%d" % sys.version_info[:3]}
try:
    import torch
    found.update(torch=torch.__version__, path=torch.__path__[0], threads=torch.get_num_threads())
except BaseException as error:
    found["error"] = type(error).__name__ + ": " + str(error).strip().split("\\n")[0]
print(json.dumps(found))
"""


async def _torch(settings: Settings) -> list[ToolReport]:
    python = settings.python or sys.executable
    where = process.which(python)
    answer = await _ask_json([python, "-c", _IMPORT_TORCH])
    interpreter = ToolReport(
        name="python (worker)",
        version=None if answer is None else str(answer["python"]),
        path=None if where is None else Path(where),
        needed_for="running kernels and references",
        required=True,
        fitness=Fitness.MISSING if answer is None else Fitness.READY,
        detail="it cannot be run" if answer is None else "",
        remedy='name an interpreter that has torch in the setting "python"' if answer is None else None,
    )
    install = f'{python} -m pip install "torch>={OLDEST_TORCH[0]}.{OLDEST_TORCH[1]}" numpy'
    version = None if answer is None else answer.get("torch")
    detail = "" if answer is None else answer.get("error", "")
    old = version is not None and _release(str(version)) < OLDEST_TORCH
    torch = ToolReport(
        name="torch",
        version=None if version is None else str(version),
        path=None if version is None or answer is None else Path(answer["path"]),
        needed_for="the reference's results and times",
        required=True,
        fitness=Fitness.MISSING if version is None else Fitness.LIMITED if old else Fitness.READY,
        detail="too old for the quick builds" if old else str(detail),
        remedy=install if version is None or old else None,
    )
    return [interpreter, torch]


def _release(version: str) -> tuple[int, ...]:
    """`(2, 13)` of `2.13.0+cpu`; (0,) of what does not look like a release."""
    numbers = version.split("+", maxsplit=1)[0].split(".")[:2]
    return tuple(int(number) for number in numbers) if all(n.isdigit() for n in numbers) else (0,)


# --- the compiler -------------------------------------------------------------------------------------------


async def _toolchain(settings: Settings) -> list[ToolReport]:
    tools = await discover(settings)
    if isinstance(tools, Problem):
        missing = ToolReport(
            name="C++ compiler",
            version=None,
            path=None,
            needed_for="building kernels",
            required=True,
            fitness=Fitness.MISSING,
            detail=tools.message,
            remedy=tools.hint,
        )
        return [missing]
    return [_compiler(tools), _python_headers(tools), _linker(tools)]


def _compiler(tools: Toolchain) -> ToolReport:
    lacking = next((problem for problem in tools.problems if problem.code == "no-openmp"), None)
    return ToolReport(
        name="C++ compiler",
        version=tools.compiler_version,
        path=tools.compiler,
        needed_for="building kernels",
        required=True,
        fitness=Fitness.READY if lacking is None else Fitness.LIMITED,
        detail="" if lacking is None else lacking.message,
        remedy=None if lacking is None else lacking.hint,
    )


def _python_headers(tools: Toolchain) -> ToolReport:
    minor = ".".join(tools.python_version.split(".")[:2]) or "3"
    there = tools.python_include is not None
    return ToolReport(
        name="Python.h",
        version=tools.python_version if there else None,
        path=tools.python_include,
        needed_for="kernels that the thin torch layer cannot build",
        required=False,
        fitness=Fitness.READY if there else Fitness.MISSING,
        remedy=None if there else f"sudo apt install python{minor}-dev",
    )


def _linker(tools: Toolchain) -> ToolReport:
    """The compiler's own linker always does; a faster one saves half a second a build."""
    found = process.which("mold" if tools.linker == "mold" else f"ld.{tools.linker}") if tools.linker else None
    return ToolReport(
        name="fast linker",
        version=tools.linker,
        path=None if found is None else Path(found),
        needed_for="quicker builds",
        required=False,
        fitness=Fitness.MISSING if found is None else Fitness.READY,
        remedy="sudo apt install mold" if found is None else None,
    )


# --- profilers ----------------------------------------------------------------------------------------------

_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")


async def _perf() -> list[ToolReport]:
    path = process.which("perf")
    # On Ubuntu `perf` is a script that fails until the tools of the running kernel are installed.
    version = None if path is None else await _version([path, "--version"])
    if version is None:
        package = "linux-tools-generic" if _is_ubuntu() else "linux-perf"
        return [_perf_report(None, path, Fitness.MISSING, "", f"sudo apt install {package}")]
    assert path is not None
    with tempfile.TemporaryDirectory(prefix="kernel-lsp-doctor-") as folder:
        data = str(Path(folder) / "perf.data")
        sampled = await _run([path, "record", "-q", "-e", "cpu-clock:u", "-o", data, "--", "true"])
    if sampled is None or not sampled.ok:
        level = _paranoid()
        remedy = "sudo sysctl kernel.perf_event_paranoid=2"
        if level is None or level <= 2:
            # The kernel would let us; then it is the container that does not.
            remedy = "run the container with --cap-add PERFMON, or with a seccomp profile that allows perf_event_open"
        detail = "sampling is not permitted" + ("" if level is None else f" (perf_event_paranoid is {level})")
        return [_perf_report(version, path, Fitness.LIMITED, detail, remedy)]
    counted = await _run([path, "stat", "-x", ";", "-e", "cycles:u,instructions:u", "--", "true"])
    counters = counted is not None and counted.ok and "<not" not in counted.stderr
    detail = "sampling and hardware counters" if counters else "sampling; this machine offers no hardware counters"
    return [_perf_report(version, path, Fitness.READY, detail, None)]


def _perf_report(
    version: str | None, path: str | None, fitness: Fitness, detail: str, remedy: str | None
) -> ToolReport:
    return ToolReport(
        name="perf",
        version=version,
        path=None if path is None else Path(path),
        needed_for="the share of time on each line",
        required=False,
        fitness=fitness,
        detail=detail,
        remedy=remedy,
    )


def _paranoid() -> int | None:
    try:
        return int(_PARANOID.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


async def _simple(name: str, needed_for: str, package: str | None) -> list[ToolReport]:
    """A tool that works if it can say its version; no `package` where nothing is lost without it yet."""
    path = process.which(name)
    version = None if path is None else await _version([path, "--version"])
    report = ToolReport(
        name=name,
        version=version,
        path=None if path is None else Path(path),
        needed_for=needed_for,
        required=False,
        fitness=Fitness.MISSING if version is None else Fitness.READY,
        detail="it is there, but does not run" if path is not None and version is None else "",
        remedy=f"sudo apt install {package}" if version is None and package is not None else None,
    )
    return [report]


# --- asking -------------------------------------------------------------------------------------------------


async def _run(command: Sequence[str]) -> process.Completed | None:
    try:
        # From the root folder, so that nothing of the workspace is taken for a module or a configuration.
        return await process.run(command, cwd=Path("/"), timeout_s=ASK_S)
    except process.ToolMissing:
        return None


async def _version(command: Sequence[str]) -> str | None:
    done = await _run(command)
    if done is None or not done.ok:
        return None
    # Not always the first line: nvcc and llvm-mca name their maker there.
    lines = (done.stdout or done.stderr).splitlines()
    return next((line.strip() for line in lines if re.search(r"\d+\.\d+", line)), None)


async def _ask_json(command: Sequence[str]) -> dict[str, Any] | None:
    done = await _run(command)
    if done is None or not done.ok:
        return None
    try:
        # A site customisation may print before it.
        answer = json.loads(done.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return None
    return answer if isinstance(answer, dict) else None


def _is_ubuntu() -> bool:
    try:
        return "ubuntu" in platform.freedesktop_os_release().get("ID", "").lower()
    except OSError:
        return False
