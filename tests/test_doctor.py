"""What the doctor finds, on machines that lack one thing or another."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kernel_lsp import doctor, process
from kernel_lsp.doctor import Fitness, ToolReport
from kernel_lsp.settings import Settings


async def examined(settings: Settings | None = None) -> dict[str, ToolReport]:
    return {report.name: report for report in await doctor.examine(settings or Settings(python="/no/such/python"))}


def lacking(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    found = process.which
    monkeypatch.setattr(process, "which", lambda name: None if Path(name).name in names else found(name))


def script(folder: Path, name: str, body: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


async def test_a_missing_interpreter_blocks_and_says_how_to_mend_it() -> None:
    reports = await examined()
    assert reports["python (worker)"].blocks
    assert reports["torch"].blocks
    assert "setting" in (reports["python (worker)"].remedy or "")


async def test_an_interpreter_without_torch(tmp_path: Path) -> None:
    said = '{"python": "3.11.0", "error": "ModuleNotFoundError: No module named \'torch\'"}'
    python = script(tmp_path, "python", f"echo noise; echo '{said}'".replace("'torch'", "torch"))
    reports = await examined(Settings(python=str(python)))
    assert not reports["python (worker)"].blocks
    torch = reports["torch"]
    assert torch.blocks
    assert "No module named" in torch.detail
    assert torch.remedy == f'{python} -m pip install "torch>=2.10" numpy'


async def test_an_old_torch_is_named_but_does_not_block(tmp_path: Path) -> None:
    said = '{"python": "3.11.0", "torch": "2.4.1+cpu", "path": "/torch", "threads": 2}'
    reports = await examined(Settings(python=str(script(tmp_path, "python", f"echo '{said}'"))))
    assert reports["torch"].fitness is Fitness.LIMITED
    assert not reports["torch"].blocks
    assert "2.10" in (reports["torch"].remedy or "")


async def test_no_compiler_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = await examined(Settings(python="/no/such/python", compiler="/no/such/g++"))
    assert reports["C++ compiler"].blocks
    assert "g++" in (reports["C++ compiler"].remedy or "")


async def test_missing_profilers_have_a_command_and_do_not_block(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking(monkeypatch, "perf", "valgrind", "addr2line", "llvm-mca", "ncu", "nvcc", "bwrap")
    reports = await examined()
    for name in ("perf", "valgrind", "addr2line", "llvm-mca"):
        assert reports[name].fitness is Fitness.MISSING
        assert (reports[name].remedy or "").startswith("sudo apt install ")
        assert not reports[name].blocks
    # Nobody is sent to install what nothing uses yet.
    assert reports["ncu"].remedy is None


@pytest.mark.parametrize(
    ("level", "remedy"), [(4, "sudo sysctl kernel.perf_event_paranoid=2"), (1, "--cap-add PERFMON"), (None, "PERFMON")]
)
async def test_a_perf_that_may_not_sample(
    level: int | None, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    perf = script(tmp_path, "perf", 'case "$1" in --version) echo perf version 6.1.0;; *) exit 255;; esac')
    found = process.which
    monkeypatch.setattr(process, "which", lambda name: str(perf) if name == "perf" else found(name))
    setting = tmp_path / "perf_event_paranoid"
    if level is not None:
        setting.write_text(f"{level}\n", encoding="ascii")
    monkeypatch.setattr(doctor, "_PARANOID", setting)
    report = (await examined())["perf"]
    assert report.fitness is Fitness.LIMITED
    assert report.version == "perf version 6.1.0"
    assert remedy in (report.remedy or "")
    assert ("is 4" in report.detail) == (level == 4)


async def test_a_perf_script_that_finds_no_tools_for_its_kernel_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    perf = script(tmp_path, "perf", "echo 'WARNING: perf not found for kernel 6.8.0-31' >&2; exit 2")
    found = process.which
    monkeypatch.setattr(process, "which", lambda name: str(perf) if name == "perf" else found(name))
    report = (await examined())["perf"]
    assert report.fitness is Fitness.MISSING
    assert report.version is None


async def test_counters_that_the_machine_lacks_are_said_to_be_lacking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = 'case "$1" in --version) echo perf version 6.1;; stat) echo "<not supported>;;cycles:u" >&2;; esac'
    perf = script(tmp_path, "perf", body)
    found = process.which
    monkeypatch.setattr(process, "which", lambda name: str(perf) if name == "perf" else found(name))
    report = (await examined())["perf"]
    assert report.fitness is Fitness.READY
    assert "no hardware counters" in report.detail


@pytest.mark.torch
@pytest.mark.compiler
async def test_this_machine_can_do_the_main_job() -> None:
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    reports = await doctor.examine(Settings())
    assert not [report.name for report in reports if report.blocks]
    assert [report.required for report in reports] == sorted((report.required for report in reports), reverse=True)
