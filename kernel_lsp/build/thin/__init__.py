"""The thin torch layer: the common part of torch's C++ API over its stable C ABI, header-only, parsed in a blink.

`include/` goes before everything else on the include path, so that `<torch/extension.h>` and the like mean the thin
headers there, and the user's unchanged file compiles against them. What the layer lacks fails to compile, and the
builder then takes torch's own headers: the layer may be poorer than torch, never different.

An artifact of it needs nothing of torch but C functions, so it also runs without: `standalone/` holds a stand-in for
those and a program that calls any thin artifact with tensors from files, which is what cachegrind runs.
"""

from __future__ import annotations

import re
from pathlib import Path

from kernel_lsp.build.toolchain import TorchInstall

INCLUDE_DIR = Path(__file__).parent / "include"
"""Goes first on the include path, so that `<torch/extension.h>` means the thin one."""

UMBRELLA = "kernel_lsp/thin.h"
"""Everything; what is precompiled."""

FROM_TORCH = ("torch/headeronly", "ATen/Dispatch.h", "ATen/Dispatch_v2.h")
"""Taken from the installed torch as they are: header-only by torch's own promise, or macros alone."""

OLDEST_TORCH = (2, 10)
"""The first release whose stable ABI has all that the layer calls (lists, strings, versioned operators)."""

_BEYOND = re.compile(
    r"torch::(?:autograd|nn|jit|optim|data|indexing|serialize)\b|at::(?:native|vec|cpublas|indexing)\b"
    r"|\brequires_grad\b(?!\(\s*false\s*\))|\bTORCH_LIBRARY_IMPL\s*\(\s*(?:aten|_)\s*,"
    r"|\bpy::(?:class_|array|object|dict|list|enum_|buffer)|\bPyInit_|#[ \t]*include[ \t]*[<\"](?:cuda|hip|nccl)"
)
"""What no thin layer will do; known from the text, so that not even the attempt is made."""


_DEFINITION = re.compile(r"\bdef\(\s*\"(\w+)\"")


def declines(torch: TorchInstall, text: str) -> str:
    """Why the layer is not even tried on `text`; empty where it is."""
    if torch.release < OLDEST_TORCH:
        return f"torch {torch.version} is older than the stable ABI that the thin layer needs"
    if beyond := _BEYOND.search(text):
        return f"uses {' '.join(beyond[0].split())}, which the thin layer lacks"
    names = _DEFINITION.findall(text)
    twice = next((name for name in names if names.count(name) > 1), None)
    return f"binds several functions as {twice}, which operators cannot" if twice else ""
