"""What is done once, in the warm parent, so that no child pays for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.torch

CODE = """
import os, sys
import torch
from kernel_lsp.worker.jobs import _import_compiler
before = os.listdir("/proc/self/task")
_import_compiler()
print("torch._inductor.compile_fx" in sys.modules, os.listdir("/proc/self/task") == before)
"""


def test_the_compiler_is_imported_ahead_without_a_thread() -> None:
    """Each child that compiles would otherwise take four seconds to import it; a thread would not survive the fork."""
    ran = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=120, check=True)
    assert ran.stdout.split() == ["True", "True"]
