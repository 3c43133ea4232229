"""The program that calls a kernel once without Python, which cachegrind would need a minute to start."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kernel_lsp import process
from kernel_lsp.build import content
from kernel_lsp.build.builder import Builder
from kernel_lsp.build.cache import Cache
from kernel_lsp.build.thin import INCLUDE_DIR, standalone
from kernel_lsp.build.toolchain import Toolchain
from kernel_lsp.domain import Artifact, ArtifactKind, Build, Function, KernelUnit, Parameter, Problem, Route, TypeKind
from kernel_lsp.messages import CapturedArgument, Subject
from kernel_lsp.settings import Settings

COMPILE_TIMEOUT_S = 60.0

HEADER = Path(__file__).with_name("harness.h")
OPERATOR_SOURCE = standalone.FOLDER / "main.cpp"

_PROGRAM = "harness"
_SOURCE = "harness.cpp"

PORTABLE_ARCHITECTURE = "x86-64-v3"
"""The most that valgrind 3.19 knows: AVX2 and FMA, no AVX-512."""

ITEM_BYTES = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
}

_ARCHITECTURE = re.compile(r"-m(?:arch|cpu|tune)=|-mavx(?:512|10)|-mprefer-vector-width=")

_INTEGERS = re.compile(
    r"(?:std\s*::\s*)?(?:u?int(?:8|16|32|64|ptr|max)_t|s?size_t|ptrdiff_t)"
    r"|(?:(?:unsigned|signed|char|short|int|long)\s*)+"
)
"""Integer types that mean the same in the harness as in the user's file; others are passed in 64 bits, which the
calling conventions in use (x86-64, Arm) narrow by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Harness:
    """A compiled program, as the cache keeps it."""

    operators: bool
    """It calls a torch operator by its name, not a C function."""


async def valgrind_artifact(
    unit: KernelUnit, build: Build, toolchain: Toolchain, settings: Settings
) -> Artifact | Problem:
    """The kernel's library in instructions that valgrind knows: the very one that was judged, where it can be."""
    if build.route is Route.WHOLE or build.artifact is None:
        return needs_thin(build.route_reason)
    flags = portable_flags(settings.flags, processor_flags())
    if flags == settings.flags:
        return build.artifact
    portable = replace(settings, flags=flags)
    again = await Builder(toolchain, portable, settings.cache_folder / "builds").build(unit)
    if again.artifact is None or again.route is Route.WHOLE:
        return again.problem or needs_thin(again.route_reason)
    return again.artifact


def portable_flags(flags: tuple[str, ...], processor: frozenset[str]) -> tuple[str, ...]:
    """`flags` without what valgrind cannot run; unchanged on a processor that has nothing of the kind."""
    if not any(flag.startswith("avx512") for flag in processor):
        return flags
    return (*(flag for flag in flags if not _ARCHITECTURE.match(flag)), f"-march={PORTABLE_ARCHITECTURE}")


def processor_flags() -> frozenset[str]:
    """The instruction sets of this processor, in the kernel's words; empty where it does not say."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    return frozenset(found[1].split()) if found else frozenset()


async def prepare(
    subject: Subject, artifact: Artifact, toolchain: Toolchain, settings: Settings
) -> tuple[Harness, Path] | Problem:
    """The program that calls the subject's entry, in a folder of the cache: compiled once for equal signatures."""
    operators = artifact.kind is ArtifactKind.TORCH_LIBRARY
    text = OPERATOR_SOURCE.read_text(encoding="utf-8") if operators else c_source(subject.entry)
    if isinstance(text, Problem):
        return text
    digest = content.sha256(
        "harness",
        text,
        HEADER.read_text(encoding="utf-8"),
        content.tree_digest(standalone.FOLDER),
        content.tree_digest(INCLUDE_DIR),
        str(toolchain.compiler),
        toolchain.compiler_version,
    )
    cache = Cache(settings.cache_folder / "harness", settings.cache_gb)
    if (known := cache.recall(digest, Harness)) is not None:
        return known.value, known.folder
    made = Harness(operators=operators)
    with cache.private() as folder:
        (folder / _SOURCE).write_text(text, encoding="utf-8")
        for command in _commands(toolchain, folder):
            built = await process.run([toolchain.compiler, *command], timeout_s=COMPILE_TIMEOUT_S)
            if not built.ok:
                return _failed(f"does not compile: {_first_error(built.stderr)}")
        (folder / standalone.LIBRARIES[1]).symlink_to(standalone.LIBRARIES[0])
        return made, cache.publish(folder, digest, made)


