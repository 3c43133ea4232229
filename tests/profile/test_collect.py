from __future__ import annotations

import asyncio
import contextlib
import tempfile
from pathlib import Path
from typing import Any

import pytest

from kernel_lsp import process
from kernel_lsp.domain import LineCache, Problem, Profile
from kernel_lsp.profile import cachegrind, perf
from kernel_lsp.profile.collect import collect
from kernel_lsp.settings import Settings
from tests.profile.kernels import COLUMN_SUMS, ROW_SUMS, built, extern_c_unit
from tests.profile.standin import StandIn

pytestmark = pytest.mark.tools

SIDE = 1000
"""A column of a thousand lines of cache does not fit the first level, a row does."""

INNER = 8
"""Zero-based line of the statement in the inner loop; its header is the line above."""


@pytest.fixture(scope="module", autouse=True)
def tools() -> None:
    async def missing() -> list[str]:
        found = (await perf.probe(), await cachegrind.version())
        return [problem.message for problem in found if isinstance(problem, Problem)]

    if messages := asyncio.run(missing()):
        pytest.skip("; ".join(messages))


async def profile(tmp_path: Path, text: str, *, threads: int = 1, cache: bool = True) -> Profile:
    settings = Settings(cache_dir=str(tmp_path / "cache"))
    unit = extern_c_unit(tmp_path / "source files" / "kernel é.cpp", text)
    build, subject, toolchain = await built(unit, settings)
    worker = StandIn(SIDE * SIDE, SIDE, SIDE, SIDE, threads=threads)
    return await collect(unit, build, subject, worker, toolchain, settings, seconds=0.3, cache=cache)  # type: ignore[arg-type]


def misses_per_read(lines: tuple[LineCache, ...]) -> float:
    return sum(line.d1_misses for line in lines) / sum(line.reads for line in lines)


async def test_the_inner_loop_leads_the_samples(tmp_path: Path) -> None:
    found = await profile(tmp_path, COLUMN_SUMS, cache=False)
    assert found.problems == ()
    assert found.samples > 20
    assert found.lines[0].location.path.name == "kernel é.cpp"
    assert found.lines[0].location.span.start.line in (INNER - 1, INNER)
    inner = sum(line.share for line in found.lines if line.location.span.start.line in (INNER - 1, INNER))
    assert inner > 0.5
    assert found.busy_threads is not None
    assert 0 < found.busy_threads < 1.5
    assert found.tool.startswith("perf ")
    assert found.cache == ()


async def test_a_column_misses_more_than_a_row(tmp_path: Path) -> None:
    columns = await profile(tmp_path / "columns", COLUMN_SUMS)
    rows = await profile(tmp_path / "rows", ROW_SUMS)
    assert columns.problems == rows.problems == ()
    assert "cachegrind" in columns.tool
    assert misses_per_read(columns.cache) > 0.9
    # Eight floats a load, two loads a line of cache.
    assert misses_per_read(rows.cache) < 0.6
    assert sum(line.d1_misses for line in columns.cache) > 10 * sum(line.d1_misses for line in rows.cache)


async def test_cachegrind_counts_the_same_every_time(tmp_path: Path) -> None:
    first, second = [await profile(tmp_path / name, COLUMN_SUMS) for name in ("one", "two")]
    counts = [{(c.location.span, c.instructions, c.reads, c.writes) for c in found.cache} for found in (first, second)]
    assert counts[0] == counts[1] != set()


async def test_counts_are_kept_until_the_kernel_or_its_reference_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = 0
    run = cachegrind._run

    async def counted(*arguments: Any) -> Any:
        nonlocal runs
        runs += 1
        return await run(*arguments)

    monkeypatch.setattr(cachegrind, "_run", counted)
    first, second = [await profile(tmp_path, COLUMN_SUMS) for _ in range(2)]
    assert first.cache == second.cache != ()
    assert runs == 1
    await profile(tmp_path, ROW_SUMS)
    assert runs == 2


async def test_without_perf_the_rest_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    which = process.which
    monkeypatch.setattr(process, "which", lambda name: None if name == "perf" else which(name))
    found = await profile(tmp_path, COLUMN_SUMS)
    assert [problem.code for problem in found.problems] == ["no-perf"]
    assert found.lines == ()
    assert found.samples == 0
    assert found.busy_threads is not None
    assert found.cache != ()


async def test_without_valgrind_the_rest_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    which = process.which
    monkeypatch.setattr(process, "which", lambda name: None if name == "valgrind" else which(name))
    found = await profile(tmp_path, COLUMN_SUMS)
    assert [problem.code for problem in found.problems] == ["no-valgrind"]
    assert found.lines != ()
    assert found.cache == ()


async def test_cancelling_removes_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    settings = Settings(cache_dir=str(tmp_path / "cache"))
    unit = extern_c_unit(tmp_path / "k.cpp", COLUMN_SUMS)
    build, subject, toolchain = await built(unit, settings)
    worker = StandIn(SIDE * SIDE, SIDE, SIDE, SIDE)
    task = asyncio.ensure_future(collect(unit, build, subject, worker, toolchain, settings, seconds=30))  # type: ignore[arg-type]
    for _ in range(200):
        await asyncio.sleep(0.05)
        if list(scratch.glob("*/samples.data")):
            break
    assert list(scratch.glob("*/samples.data"))
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert task.cancelled()
    assert list(scratch.iterdir()) == []
    assert (await process.run(["ps", "-p", str(worker.pid)])).code == 1
    assert (await process.run(["pgrep", "-f", str(scratch)])).stdout == ""
