"""Events on a terminal: a live status while the engine works, then a report as a good compiler writes it.

Where standard output is no terminal, the same lines come without colour and without the status.
"""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from kernel_lsp.doctor import Fitness, ToolReport
from kernel_lsp.domain import (
    Build,
    BuildFailed,
    Built,
    CompilerMessage,
    Decided,
    Diagnosed,
    Event,
    Finding,
    Finished,
    Judged,
    KernelUnit,
    Location,
    Noted,
    Offer,
    Outcome,
    Passed,
    Problem,
    Profile,
    Profiled,
    Progress,
    Roofline,
    Severity,
    SkillDecision,
    Timed,
    Timing,
    Tried,
    Unjudged,
    Verdict,
)
from kernel_lsp.fronts import words
from kernel_lsp.fronts.excerpt import excerpt, printable, source_line

MOST_MESSAGES = 10
"""Compiler messages shown; the rest are usually consequences of the first."""

MOST_LINES = 5
"""Hot lines shown."""

FILE_WIDTH = 200
"""Columns that a table may take in a file or a pipe."""

Style: TypeAlias = str

_PATCH_LINE = re.compile(r"[^\n]*\n|[^\n]+")
"""What a patch calls a line; `str.splitlines` would also split at form feeds."""

_SEVERITIES: dict[Severity, Style] = {
    Severity.ERROR: "bold red",
    Severity.WARNING: "bold yellow",
    Severity.INFORMATION: "bold blue",
    Severity.HINT: "bold cyan",
}
_FITNESS: dict[Fitness, Style] = {Fitness.READY: "green", Fitness.LIMITED: "yellow", Fitness.MISSING: "red"}


def console(*, stderr: bool = False) -> Console:
    """Lines are never wrapped or reinterpreted: they hold paths and code."""
    made = Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)
    if not made.is_terminal:
        made.width = FILE_WIDTH
    return made


