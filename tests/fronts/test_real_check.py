"""The command itself, as a process, on a kernel that needs no torch header: from the file to the exit code."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "cpu" / "matmul_ijk"

pytestmark = [pytest.mark.torch, pytest.mark.compiler]


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    (tmp_path / "kernel-lsp.toml").write_text(
        f'cache-dir = "{tmp_path / "cache"}"\ncompiled-baseline = false\n', encoding="utf-8"
    )
    for path in EXAMPLE.iterdir():
        if path.is_file():
            shutil.copy(path, tmp_path)
    reference = tmp_path / "matmul_ijk.py"
    reference.write_text(reference.read_text(encoding="utf-8").replace("320", "64"), encoding="utf-8")
    return tmp_path / "matmul_ijk.cpp"


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "kernel_lsp", *(str(argument) for argument in arguments)]


def test_a_right_kernel_a_wrong_one_and_none(kernel: Path) -> None:
    right = subprocess.run(command("check", kernel, "--no-profile"), capture_output=True, text=True, check=False)
    assert right.returncode == 0, right.stderr
    assert "✓ matches reference" in right.stdout
    assert "torch" in right.stdout

    text = kernel.read_text(encoding="utf-8")
    kernel.write_text(text.replace("k < inner", "k < inner - 1"), encoding="utf-8")
    wrong = subprocess.run(command("check", kernel, "--json"), capture_output=True, text=True, check=False)
    assert wrong.returncode == 1, wrong.stderr
    documents = [json.loads(line) for line in wrong.stdout.splitlines()]
    verdicts = [document["verdict"] for document in documents if document["class"] == "Judged"]
    assert verdicts[-1]["class"] == "Mismatch"
    assert not [document for document in documents if document["class"] == "Timed"]

    kernel.write_text(text.replace("float sum = 0;", "flaot sum = 0;"), encoding="utf-8")
    broken = subprocess.run(command("check", kernel), capture_output=True, text=True, check=False)
    assert broken.returncode == 1
    assert "flaot" in broken.stdout
    assert "^" in broken.stdout

    kernel.with_suffix(".py").unlink()
    alone = subprocess.run(command("check", kernel), capture_output=True, text=True, check=False)
    assert "Traceback" not in alone.stderr


def test_an_interrupt_ends_every_process(kernel: Path) -> None:
    text = kernel.read_text(encoding="utf-8")
    kernel.write_text(text.replace("float sum = 0;", 'for (;;) asm volatile(""); float sum = 0;'), encoding="utf-8")
    child = subprocess.Popen(
        command("check", kernel, "--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    for line in child.stdout:
        if json.loads(line).get("message", "").startswith("judging"):
            break
    deadline = time.monotonic() + 60
    while len(descendants(child.pid)) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    started = descendants(child.pid)
    assert started, "the worker and its child should be there"
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "Traceback" not in errors
    deadline = time.monotonic() + 20
    while (left := [pid for pid in started if alive(pid)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text(encoding="ascii").split():
            found += [int(child), *descendants(int(child))]
    return found


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
