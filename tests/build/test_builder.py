from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kernel_lsp.build.builder import Builder
from kernel_lsp.build.toolchain import Toolchain
from kernel_lsp.domain import ArtifactKind, Build, Language, Route, Severity
from kernel_lsp.settings import Settings

from .conftest import unit_of

pytestmark = pytest.mark.compiler

KERNEL = """\
// kernel
extern "C" void scale(const float* x, float* y, int n) {
  for (int i = 0; i < n; ++i)
    y[i] = 2.0f * x[i];
}
"""


@pytest.fixture
def private(toolchain: Toolchain, tmp_path: Path) -> Builder:
    return Builder(toolchain, Settings(flags=("-O3",)), tmp_path / "cache")


def call(build: Build) -> list[float]:
    assert build.artifact is not None, build
    numbers = ctypes.c_float * 3
    result = numbers()
    ctypes.CDLL(str(build.artifact.path)).scale(numbers(1, 2, 3), result, 3)
    return list(result)


async def test_a_plain_kernel_is_built_once(private: Builder, tmp_path: Path) -> None:
    unit = unit_of(tmp_path / "k.cpp", KERNEL)
    first, second = await private.build(unit), await private.build(unit)
    assert call(first) == [2, 4, 6]
    assert (first.route, first.cached, second.cached) == (Route.PLAIN, False, True)
    assert first.artifact == second.artifact
    assert first.artifact is not None
    assert first.artifact.kind is ArtifactKind.C_LIBRARY
    assert second.seconds == first.seconds
    assert second.unit_digest == unit.digest
    assert first.remarks == second.remarks
    assert {r.location.span.start.line: r.vectorized for r in first.remarks}.get(2) is True


async def test_comments_spacing_and_blank_lines_build_nothing_and_places_follow(
    private: Builder, tmp_path: Path
) -> None:
    path = tmp_path / "k.cpp"
    first = await private.build(unit_of(path, KERNEL))
    assert first.remarks
    recommented = KERNEL.replace("// kernel", "// another").replace("    y[i]", "\ty[i]  ")
    for moved, text in ((0, recommented), (3, "\n// a note\n\n" + KERNEL)):
        again = await private.build(unit_of(path, text))
        assert again.cached
        assert again.artifact == first.artifact
        places = [[remark.location.span.start.line for remark in build.remarks] for build in (first, again)]
        assert places[1] == [line + moved for line in places[0]]


async def test_an_error_below_a_comment_is_on_its_own_line(private: Builder, tmp_path: Path) -> None:
    text = "// one\n\n/* two\n three */\nint f() {\n  // four\n  return missing;\n}\n"
    built = await private.build(unit_of(tmp_path / "k.cpp", text))
    (message,) = [message for message in built.messages if message.severity is Severity.ERROR]
    assert message.location is not None
    start, end = message.location.span.start, message.location.span.end
    assert (start.line, start.column, end.column) == (6, 9, 16)


async def test_the_text_counts_and_not_the_file(private: Builder, tmp_path: Path) -> None:
    path = tmp_path / "k.cpp"
    path.write_text("this does not compile")
    assert call(await private.build(unit_of(path, KERNEL))) == [2, 4, 6]


async def test_flags_and_headers_count(private: Builder, toolchain: Toolchain, tmp_path: Path) -> None:
    (tmp_path / "factor.h").write_text("constexpr float factor = 2;\n")
    text = '#include "factor.h"\n' + KERNEL.replace("2.0f", "factor")
    unit = unit_of(tmp_path / "k.cpp", text)
    first = await private.build(unit)
    (tmp_path / "factor.h").write_text("constexpr float factor = 3;\n")
    assert call(await private.build(unit)) == [3, 6, 9]
    other = Builder(toolchain, Settings(flags=("-O1",)), tmp_path / "cache")
    third = await other.build(unit)
    assert not third.cached
    assert len({build.artifact for build in (first, third)}) == 2


async def test_messages_are_exact_and_kept(private: Builder, tmp_path: Path) -> None:
    text = KERNEL.replace("y[i] = 2.0f", "y[i] = wrong")
    unit = unit_of(tmp_path / "k.cpp", text)
    first, second = await private.build(unit), await private.build(unit)
    assert first.artifact is None
    assert second.cached
    assert first.messages == second.messages
    (message,) = (m for m in first.messages if m.severity is Severity.ERROR)
    assert message.location is not None
    span = message.location.span
    assert text.splitlines()[span.start.line][span.start.column : span.end.column] == "wrong"
    # With messages the columns matter: respaced text is compiled again.
    respaced = await private.build(unit_of(tmp_path / "k.cpp", text.replace("    y[i]", "      y[i]")))
    location = respaced.messages[0].location
    assert location is not None
    assert location.span.start.column == span.start.column + 2


async def test_a_missing_header_is_looked_for_again(private: Builder, tmp_path: Path) -> None:
    unit = unit_of(tmp_path / "k.cpp", '#include "late.h"\n' + KERNEL)
    assert (await private.build(unit)).artifact is None
    (tmp_path / "late.h").write_text("")
    assert (await private.build(unit)).artifact is not None


