"""The main job on a folder of examples: judge, time, explain, rewrite, judge again; a table at the end.

    python -m kernel_lsp.fronts.demo examples/cpu [--json FILE] [--confirm]

The first run takes minutes, nearly all of them in `torch.compile` and in the candidates' timings; attempts are
remembered, so that the second one only judges and times again what the first one found.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kernel_lsp import process
from kernel_lsp.domain import (
    Diagnosed,
    Event,
    Finding,
    Finished,
    Interval,
    Judged,
    KernelUnit,
    Offer,
    Outcome,
    Passed,
    Profiled,
    Progress,
    Roofline,
    Timed,
    Timing,
    Tried,
    Verdict,
)
from kernel_lsp.engine import Engine
from kernel_lsp.fronts import running, words
from kernel_lsp.fronts.excerpt import printable
from kernel_lsp.fronts.terminal import console
from kernel_lsp.profile.ceilings import device_name
from kernel_lsp.settings import OnSave, load

SEARCH_S = 15.0
"""For each example's search; more would find little more here and keep people waiting."""

AGAIN_S = 0.0
"""For an example that was searched before: its best is judged and timed anew, and nothing else is tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One example of the table."""

    name: str
    verdict: str
    """Of the kernel as it is in the end, in words."""
    passed: bool
    initial_us: float | None
    """Median; both times are from one run, as is the speedup."""
    best_us: float | None
    speedup: Interval | None
    """Over the initial kernel; None where nothing faster was found."""
    over_eager: Interval | None
    over_compiled: Interval | None
    skills: tuple[str, ...]
    seconds: float
    """Wall time that the example took."""

    @property
    def gain(self) -> float:
        """What goes into the geometric mean: 1 where nothing faster was found."""
        return 1.0 if self.speedup is None else self.speedup.mid


async def demonstrate(folder: Path, json_file: Path | None, *, confirm: bool = False) -> int:
    """Run the demo; 0 where every kernel passed, 1 where one did not, 2 where there is none."""
    out = console()
    kernels = examples(folder)
    if not kernels:
        print(f"no kernels in {folder}: each stands in a folder of its own, under the folder's name", file=sys.stderr)
        return 2
    begun = time.monotonic()
    workspace = running.workspace_of(kernels[0])
    settings, problems = load(workspace)
    for problem in problems:
        out.print(words.problem_text(problem))
    rows: list[Row] = []
    async with running.engine_for(settings, workspace) as engine:
        for number, path in enumerate(kernels, start=1):
            out.print(Text(f"[{number}/{len(kernels)}] {path.stem}", style="bold"))
            rows.append(await _Example(out=out, engine=engine, path=path, confirm=confirm).run())
            out.print()
    out.print(table(rows))
    out.print(summary(rows, time.monotonic() - begun))
    if not confirm:
        out.print("Measured as the quick builds make them; --confirm adds the builds with torch's own headers.")
    if json_file is not None:
        write(json_file, rows, await _commit())
    return 0 if all(row.passed for row in rows) else 1


def examples(folder: Path) -> list[Path]:
    """`name/name.cpp` for every such file in `folder`, by name."""
    return sorted(path.absolute() for path in folder.glob("*/*.cpp") if path.stem == path.parent.name)