@dataclass(slots=True, kw_only=True)
class Report:
    """What is known so far of one kernel; printed whole at the end, or as far as it got."""

    out: Console
    unit: KernelUnit
    with_diff: bool = True
    """Show an offer's diff below its sentence."""
    build: Build | None = None
    verdict: Verdict | None = None
    timing: Timing | None = None
    roofline: Roofline | None = None
    profile: Profile | None = None
    findings: tuple[Finding, ...] = ()
    decisions: tuple[SkillDecision, ...] = ()
    finished: Finished | None = None
    problems: dict[str, Problem] = field(default_factory=dict)
    """By code, so that each is said once."""
    status: Status | None = None

    @contextlib.contextmanager
    def live(self) -> Iterator[Report]:
        """With a status line on standard error while the work goes on, where that is a terminal."""
        errors = console(stderr=True)
        if not errors.is_terminal:
            yield self
            return
        with errors.status(words.STARTING) as status:
            self.status = status
            try:
                yield self
            finally:
                self.status = None

    def take(self, event: Event) -> None:
        """Keep what an event says; attempts of a search are printed at once."""
        match event:
            case Progress(message=message):
                self._say(message)
            case Built(build=build):
                self.build = build
            case Judged(verdict=verdict):
                self.verdict = verdict
            case Timed(timing=timing, roofline=roofline):
                self.timing, self.roofline = timing, roofline or self.roofline
            case Profiled(profile=profile):
                self.profile = profile
            case Diagnosed(findings=findings):
                self.findings = findings
            case Decided(decisions=decisions):
                self.decisions = decisions
            case Tried(attempt=attempt):
                style = "green" if attempt.outcome is Outcome.FASTER else "dim"
                self._print(words.attempt_line(attempt), style)
            case Finished():
                self.finished = event
            case Noted(problem=problem):
                self.problems.setdefault(problem.code, problem)

    def conclude_check(self) -> None:
        """Everything that a check found."""
        self.conclude_baseline()
        for finding in self.findings:
            self.out.print()
            self._finding(finding)
        if self.profile is not None and self.profile.samples:
            self.out.print()
            self._hot_lines(self.profile)
        self._problems()

    def conclude_baseline(self) -> None:
        """The lens, what stands under it, and the compiler's messages."""
        line = words.lens(self.verdict, self.timing, self.roofline)
        style = "green" if isinstance(self.verdict, Passed) else "yellow" if self._unknown else "red"
        name = self.unit.path.name if self.unit.entry is None else f"{self.unit.path.name}: {self.unit.entry.name}"
        self._print(name, "bold")
        self._print(line, style)
        if self.verdict is not None and not isinstance(self.verdict, BuildFailed):
            for detail in words.verdict_details(self.verdict):
                self._print(f"  {detail}", "dim" if isinstance(self.verdict, Passed) else "")
        if self.build is not None:
            self._print(f"  {words.build_sentence(self.build)}", "dim")
            self._messages(self.build.messages)

    def conclude_search(self) -> None:
        """How the search ended; where nothing was tried, why not."""
        if self.finished is None:
            return
        if not self.finished.attempts:
            for decision in self.decisions:
                self._print(words.decision_line(decision), "dim")
        self.out.print()
        self._print(words.finished_sentence(self.finished), "bold green" if self.finished.offer else "bold")
        if (offer := self.finished.offer) is not None:
            for part in words.timing_parts(offer.timing, None, with_interval=True)[1:]:
                self._print(f"  {part}", "dim")
            if self.with_diff:
                self.out.print()
                self._diff(offer)
        self._problems()

    # --------------------------------------------------------------------------------------------------------

    def _problems(self) -> None:
        said = self.verdict.problem.code if isinstance(self.verdict, Unjudged) else None
        rest = [problem for code, problem in self.problems.items() if code != said]
        if rest:
            self.out.print()
        for problem in rest:
            self._print(f"note: {words.problem_text(problem)}", "cyan")

    def _diff(self, offer: Offer) -> None:
        for line in "".join(unified(self.unit, offer)).split("\n")[:-1]:
            style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
            self._print(line.rstrip("\r"), style)

    @property
    def _unknown(self) -> bool:
        return self.verdict is None or isinstance(self.verdict, Unjudged)

    def _say(self, message: str) -> None:
        if self.status is not None:
            known = "" if self.verdict is None else words.lens(self.verdict, self.timing, self.roofline) + " … "
            self.status.update(Text(printable(f"{known}{message}")))

    def _print(self, text: str, style: Style = "") -> None:
        self.out.print(Text(printable(text), style=style))

    def _messages(self, messages: Sequence[CompilerMessage]) -> None:
        for message in messages[:MOST_MESSAGES]:
            self.out.print()
            head = Text(printable(words.compiler_text(message)))
            head.highlight_words([f"{message.severity.value}:"], _SEVERITIES[message.severity])
            self.out.print(head)
            self._excerpt(message.location, _SEVERITIES[message.severity])
            for location, note in message.related:
                self._print(f"{words.place_text(location.path.name, location.span.start)}: note: {note}")
        if len(messages) > MOST_MESSAGES:
            self.out.print()
            self._print(words.more_messages(len(messages) - MOST_MESSAGES), "dim")

    def _finding(self, finding: Finding) -> None:
        style = _SEVERITIES[finding.severity]
        place = words.place_text(self.unit.path.name, finding.span.start)
        head = Text(f"{place}: ")
        head.append(f"{finding.severity.value}[{finding.code}]", style)
        head.append(f" {printable(finding.message)}", "bold")
        self.out.print(head)
        lines = excerpt(self.unit.text, finding.span)
        self._lines(lines, style)
        gutter = " " * (len(lines[0]) - 1) if lines else ""
        facts = [words.evidence_text(evidence) for evidence in finding.evidence]
        facts += [text for text in (words.headroom_text(finding),) if text]
        facts += finding.ruled_out
        for fact in facts:
            self._print(f"{gutter}= {fact}", "dim")
        self._print(f"{gutter}= {words.explain_hint(finding)}", "dim")

    def _hot_lines(self, profile: Profile) -> None:
        self._print(words.profile_heading(profile), "bold")
        for line in profile.lines[:MOST_LINES]:
            number = line.location.span.start.line
            code = source_line(self.unit.text, number) if line.location.path == self.unit.path else ""
            place = f"{line.location.path.name}:{number + 1}"
            self._print(f"  {words.percent(line.share):>6}  {place:<24}  {code}".rstrip())
        for name, share in profile.outside[:2]:
            self._print(f"  {words.percent(share):>6}  {name}", "dim")

    def _excerpt(self, location: Location | None, style: Style) -> None:
        if location is None:
            return
        text = self.unit.text if location.path == self.unit.path else _read(location.path)
        self._lines(excerpt(text, location.span), style)

    def _lines(self, lines: tuple[str, ...], style: Style) -> None:
        for number, line in enumerate(lines):
            self._print(line, style if number == 2 else "")


def unified(unit: KernelUnit, offer: Offer) -> tuple[str, ...]:
    """The rewrite as a patch that `patch` and `git apply` take; line ends are the file's own."""
    lines = difflib.unified_diff(
        _PATCH_LINE.findall(unit.text),
        _PATCH_LINE.findall(offer.new_text),
        f"a/{unit.path.name}",
        f"b/{unit.path.name}",
    )
    return tuple(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def tools_table(reports: Sequence[ToolReport]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("tool", "", "version", "needed for"):
        table.add_column(head, overflow="fold")
    for report in reports:
        state = words.tool_state(report)
        style = "dim" if state == "not found" else _FITNESS[report.fitness]
        table.add_row(report.name, Text(state, style=style), report.version or "", Text(words.tool_purpose(report)))
    return table


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
