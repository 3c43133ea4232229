"""The compiler's command lines, route by route: what the user's own build would run, plus what tells us more."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kernel_lsp.build import log
from kernel_lsp.build.content import Source
from kernel_lsp.build.toolchain import Toolchain, TorchInstall
from kernel_lsp.domain import Route

EXTENSION_NAME = "kernel_lsp_extension"
"""`TORCH_EXTENSION_NAME` of every build; each artifact is loaded by a process of its own."""

DEBUG_FLAGS = ("-g1",)
"""Line tables and inlining, which profiles are read by; the code is the same with and without."""

PLAIN_STANDARD = "c++20"


def language_flags(toolchain: Toolchain, route: Route) -> tuple[str, ...]:
    """What `torch.utils.cpp_extension` passes for this torch, or the bare standard without torch."""
    if route is Route.PLAIN or toolchain.torch is None:
        return (f"-std={PLAIN_STANDARD}", "-fPIC")
    return (
        f"-std={toolchain.torch.standard}",
        "-fPIC",
        f"-DTORCH_EXTENSION_NAME={EXTENSION_NAME}",
        "-DTORCH_API_INCLUDE_EXTENSION_H",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(toolchain.torch.cxx11_abi)}",
    )


def whole_includes(toolchain: Toolchain, torch: TorchInstall) -> tuple[str, ...]:
    dirs = [*torch.include_dirs, *([toolchain.python_include] if toolchain.python_include else [])]
    return tuple(part for folder in dirs for part in ("-isystem", str(folder)))


def whole_libraries(torch: TorchInstall) -> tuple[str, ...]:
    """Torch's libraries; undefined symbols are warnings, for Python's own come from the interpreter."""
    names = ("c10", "torch_cpu", "torch", "torch_python")
    return (f"-L{torch.lib_dir}", *(f"-l{name}" for name in names), "-Wl,-z,defs", "-Wl,--warn-unresolved-symbols")


def compile_command(
    toolchain: Toolchain, *, source: Source, copy: Path, output: Path, notes: Path, flags: Sequence[str]
) -> list[str]:
    """Compile the `copy` of `source` to `output`, and the vectoriser's remarks to `notes`.

    Everything the compiler writes, messages and debug information, names `source.path`.
    """
    real = source.path.parent
    if toolchain.is_clang:
        extra = ["-fno-caret-diagnostics", "-ferror-limit=50"]
    else:
        extra = [*log.GCC_TEXT_FLAGS, "-fmax-errors=50", f"-fopt-info-vec-optimized-missed={notes}"]
    return [
        str(toolchain.compiler),
        *flags,
        *DEBUG_FLAGS,
        *log.TEXT_FLAGS,
        *extra,
        f"-ffile-prefix-map={copy.parent}={real}",
        "-iquote",
        str(real),
        "-x",
        "c++",
        "-c",
        str(copy),
        "-o",
        str(output),
    ]


def copy_text(source: Source) -> str:
    """What is written for the compiler to read: the text under its real name."""
    name = str(source.path).replace("\\", "\\\\").replace('"', '\\"')
    return f'#line 1 "{name}"\n{source.text.removeprefix(chr(0xFEFF))}'


def link_command(
    toolchain: Toolchain, *, objects: Sequence[Path], output: Path, flags: Sequence[str], libraries: Sequence[str]
) -> list[str]:
    linker = [f"-fuse-ld={toolchain.linker}"] if toolchain.linker else []
    return [
        str(toolchain.compiler),
        "-shared",
        *(str(path) for path in objects),
        "-o",
        str(output),
        *flags,
        *linker,
        *libraries,
    ]


def include_dirs(flags: Sequence[str], base: Path) -> tuple[Path, ...]:
    """The folders that `flags` add to the include path, relative ones taken from `base`."""
    found: list[Path] = []
    pending = False
    for flag in flags:
        if pending:
            found.append(base / flag)
            pending = False
        elif flag in ("-I", "-iquote", "-isystem", "-idirafter"):
            pending = True
        elif flag.startswith("-I"):
            found.append(base / flag[2:])
    return tuple(found)
