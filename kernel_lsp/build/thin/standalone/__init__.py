"""What a thin artifact needs to run without torch, for simulators: torch's C ABI in one small library of our own.

`main.cpp`, linked with it, is `PROGRAM LIBRARY NAMESPACE::FUNCTION WORD…`: namespace and library are `Artifact.name`
and `.path`, and each parameter is one word: a number as C++ reads it, or a tensor as `file bytes dtype sizes`
(`0.bin 48 float32 3,4`; the file `-` means zeros). Exit status 0; 3 where it cannot be done, an operator that only
torch has included; 4 where the kernel raised. One thread, contiguous CPU tensors.
"""

from pathlib import Path

FOLDER = Path(__file__).parent

SOURCE = FOLDER / "torch.cpp"
"""Compiled with `FOLDER` and the thin headers on the include path, found under both of `LIBRARIES`' names."""

LIBRARIES = ("libtorch_cpu.so", "libc10.so")
"""The names that a thin artifact asks for; the whole is in the first."""
