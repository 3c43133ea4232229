"""The table at the end of the demo, over a scripted engine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kernel_lsp.domain import Interval, Judged
from kernel_lsp.fronts import demo, running
from tests.fronts import values
from tests.fronts.fake import FakeEngine, checked, searched


def row(name: str, speedup: float | None, *, passed: bool = True) -> demo.Row:
    interval = None if speedup is None else Interval(low=speedup * 0.95, mid=speedup, high=speedup * 1.05)
    return demo.Row(
        name=name,
        verdict="✓ matches reference" if passed else "✗ crashed",
        passed=passed,
        initial_us=1000.0,
        best_us=1000.0 / (speedup or 1.0),
        speedup=interval,
        over_eager=None,
        over_compiled=None,
        skills=(),
        seconds=1.0,
    )


def test_an_example_without_gain_counts_as_one() -> None:
    assert demo.geometric_mean([row("a", 8.0), row("b", 2.0)]) == pytest.approx(4.0)
    assert demo.geometric_mean([row("a", 8.0), row("b", None), row("c", None)]) == pytest.approx(2.0)


def folder_of_examples(tmp_path: Path) -> Path:
    for name in ("beta", "alpha"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.cpp").write_text(values.TEXT, encoding="utf-8")
        (tmp_path / name / "bindings.cpp").write_text("", encoding="utf-8")
    (tmp_path / "empty").mkdir()
    return tmp_path


def test_the_whole_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    folder, result = folder_of_examples(tmp_path), tmp_path / "out" / "demo.json"
    engine = FakeEngine(checked(values.UNIT, values.PASSED), searched(values.UNIT))
    monkeypatch.setattr(running, "Engine", lambda *_, **__: engine)
    assert running.run(demo.demonstrate(folder, result)) == 0
    printed = capsys.readouterr().out
    assert "[1/2] alpha" in printed
    assert "12.20× faster than the initial kernels" in printed
    document = json.loads(result.read_text(encoding="utf-8"))
    assert [each["name"] for each in document["rows"]] == ["alpha", "beta"]
    assert document["rows"][0]["speedup"]["low"] == values.OFFER.speedup.low
    assert document["rows"][0]["initial_us"] == 20860.0
    assert document["device"] and document["date"] and document["command"]


def test_what_was_searched_before_is_only_measured_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_of_examples(tmp_path)
    engine = FakeEngine(checked(values.UNIT, values.PASSED), searched(values.UNIT))
    monkeypatch.setattr(running, "Engine", lambda *_, **__: engine)
    for engine.searched in (False, True):
        assert running.run(demo.demonstrate(folder, None)) == 0
    assert engine.seconds == [demo.SEARCH_S] * 2 + [demo.AGAIN_S] * 2


def test_a_kernel_that_fails_fails_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folder_of_examples(tmp_path)
    engine = FakeEngine([Judged(unit=values.UNIT, verdict=values.MISMATCH)], searched(values.UNIT))
    monkeypatch.setattr(running, "Engine", lambda *_, **__: engine)
    assert running.run(demo.demonstrate(folder, None)) == 1
    assert "0 of 2 kernels passed" in capsys.readouterr().out


def test_a_folder_without_kernels_is_said_to_be_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert running.run(demo.demonstrate(tmp_path, None)) == 2
    assert "no kernels" in capsys.readouterr().err


def test_a_slower_offer_cannot_hide_in_the_table() -> None:
    slow = replace(row("a", 0.5))
    assert demo.geometric_mean([slow]) == pytest.approx(0.5)
