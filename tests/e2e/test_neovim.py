"""A real Neovim 0.11 with the configuration that we ship."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.e2e.editor import PATIENCE_S

pytestmark = [pytest.mark.e2e, pytest.mark.compiler, pytest.mark.torch]

HERE = Path(__file__).parent
CONFIG = HERE.parent.parent / "editors" / "neovim"
NVIM = shutil.which("nvim", path=str(Path(sys.executable).parent)) or shutil.which("nvim")


@pytest.mark.skipif(NVIM is None, reason="no nvim: pip install --group editors")
async def test_open_save_findings_and_lens(workspace: Path, environment: dict[str, str], tmp_path: Path) -> None:
    assert NVIM is not None
    result = tmp_path / "seen.json"
    job = {
        "config": str(CONFIG),
        "command": [sys.executable, "-m", "kernel_lsp", "serve", "--stdio"],
        "kernel": str(workspace / "scale_columns.cpp"),
        "result": str(result),
        "patience_ms": int(1000 * PATIENCE_S),
    }
    home = {f"XDG_{name}_HOME": str(tmp_path / name.lower()) for name in ("CONFIG", "DATA", "STATE")}
    nvim = await asyncio.create_subprocess_exec(
        NVIM,
        "--headless",
        "--clean",
        "-S",
        str(HERE / "neovim.lua"),
        env={**environment, **home, "KERNEL_LSP_TEST": json.dumps(job)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        printed, _ = await asyncio.wait_for(nvim.communicate(), 1.5 * PATIENCE_S)
    finally:
        if nvim.returncode is None:
            nvim.kill()
    assert result.exists(), printed.decode(errors="replace")
    seen = json.loads(result.read_text())
    assert seen.get("failure") is None, seen
    assert seen["lenses"][1:] == ["Optimize this kernel", "Open report"]
    finding = next(d for d in seen["diagnostics"] if d["code"] == "KL501")
    line = (workspace / "scale_columns.cpp").read_bytes().splitlines()[finding["line"]]
    assert line[finding["column"] :].startswith(b"x[i * cols + j]") or line[finding["column"] :].startswith(b"y[i")
    assert seen["encoding"] == "utf-8"
    assert {"KernelCheck", "KernelOptimize", "KernelReport", "KernelDoctor"} <= set(seen["commands"])