async def test_an_error_in_a_header_sits_on_the_include(private: Builder, tmp_path: Path) -> None:
    (tmp_path / "bad.h").write_text("inline int f() { return nothing; }\n")
    build = await private.build(unit_of(tmp_path / "k.cpp", '\n#include "bad.h"\n' + KERNEL))
    message = build.messages[0]
    assert message.location is not None
    assert (message.location.path.name, message.location.span.start.line) == ("k.cpp", 1)
    assert message.related[0][0].path.name == "bad.h"


async def test_an_undefined_symbol_is_demangled_and_explained(private: Builder, tmp_path: Path) -> None:
    text = "void launch(float*, int);\n" + KERNEL.replace("y[i] =", "launch(y, n), y[i] =")
    build = await private.build(unit_of(tmp_path / "k.cpp", text))
    assert build.artifact is None
    (message,) = build.messages
    assert "`launch(float*, int)`" in message.text
    assert "sources=" in message.text
    assert message.location is not None
    assert message.location.span.start.line in (1, 2, 4)


async def test_siblings_are_compiled_with_it(private: Builder, tmp_path: Path) -> None:
    sibling = tmp_path / "other.cpp"
    sibling.write_text("float factor() { return 5; }\n")
    unit = unit_of(tmp_path / "k.cpp", "float factor();\n" + KERNEL.replace("2.0f", "factor()"), siblings=(sibling,))
    assert call(await private.build(unit)) == [5, 10, 15]
    sibling.unlink()
    gone = await private.build(unit)
    assert gone.problem is not None
    assert gone.problem.code == "unreadable-source"


async def test_paths_with_spaces_quotes_and_letters_of_all_kinds(toolchain: Toolchain, tmp_path: Path) -> None:
    folder = tmp_path / 'a "quoted" földer, 核'
    folder.mkdir()
    (folder / "h.h").write_text("#define TWO 2.0f\n")
    builder = Builder(toolchain, Settings(), folder / "cache dir")
    text = '#include "h.h"\n/* é */ ' + KERNEL.replace("2.0f", "TWO")
    assert call(await builder.build(unit_of(folder / "kérnel.cpp", text))) == [2, 4, 6]
    broken = await builder.build(unit_of(folder / "kérnel.cpp", text.replace("y[i] =", "/* é */ nope =")))
    location = broken.messages[0].location
    assert location is not None
    assert location.path == folder / "kérnel.cpp"


async def test_a_cache_that_cannot_be_written_stops_nothing(toolchain: Toolchain, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    builder = Builder(toolchain, Settings(), tmp_path / "file")
    build = await builder.build(unit_of(tmp_path / "k.cpp", KERNEL))
    assert call(build) == [2, 4, 6]
    assert [problem.code for problem in builder.problems] == ["cache-not-writable"]
    # Another builder of this process finds it; the artifact outlives the first.
    del builder
    again = await Builder(toolchain, Settings(), tmp_path / "file").build(unit_of(tmp_path / "k.cpp", KERNEL))
    assert call(again) == [2, 4, 6]


async def test_several_builders_at_once_share_a_cache(toolchain: Toolchain, tmp_path: Path) -> None:
    unit = unit_of(tmp_path / "k.cpp", KERNEL)
    builders = [Builder(toolchain, Settings(), tmp_path / "cache") for _ in range(4)]
    builds = await asyncio.gather(*(builder.build(unit) for builder in builders))
    assert len({build.artifact for build in builds}) == 1
    assert call(builds[0]) == [2, 4, 6]
    assert not list((tmp_path / "cache" / "private").iterdir())


def fake_compiler(toolchain: Toolchain, path: Path, text: str) -> Toolchain:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return replace(toolchain, compiler=path)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def is_gone(pid: str) -> bool:
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True


async def test_cancelling_kills_the_compiler_and_leaves_nothing(toolchain: Toolchain, tmp_path: Path) -> None:
    started = tmp_path / "started"
    slow = fake_compiler(
        toolchain, tmp_path / "slow", f'echo $$ > "{started}.new"; mv "{started}.new" "{started}"; sleep 60 & wait'
    )
    task = asyncio.ensure_future(
        Builder(slow, Settings(), tmp_path / "cache").build(unit_of(tmp_path / "k.cpp", KERNEL))
    )
    await until(started.exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: is_gone(started.read_text().strip()))
    assert not list((tmp_path / "cache" / "private").iterdir())


async def test_a_compiler_killed_for_memory_is_said_so(toolchain: Toolchain, tmp_path: Path) -> None:
    text = 'echo "g++: fatal error: Killed signal terminated program cc1plus" >&2; exit 1'
    builder = Builder(fake_compiler(toolchain, tmp_path / "g", text), Settings(), tmp_path / "cache")
    for _ in range(2):
        build = await builder.build(unit_of(tmp_path / "k.cpp", KERNEL))
        assert build.problem is not None
        assert build.problem.code == "compiler-killed"
        assert "memory" in build.problem.message
        # Memory may be there the next time: not remembered.
        assert not build.cached


async def test_cuda_is_left_alone(private: Builder, tmp_path: Path) -> None:
    unit = replace(unit_of(tmp_path / "k.cpp", KERNEL), language=Language.CUDA)
    build = await private.build(unit)
    assert build.problem is not None
    assert build.problem.code == "no-cuda-build"