@dataclass(slots=True, kw_only=True)
class _Example:
    """One kernel's way through the demo, told as it goes."""

    out: Console
    engine: Engine
    path: Path
    confirm: bool
    verdict: Verdict | None = None
    timing: Timing | None = None
    roofline: Roofline | None = None
    findings: tuple[Finding, ...] = ()
    finished: Finished | None = None

    async def run(self) -> Row:
        begun = time.monotonic()
        unit = self.engine.unit(self.path)
        await self._check(unit)
        if isinstance(self.verdict, Passed):
            seconds = AGAIN_S if await self.engine.was_searched(unit) else SEARCH_S
            await running.follow(self.engine.optimize(unit, seconds=seconds, confirm=self.confirm), self._searched)
            if self.finished is not None:
                self._tell(words.finished_sentence(self.finished), "green" if self._offer else "")
            if (offer := self._offer) is not None:
                self.verdict, self.timing, self.roofline = offer.verdict, offer.timing, offer.roofline
            else:
                self._tell("timing torch.compile", "dim")
                await running.follow(self.engine.check(unit, OnSave.VERIFY), self._known)
            self._tell(words.lens(self.verdict, self.timing, self.roofline))
        return self._row(time.monotonic() - begun)

    async def _check(self, unit: KernelUnit) -> None:
        """As on a save, but for `torch.compile`, which is timed once, beside the result."""
        profiled = False
        events = self.engine.check(unit, OnSave.PROFILE)
        async with running.closing(events) as stream:
            async for event in stream:
                self._known(event)
                if isinstance(event, Progress):
                    self._tell(event.message, "dim")
                profiled = profiled or isinstance(event, Profiled)
                if profiled and isinstance(event, Diagnosed):
                    break
        self._tell(words.lens(self.verdict, self.timing, self.roofline))
        for finding in self.findings:
            place = words.place_text(self.path.name, finding.span.start)
            self._tell(f"{place}: {finding.code} {words.finding_text(finding)}")

    def _known(self, event: Event) -> None:
        match event:
            case Judged(verdict=verdict):
                self.verdict = verdict
            case Timed(timing=timing, roofline=roofline):
                self.timing, self.roofline = timing, roofline or self.roofline
            case Diagnosed(findings=findings):
                self.findings = findings

    def _searched(self, event: Event) -> None:
        match event:
            case Finished():
                self.finished = event
            case Progress(message=message):
                self._tell(message, "dim")
            case Tried(attempt=attempt):
                self._tell(words.attempt_line(attempt), "green" if attempt.outcome is Outcome.FASTER else "dim")

    def _tell(self, text: str, style: str = "") -> None:
        self.out.print(Text(f"  {printable(text)}", style=style))

    @property
    def _offer(self) -> Offer | None:
        return None if self.finished is None else self.finished.offer

    def _row(self, seconds: float) -> Row:
        offer = self._offer
        timing = self.timing if isinstance(self.verdict, Passed) else None
        before = None if timing is None else timing.of("kernel" if offer is None else "parent")
        after = None if timing is None else timing.of("kernel")
        return Row(
            name=self.path.stem,
            verdict=words.lens(self.verdict),
            passed=isinstance(self.verdict, Passed),
            initial_us=None if before is None else before.median_us,
            best_us=None if after is None else after.median_us,
            speedup=None if offer is None else offer.speedup,
            over_eager=None if timing is None else timing.speedup("eager"),
            over_compiled=None if timing is None else timing.speedup("compiled"),
            skills=() if offer is None else offer.skills,
            seconds=seconds,
        )


def table(rows: Sequence[Row]) -> Table:
    result = Table(box=None, pad_edge=False, header_style="bold")
    result.add_column("example", no_wrap=True)
    result.add_column("verdict", no_wrap=True)
    for head in ("initial", "best", "× initial", "× torch", "× torch.compile"):
        result.add_column(head, justify="right", no_wrap=True)
    result.add_column("skills")
    for row in rows:
        result.add_row(
            row.name,
            Text("✓" if row.passed else row.verdict, style="green" if row.passed else "red"),
            *("" if us is None else words.duration(us) for us in (row.initial_us, row.best_us)),
            "" if row.speedup is None else words.factor(row.speedup, with_interval=True),
            *("" if each is None else words.factor(each) for each in (row.over_eager, row.over_compiled)),
            ", ".join(row.skills),
        )
    return result


def geometric_mean(rows: Sequence[Row]) -> float:
    """Of the gains over the initial kernels; 1 for an example without one."""
    return math.exp(sum(math.log(row.gain) for row in rows) / len(rows))


def summary(rows: Sequence[Row], seconds: float) -> str:
    passed = sum(row.passed for row in rows)
    return (
        f"{passed} of {words.count(len(rows), 'kernel')} passed; {geometric_mean(rows):.2f}× faster than the initial "
        f"kernels in geometric mean. {words.seconds(seconds)} in all."
    )


def write(path: Path, rows: Sequence[Row], commit: str) -> None:
    """The table with command, commit, device and date."""
    document = {
        "command": " ".join(["python -m kernel_lsp.fronts.demo", *sys.argv[1:]]),
        "commit": commit,
        "device": f"{device_name()}, {len(os.sched_getaffinity(0))} cores",
        "python": platform.python_version(),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "geometric_mean": geometric_mean(rows),
        "rows": [asdict(row) for row in rows],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


async def _commit() -> str:
    """Short hash of the working tree's commit, `+changes` where it has uncommitted ones; empty outside a repository."""
    try:
        head = await process.run(["git", "rev-parse", "--short", "HEAD"])
        changes = await process.run(["git", "status", "--porcelain"])
    except process.ToolMissing:
        return ""
    return head.stdout.strip() + ("+changes" if changes.stdout.strip() else "") if head.ok else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the table there")
    parser.add_argument("--confirm", action="store_true", help="also measure each rewrite with torch's own headers")
    options = parser.parse_args()
    sys.exit(running.run(demonstrate(options.folder, options.json, confirm=options.confirm)))


if __name__ == "__main__":
    main()
