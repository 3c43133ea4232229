"""What this machine builds with: the compiler, and the worker interpreter's torch, found without importing it."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel_lsp import process
from kernel_lsp.domain import Problem
from kernel_lsp.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchInstall:
    version: str
    """As in `torch.__version__`: `2.13.0+cpu`."""
    root: Path
    """The package's folder."""
    cxx11_abi: bool
    """Built with libstdc++'s newer string: `_GLIBCXX_USE_CXX11_ABI=1`."""
    standard: str
    """What `torch.utils.cpp_extension` compiles with: `c++20`."""

    @property
    def include_dirs(self) -> tuple[Path, ...]:
        """Torch's own headers, pybind11's among them."""
        include = self.root / "include"
        return (include, include / "torch" / "csrc" / "api" / "include")

    @property
    def lib_dir(self) -> Path:
        return self.root / "lib"

    @property
    def release(self) -> tuple[int, int]:
        """Major and minor version; (0, 0) where the version does not start with them."""
        found = re.match(r"(\d+)\.(\d+)", self.version)
        return (int(found[1]), int(found[2])) if found else (0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    compiler: Path
    compiler_version: str
    """First line of `--version`."""
    is_clang: bool
    python: Path
    """The worker's interpreter."""
    python_version: str
    """`3.11.7`; empty where that interpreter could not be asked."""
    python_include: Path | None
    """Folder of `Python.h`; None where the headers are not installed."""
    torch: TorchInstall | None
    openmp: bool
    """The compiler has its OpenMP runtime."""
    linker: str | None
    """`mold`, `lld` or `gold` where one is installed, for `-fuse-ld=`; None means the default."""
    cxxfilt: Path | None
    """`c++filt`, which makes the linker's symbols readable."""
    problems: tuple[Problem, ...]
    """What is missing here and the command that mends it; what is left still works."""


_PROBE = r"""
import importlib.util, json, pathlib, re, sys, sysconfig
found = {"python": "%d.%d.%d" % sys.version_info[:3], "include": sysconfig.get_paths()["include"], "torch": None}
spec = importlib.util.find_spec("torch")
if spec is not None and spec.submodule_search_locations:
    root = pathlib.Path(list(spec.submodule_search_locations)[0])
    def first(pattern, *parts):
        try:
            hit = re.search(pattern, root.joinpath(*parts).read_text(encoding="utf-8"))
        except OSError:
            hit = None
        return hit and hit[1]
    version = first(r"__version__\s*=\s*['\"]([^'\"]+)", "version.py")
    if version:
        found["torch"] = {
            "root": str(root),
            "version": version,
            "abi": first(r"_GLIBCXX_USE_CXX11_ABI=(\d)", "share", "cmake", "Torch", "TorchConfig.cmake"),
            "standard": first(r"['\"]-std=(c\+\+\d\d)['\"]", "utils", "cpp_extension.py"),
        }
print(json.dumps(found))
"""
"""Asks an interpreter for its headers and torch; `find_spec` runs no line of torch, whose import takes seconds."""

_LINKERS = ("mold", "lld", "gold")
"""Fastest first."""

_known: dict[tuple[str, ...], Toolchain] = {}


async def discover(settings: Settings) -> Toolchain | Problem:
    """The toolchain that `settings` name; a `Problem` where there is no compiler at all.

    What was found is remembered until the compiler, the interpreter or torch changes on disk; what was missing
    is looked for again, so that installing it is enough.
    """
    name = settings.compiler or os.environ.get("CXX", "") or "g++"
    command = process.which(name) or (None if settings.compiler else process.which("clang++"))
    if command is None:
        return _no_compiler(name)
    python = Path(process.which(settings.python) or settings.python) if settings.python else Path(sys.executable)
    key = (command, _stamp(Path(command)), str(python), _stamp(python), os.environ.get("PYTHONPATH", ""))
    known = _known.get(key)
    if known is not None and not known.problems and known.torch is not None:
        version_file = known.torch.root / "version.py"
        if version_file.is_file() and known.torch.version in version_file.read_text(encoding="utf-8"):
            return known
    try:
        found = await _ask(Path(command), python)
    except process.ToolMissing as missing:
        return _no_compiler(str(missing))
    if isinstance(found, Toolchain):
        _known[key] = found
    return found


async def _ask(compiler: Path, python: Path) -> Toolchain | Problem:
    version = await process.run([compiler, "--version"], timeout_s=20)
    if not version.ok:
        return _no_compiler(f"{compiler} --version")
    is_clang = "clang" in version.stdout.lower()
    runtime = "libomp.so" if is_clang else "libgomp.spec"
    where = await process.run([compiler, f"-print-file-name={runtime}"], timeout_s=20)
    openmp = os.sep in where.stdout.strip()
    problems: list[Problem] = []
    if not openmp:
        package = "libomp-dev" if is_clang else "g++"
        problems.append(
            Problem(
                code="no-openmp",
                message=f"{compiler.name} has no OpenMP runtime, so kernels with `-fopenmp` do not link",
                hint=f"install it: sudo apt install {package}",
            )
        )
    answer = await _ask_python(python, problems)
    include = Path(answer["include"]) if answer.get("include") else None
    torch = _torch(answer.get("torch"), python, problems)
    if include is not None and not (include / "Python.h").is_file():
        include = None
    cxxfilt = process.which("c++filt") or process.which("llvm-cxxfilt")
    return Toolchain(
        compiler=compiler,
        compiler_version=process.tool_version(version.stdout),
        is_clang=is_clang,
        python=python,
        python_version=str(answer.get("python", "")),
        python_include=include,
        torch=torch,
        openmp=openmp,
        linker=next((name for name in _LINKERS if process.which("mold" if name == "mold" else f"ld.{name}")), None),
        cxxfilt=Path(cxxfilt) if cxxfilt else None,
        problems=tuple(problems),
    )


async def _ask_python(python: Path, problems: list[Problem]) -> dict[str, Any]:
    try:
        # From the root folder: `-c` puts the working folder on the path, where a project may have its own `torch/`.
        probe = await process.run([python, "-c", _PROBE], cwd=Path("/"), timeout_s=60)
        answer = json.loads(probe.stdout) if probe.ok else None
    except (process.ToolMissing, ValueError):
        answer = None
    if isinstance(answer, dict):
        return answer
    problems.append(
        Problem(
            code="no-python",
            message=f"the worker's interpreter {python} does not run",
            hint='name one that has torch in the setting "python"',
        )
    )
    return {}


def _torch(answer: Any, python: Path, problems: list[Problem]) -> TorchInstall | None:
    if not isinstance(answer, dict):
        if not problems or problems[-1].code != "no-python":
            problems.append(
                Problem(
                    code="no-torch",
                    message=f"torch is not installed for {python}",
                    hint=f'run: {python} -m pip install "torch>=2.10" numpy; or name another in the setting "python"',
                )
            )
        return None
    return TorchInstall(
        version=str(answer["version"]),
        root=Path(answer["root"]),
        cxx11_abi=answer.get("abi") != "0",
        standard=answer.get("standard") or "c++17",
    )


def no_python_headers(toolchain: Toolchain) -> Problem:
    """For a build that needs `Python.h` and has none."""
    minor = ".".join(toolchain.python_version.split(".")[:2]) or "3"
    return Problem(
        code="no-python-headers",
        message=f"Python.h of {toolchain.python} is not installed, so a Python extension cannot be compiled",
        hint=f"install it: sudo apt install python{minor}-dev",
    )


def _no_compiler(name: str) -> Problem:
    return Problem(
        code="no-compiler",
        message=f"no C++ compiler: {name} cannot be found or run",
        hint='install one: sudo apt install g++; or name yours in the setting "compiler" or in $CXX',
    )


def _stamp(path: Path) -> str:
    try:
        status = path.stat()
    except OSError:
        return ""
    return f"{status.st_mtime_ns}-{status.st_size}"
