"""What the engine tells again without measuring it again, and what it measures again."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
import pytest_asyncio

from kernel_lsp.domain import (
    Built,
    Diagnosed,
    Event,
    Finished,
    Judged,
    KernelUnit,
    Mismatch,
    Passed,
    Profiled,
    Progress,
    Unjudged,
)
from kernel_lsp.engine import Engine
from kernel_lsp.settings import OnSave, Settings

EXAMPLE = Path(__file__).parents[1] / "examples" / "cpu" / "matmul_ijk"

pytestmark = [pytest.mark.torch, pytest.mark.compiler, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    cache = tmp_path_factory.mktemp("cache")
    engine = Engine(replace(Settings(), cache_dir=str(cache), compiled_baseline=False))
    yield engine
    await engine.close()


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    for path in EXAMPLE.glob("*.[ch]*"):
        shutil.copy(path, tmp_path)
    reference = (EXAMPLE / "matmul_ijk.py").read_text(encoding="utf-8").replace("320", "64")
    (tmp_path / "matmul_ijk.py").write_text(reference, encoding="utf-8")
    return tmp_path / "matmul_ijk.cpp"


async def checked(engine: Engine, unit: KernelUnit, *, anew: bool = False) -> list[Event]:
    return [event async for event in engine.check(unit, OnSave.PROFILE, anew=anew)]


def ran(events: list[Event]) -> bool:
    return any(isinstance(event, Progress) and "judging" in event.message for event in events)


def lines(events: list[Event]) -> list[tuple[str, int]]:
    last = [event for event in events if isinstance(event, Diagnosed)][-1]
    return [(finding.code, finding.span.start.line) for finding in last.findings]


async def test_the_same_code_is_not_measured_again_and_its_lines_follow(engine: Engine, kernel: Path) -> None:
    text = kernel.read_text(encoding="utf-8")
    first = await checked(engine, engine.unit(kernel))
    assert ran(first)
    assert lines(first)
    for above in ("", "// one\n\n", "\n", "/* one\n   two\n   three */\n"):
        again = await checked(engine, engine.unit(kernel, above + text))
        assert not ran(again)
        assert any(isinstance(event, Built) and event.build.cached for event in again)
        assert any(isinstance(event, Judged) and isinstance(event.verdict, Passed) for event in again)
        assert any(isinstance(event, Profiled) for event in again)
        assert lines(again) == [(code, line + above.count("\n")) for code, line in lines(first)]
    assert ran(await checked(engine, engine.unit(kernel), anew=True))


async def test_another_reference_is_another_question(engine: Engine, kernel: Path) -> None:
    reference = kernel.with_suffix(".py")
    await checked(engine, engine.unit(kernel))
    reference.write_text(reference.read_text(encoding="utf-8") + "\n# a note\n", encoding="utf-8")
    assert ran(await checked(engine, engine.unit(kernel)))
    (kernel.parent / "helpers.py").write_text("SCALE = 1\n", encoding="utf-8")
    assert ran(await checked(engine, engine.unit(kernel)))


async def test_a_wrong_kernel_is_still_wrong_when_saved_again(engine: Engine, kernel: Path) -> None:
    wrong = kernel.read_text(encoding="utf-8").replace("k < inner", "k < inner - 1")
    for again in (False, True):
        events = await checked(engine, engine.unit(kernel, wrong))
        assert ran(events) is not again
        (judged,) = [event for event in events if isinstance(event, Judged)]
        assert isinstance(judged.verdict, Mismatch)


async def test_a_torch_installed_over_the_one_in_use_gets_a_new_worker(
    engine: Engine, kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await checked(engine, engine.unit(kernel))
    worker = await engine._bench.worker()
    await checked(engine, engine.unit(kernel))
    assert await engine._bench.worker() is worker
    monkeypatch.setattr("kernel_lsp.workbench._changed_at", lambda path: 1.0)
    events = await checked(engine, engine.unit(kernel))
    assert ran(events)
    assert await engine._bench.worker() is not worker


@pytest.mark.parametrize("step", ["build", "evaluate", "profile", "memory"])
async def test_a_full_disk_is_a_message_wherever_it_shows(
    engine: Engine, kernel: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/some/file")

    monkeypatch.setattr(engine._bench, step, full)
    unit = engine.unit(kernel)
    if step == "memory":
        finished = [event async for event in engine.optimize(unit) if isinstance(event, Finished)]
        assert "No space left on device (/some/file)" in finished[-1].reason
        return
    judged = [event for event in await checked(engine, unit, anew=True) if isinstance(event, Judged)][-1]
    assert isinstance(judged.verdict, Unjudged)
    assert "No space left on device (/some/file)" in judged.verdict.problem.message
