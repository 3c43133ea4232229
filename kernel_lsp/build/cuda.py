"""The CUDA toolkit of this machine: where nvcc is, what it can build for, and what it shall build for."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kernel_lsp import process
from kernel_lsp.build.toolchain import Toolchain
from kernel_lsp.domain import Problem
from kernel_lsp.settings import Settings

PREFERRED = ("90", "80", "89", "100", "75")
"""Compute capabilities to build for where there is no device and no setting, the most telling first.*"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolkit:
    nvcc: Path
    version: str
    """`13.0.88`."""
    root: Path
    """Holds `include` and `lib64` or `lib`."""
    architecture: str
    """What is built for: `90`, `90a`."""
    chosen_by: str
    """Why: the device's name, the setting, or that there is neither."""

    @property
    def include(self) -> Path:
        return self.root / "include"

    @property
    def libraries(self) -> tuple[str, ...]:
        """Linker arguments for the CUDA runtime, the same one that torch loads."""
        folders = [folder for name in ("lib64", "lib") if (folder := self.root / name).is_dir()]
        runtime = next((path for folder in folders for path in sorted(folder.glob("libcudart.so*"))), None)
        if runtime is None:
            return ("-lcudart",)
        return (str(runtime), f"-Wl,-rpath,{runtime.parent}")


async def find(toolchain: Toolchain, settings: Settings) -> Toolkit | Problem:
    """The toolkit; a `Problem` where there is none, or none that knows the architecture asked for."""
    for nvcc in _candidates(toolchain):
        try:
            said = await process.run([nvcc, "--version"], timeout_s=20)
        except process.ToolMissing:
            continue
        version = re.search(r"V(\d+\.\d+\.\d+)", said.stdout)
        if said.ok and version:
            listed = await process.run([nvcc, "--list-gpu-arch"], timeout_s=20)
            known = tuple(re.findall(r"compute_(\w+)", listed.stdout))
            return await _for_device(nvcc, version[1], known, settings)
    return _no_nvcc()


async def device() -> tuple[str, str] | None:
    """Name and compute capability of the first GPU, without starting CUDA; None without one."""
    try:
        asked = await process.run(["nvidia-smi", "--query-gpu=name,compute_cap", "--format=csv,noheader"], timeout_s=20)
    except process.ToolMissing:
        return None
    first = asked.stdout.strip().splitlines()[:1]
    name, _, capability = first[0].rpartition(",") if asked.ok and first else ("", "", "")
    return (name.strip(), capability.strip().replace(".", "")) if name else None


def _candidates(toolchain: Toolchain) -> Iterator[Path]:
    """Wherever people have it: named, on PATH, in the usual prefixes, in conda's, and in a wheel beside torch."""
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]) / "bin" / "nvcc"
    if (found := process.which("nvcc")) is not None:
        yield Path(found)
    yield Path("/usr/local/cuda/bin/nvcc")
    yield from sorted(Path("/usr/local").glob("cuda-*/bin/nvcc"), reverse=True)
    if os.environ.get("CONDA_PREFIX"):
        yield Path(os.environ["CONDA_PREFIX"]) / "bin" / "nvcc"
    if toolchain.torch is not None:
        yield from sorted((toolchain.torch.root.parent / "nvidia").glob("*/bin/nvcc"), reverse=True)


async def _for_device(nvcc: Path, version: str, known: tuple[str, ...], settings: Settings) -> Toolkit | Problem:
    gpu = await device()
    if settings.cuda_arch:
        wanted, why = re.sub(r"^(?:sm_|compute_)|\.", "", settings.cuda_arch), "the setting `cuda-arch`"
    elif gpu is not None:
        wanted, why = gpu[1], gpu[0]
    else:
        wanted = next((name for name in PREFERRED if name in known), known[-1] if known else "")
        why = "no GPU here and no setting `cuda-arch`"
    if known and re.sub(r"[a-z]$", "", wanted) not in known:
        return Problem(
            code="unknown-architecture",
            message=f"nvcc {version} does not know sm_{wanted} ({why}); it knows {', '.join(known)}",
            hint="install a CUDA toolkit that does, or name one of these in the setting `cuda-arch`",
        )
    # A command on PATH may be a script or a link; nvcc itself says where it lives.
    told = await process.run([nvcc, "--dryrun", "-x", "cu", "-E", "/dev/null"], timeout_s=20)
    return Toolkit(nvcc=nvcc, version=version, root=_root(nvcc, told.stderr), architecture=wanted, chosen_by=why)


def _root(nvcc: Path, told: str) -> Path:
    top = re.search(r"^#\$ TOP=(.+)$", told, re.MULTILINE)
    return Path(top[1].strip()).resolve() if top else nvcc.resolve().parent.parent


def _no_nvcc() -> Problem:
    return Problem(
        code="no-nvcc",
        message="CUDA files cannot be compiled here: no nvcc on PATH, in CUDA_HOME or in the usual places",
        hint="install the CUDA toolkit or set CUDA_HOME; C++ kernels are built all the same",
    )