def _commands(toolchain: Toolchain, folder: Path) -> Iterable[Sequence[str | Path]]:
    """Compile torch's stand-in, which a kernel over raw pointers leaves unused, then the program."""
    library, *_ = standalone.LIBRARIES
    common: list[str | Path] = ["-O1", "-std=c++17", "-I", standalone.FOLDER, "-I", INCLUDE_DIR, "-I", HEADER.parent]
    yield [*common, "-fPIC", "-shared", standalone.SOURCE, "-o", folder / library, f"-Wl,-soname,{library}"]
    yield [*common, folder / _SOURCE, "-o", folder / _PROGRAM, "-L", folder, f"-l:{library}", "-ldl"]


def command(harness: Harness, folder: Path, subject: Subject, artifact: Artifact) -> list[str | Path]:
    """What runs the program in `folder`, up to the kernel's arguments."""
    name = subject.entry_name if "::" in subject.entry_name else f"{artifact.name}::{subject.entry_name}"
    return [folder / _PROGRAM, artifact.path, *([name] if harness.operators else [])]


def c_source(entry: Function) -> str | Problem:
    """A `main` that passes its arguments on to an `extern "C"` function, whose types it knows by their machine form."""
    types: list[str] = []
    values: list[str] = []
    for position, parameter in enumerate(entry.parameters):
        text = f"argv[{position + 2}]"
        match parameter.kind:
            case TypeKind.POINTER:
                kind, value = "void*", f"harness::tensor({text}).data"
            case TypeKind.INTEGER:
                kind = _integer(parameter.type)
                value = f"static_cast<{kind}>(harness::integer({text}))"
            case TypeKind.FLOAT:
                kind = "double" if "double" in parameter.type else "float"
                value = f"static_cast<{kind}>(harness::real({text}))"
            case TypeKind.BOOL:
                kind, value = "bool", f"harness::boolean({text})"
            case _:
                return _cannot_pass(parameter)
        types.append(kind)
        values.append(value)
    return f"""#include <harness.h>

#include <cstddef>
#include <cstdint>
#include <sys/types.h>

int main(int, char** argv) {{
  using Entry = void (*)({", ".join(types)});
  const auto entry = reinterpret_cast<Entry>(harness::find(harness::load(argv[1]), "{entry.name}"));
  entry({", ".join(values)});
}}
"""


def _integer(written: str) -> str:
    name = re.sub(r"\bconst\b|&", "", written).strip()
    return name if _INTEGERS.fullmatch(name) else "long long"


def command_line(entry: Function, captured: Sequence[CapturedArgument]) -> tuple[str, ...] | Problem:
    """The captured arguments as the program takes them, in the order of the entry's parameters."""
    if len(captured) != len(entry.parameters):
        return _failed(f"got {len(captured)} arguments for {len(entry.parameters)} parameters")
    words = [_word(argument) for argument in captured]
    missing = next((a.parameter for a, word in zip(captured, words, strict=True) if word is None), None)
    if missing is not None:
        return _failed(f"has no value for the parameter `{missing}`")
    return tuple(word for word in words if word is not None)


def _word(argument: CapturedArgument) -> str | None:
    tensor = argument.tensor
    if tensor is None:
        return argument.number
    if tensor.dtype not in ITEM_BYTES:
        return None
    size = ITEM_BYTES[tensor.dtype] * math.prod(tensor.shape)
    return f"{argument.file or '-'} {size} {tensor.dtype} {','.join(map(str, tensor.shape))}".rstrip()


def needs_thin(reason: str) -> Problem:
    """For a kernel that cannot run without the whole of torch."""
    why = f" ({reason})" if reason else ""
    return Problem(
        code="cachegrind-needs-thin",
        message=f"cache misses cannot be counted for a kernel that needs all of torch{why}",
        hint="move the loops into a function over raw pointers in a file of their own to have them counted",
    )


def _cannot_pass(parameter: Parameter) -> Problem:
    return _failed(f"cannot be given the parameter `{parameter.name}` of type `{parameter.type}`")


def _failed(why: str) -> Problem:
    return Problem(
        code="cachegrind-failed",
        message=f"cache misses were not counted: the program that calls the kernel {why}",
        hint="nothing else depends on it; samples and timings hold",
    )


def _first_error(output: str) -> str:
    lines: Iterable[str] = (line for line in output.splitlines() if "error" in line)
    return next(iter(lines), output.strip()[:200] or "no message")
