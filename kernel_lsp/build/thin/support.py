"""What the thin layer needs on disk for one (torch, compiler, flags): a precompiled header, objects and libraries."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from kernel_lsp import process
from kernel_lsp.build import commands, content
from kernel_lsp.build.cache import Cache
from kernel_lsp.build.thin import FROM_TORCH, INCLUDE_DIR, UMBRELLA
from kernel_lsp.build.toolchain import Toolchain, TorchInstall
from kernel_lsp.domain import Problem, Route

_RUNTIME = Path(__file__).parent / "runtime"
"""The part of the layer that is compiled once and linked into every artifact."""

_STUBS = Path(__file__).parent / "stubs"
"""One file of empty functions per library of torch's that the layer calls into."""

_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    includes: tuple[str, ...]
    """Compiler arguments that put the thin headers first."""
    libraries: tuple[str, ...]
    """Linker arguments: libraries that have the names of torch's and define what the layer calls, and nothing else.

    They give the artifact its dependency on torch's libraries, which the worker has loaded, and let the linker
    report every symbol that nobody defines, without reading the hundreds of megabytes of the real ones.
    """
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What the cache keeps beside the files."""

    torch: str


async def prepare(toolchain: Toolchain, torch: TorchInstall, flags: tuple[str, ...], cache: Cache) -> Support | Problem:
    """Find it in the cache, or make it: about two seconds, once."""
    language = commands.language_flags(toolchain, Route.THIN)
    digest = content.sha256(
        "thin support",
        content.tree_digest(INCLUDE_DIR),
        content.tree_digest(_RUNTIME),
        content.tree_digest(_STUBS),
        torch.version,
        str(torch.root),
        str(toolchain.compiler),
        toolchain.compiler_version,
        content.processor(),
        *flags,
        *language,
    )
    known = cache.recall(digest, Prepared)
    if known is not None:
        entry = known.folder
    else:
        with cache.private() as folder:
            problem = await _make(folder, toolchain, torch, [*flags, *language])
            if problem is not None:
                return problem
            entry = cache.publish(folder, digest, Prepared(torch=torch.version))
    return Support(includes=_includes(entry), libraries=_libraries(entry), digest=digest)


def _includes(entry: Path) -> tuple[str, ...]:
    return ("-include", str(entry / "thin.h"), "-isystem", str(INCLUDE_DIR), "-isystem", str(entry / "include"))


def _libraries(entry: Path) -> tuple[str, ...]:
    objects = sorted(str(path) for path in (entry / "lib").glob("*.o"))
    libraries = sorted(str(path) for path in (entry / "lib").glob("*.so"))
    # Symbolic: two artifacts in one process must each call their own copy of the layer.
    return (*objects, "-Wl,-Bsymbolic", "-Wl,--no-as-needed", *libraries, "-Wl,--as-needed")


async def _make(folder: Path, toolchain: Toolchain, torch: TorchInstall, flags: list[str]) -> Problem | None:
    for name in FROM_TORCH:
        link = folder / "include" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(torch.root / "include" / name)
    (folder / "thin.h").write_text(f"#include <{UMBRELLA}>\n", encoding="utf-8")
    # The header's own place is beside it: it must not be found precompiled while it is being precompiled.
    includes = _includes(folder)[2:]
    header = [*flags, *commands.DEBUG_FLAGS, *includes, "-x", "c++-header", folder / "thin.h"]
    done = await _compiler(toolchain, *header, "-o", folder / "thin.h.gch")
    if not done.ok:
        return _failed(torch, done.stderr)
    (folder / "lib").mkdir()
    jobs = [
        # Glue: optimising it would cost more than it can ever save.
        _compiler(toolchain, *flags, "-O1", *_includes(folder), "-c", path, "-o", folder / "lib" / f"{path.stem}.o")
        for path in sorted(_RUNTIME.glob("*.cpp"))
    ]
    jobs += [
        _compiler(toolchain, "-x", "c", "-shared", "-fPIC", f"-Wl,-soname,{path.stem}.so", path, "-o", library)
        for path in sorted(_STUBS.glob("*.c"))
        for library in [folder / "lib" / f"{path.stem}.so"]
    ]
    failed = [done for done in await asyncio.gather(*jobs) if not done.ok]
    return _failed(torch, failed[0].stderr) if failed else None


async def _compiler(toolchain: Toolchain, *arguments: object) -> process.Completed:
    return await process.run([toolchain.compiler, *map(str, arguments)], timeout_s=_TIMEOUT_S)


def _failed(torch: TorchInstall, output: str) -> Problem:
    return Problem(
        code="thin-layer",
        message=f"the thin layer does not compile with torch {torch.version}: {_first_error(output)}",
        hint="please report this; files are built over torch's own headers meanwhile",
    )


def _first_error(output: str) -> str:
    return next((line for line in output.splitlines() if "error" in line), output.strip()[-200:])
