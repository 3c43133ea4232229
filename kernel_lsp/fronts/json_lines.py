"""Events as JSON, one document a line: the stable form that scripts read."""

from __future__ import annotations

import contextlib
import json
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TextIO

from kernel_lsp import wire
from kernel_lsp.doctor import ToolReport
from kernel_lsp.domain import Event, Finished, Interval, Judged, Timed, Verdict


@dataclass(slots=True, kw_only=True)
class JsonReport:
    """Prints every event as it comes; there is nothing left to say at the end."""

    out: TextIO
    verdict: Verdict | None = None
    finished: Finished | None = None

    def live(self) -> AbstractContextManager[None]:
        return contextlib.nullcontext()

    def take(self, event: Event) -> None:
        match event:
            case Judged(verdict=verdict):
                self.verdict = verdict
            case Finished():
                self.finished = event
        print(line(event), file=self.out, flush=True)

    def conclude_check(self) -> None:
        pass

    def conclude_baseline(self) -> None:
        pass

    def conclude_search(self) -> None:
        pass


def line(event: Event) -> str:
    """The event's own fields with its class name in `class`; its unit as path and digest, for the text is the file's.

    `Timed` also carries what follows from its samples: `median_us` per subject, `speedups` per baseline.
    """
    document = wire.to_plain(event)
    unit = document.get("unit")
    if unit is not None:
        document["unit"] = {"path": unit["path"], "digest": unit["digest"]}
    if isinstance(event, Timed):
        timing = event.timing
        document["median_us"] = {samples.subject: samples.median_us for samples in timing.samples}
        speedups = {s.subject: timing.speedup(s.subject) for s in timing.samples if s.subject != "kernel"}
        document["speedups"] = {subject: _interval(i) for subject, i in speedups.items() if i is not None}
    return _dump(document)


def tool_line(report: ToolReport) -> str:
    return _dump({**wire.to_plain(report), "blocks": report.blocks})


def _interval(interval: Interval) -> dict[str, float]:
    return {"low": interval.low, "mid": interval.mid, "high": interval.high}


def _dump(document: dict[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, allow_nan=False)
