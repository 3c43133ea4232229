from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kernel_lsp.build.toolchain import Toolchain, discover
from kernel_lsp.domain import Problem
from kernel_lsp.settings import Settings

pytestmark = pytest.mark.compiler


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def codes(toolchain: Toolchain) -> list[str]:
    return [problem.code for problem in toolchain.problems]


async def test_no_compiler_is_one_problem_with_the_command_that_mends_it() -> None:
    found = await discover(Settings(compiler="/nowhere/g++"))
    assert isinstance(found, Problem)
    assert found.code == "no-compiler"
    assert "apt install g++" in found.hint


async def test_a_compiler_that_does_not_run_is_no_compiler(tmp_path: Path) -> None:
    found = await discover(Settings(compiler=script(tmp_path / "g++", "exit 1")))
    assert isinstance(found, Problem)


async def test_the_environment_names_the_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CXX", script(tmp_path / "my-g++", 'exec g++ "$@"'))
    found = await discover(Settings())
    assert isinstance(found, Toolchain)
    assert found.compiler.name == "my-g++"


async def test_an_interpreter_without_torch_leaves_the_rest(tmp_path: Path) -> None:
    found = await discover(Settings(python=script(tmp_path / "python", f'exec {sys.executable} -I -S "$@"')))
    assert isinstance(found, Toolchain)
    assert found.torch is None
    assert codes(found) == ["no-torch"]
    assert "-m pip install" in found.problems[0].hint


async def test_an_interpreter_that_does_not_run_is_said_once() -> None:
    found = await discover(Settings(python="/nowhere/python"))
    assert isinstance(found, Toolchain)
    assert codes(found) == ["no-python"]


async def test_a_compiler_without_openmp_is_said(tmp_path: Path) -> None:
    compiler = script(tmp_path / "g++", 'case "$1" in -print-file-name*) echo libgomp.spec;; *) exec g++ "$@";; esac')
    found = await discover(Settings(compiler=compiler))
    assert isinstance(found, Toolchain)
    assert not found.openmp
    assert "no-openmp" in codes(found)


@pytest.mark.torch
async def test_torch_is_found_without_importing_it(tmp_path: Path) -> None:
    log = tmp_path / "imported"
    python = script(tmp_path / "python", f'exec {sys.executable} -X importtime "$@" 2> "{log}"')
    found = await discover(Settings(python=python))
    assert isinstance(found, Toolchain)
    assert found.torch is not None
    assert (found.torch.include_dirs[0] / "torch" / "extension.h").is_file() or found.torch.include_dirs[1].is_dir()
    assert found.torch.release >= (2, 10)
    assert found.torch.standard.startswith("c++")
    assert not any(line.rstrip().endswith("| torch") for line in log.read_text().splitlines())


async def test_a_torch_that_was_upgraded_under_us_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')\n")
    (package / "version.py").write_text("__version__ = '2.10.0'\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    first = await discover(Settings())
    (package / "version.py").write_text("__version__ = '2.11.1'\n")
    second = await discover(Settings())
    assert isinstance(first, Toolchain)
    assert isinstance(second, Toolchain)
    assert first.torch is not None
    assert second.torch is not None
    assert (first.torch.release, second.torch.release) == ((2, 10), (2, 11))
