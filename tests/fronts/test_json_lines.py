"""The form that scripts read."""

from __future__ import annotations

import json
from pathlib import Path

from kernel_lsp.domain import Finished, Judged, Noted, Progress, Timed
from kernel_lsp.fronts import json_lines
from tests.fronts import values


def test_a_unit_is_its_path_and_digest() -> None:
    document = json.loads(json_lines.line(Judged(unit=values.UNIT, verdict=values.MISMATCH)))
    assert document["class"] == "Judged"
    assert document["unit"] == {"path": str(values.PATH), "digest": values.UNIT.digest}
    assert document["verdict"]["class"] == "Mismatch"
    assert document["verdict"]["workload"]["seed"] == values.JITTERED.seed


def test_times_come_with_what_follows_from_them() -> None:
    document = json.loads(json_lines.line(Timed(unit=values.UNIT, timing=values.TIMING, roofline=values.ROOFLINE)))
    assert document["median_us"]["kernel"] == 20860.0
    assert set(document["speedups"]) == {"eager", "compiled"}
    eager = document["speedups"]["eager"]
    assert eager["low"] <= eager["mid"] <= eager["high"] < 0.1
    assert len(document["timing"]["samples"][0]["us"]) == 8


def test_every_document_is_one_line() -> None:
    events = (
        Progress(message="a\nb"),
        Noted(problem=values.NO_PERF),
        Finished(unit=values.UNIT, offer=values.OFFER, reason="done"),
    )
    for event in events:
        text = json_lines.line(event)
        assert "\n" not in text
        assert json.loads(text)["class"] == type(event).__name__


def test_the_documentation_names_every_event() -> None:
    from typing import get_args

    from kernel_lsp.domain import Event

    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    for event in get_args(Event):
        assert f"`{event.__name__}`" in page
