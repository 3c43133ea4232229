"""What is known of a kernel, as diagnostics, lenses, hints and hover. Pure: decides nothing, asks nobody."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lsprotocol import types

from kernel_lsp.diagnose import documentation_path
from kernel_lsp.domain import (
    BuildFailed,
    CompilerMessage,
    Crashed,
    Finding,
    KernelUnit,
    Location,
    Mismatch,
    Passed,
    Position,
    Problem,
    Rejected,
    Severity,
    Span,
    TimedOut,
    Unjudged,
    Verdict,
)
from kernel_lsp.fronts import words
from kernel_lsp.fronts.lsp.documents import Document
from kernel_lsp.fronts.lsp.known import Known
from kernel_lsp.fronts.lsp.uris import to_uri

SOURCE = "kernel-lsp"

HOT = 0.01
"""Share of the samples from which a line carries a hint.*"""

DOCUMENTATION = "https://github.com/kernel-lsp/kernel-lsp/blob/main/docs/rules"

_SEVERITIES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.INFORMATION: types.DiagnosticSeverity.Information,
    Severity.HINT: types.DiagnosticSeverity.Hint,
}

# --- diagnostics --------------------------------------------------------------------------------------------


def diagnostics(document: Document) -> list[types.Diagnostic]:
    """All that is to be shown of exactly this text: the compiler's messages, the verdict, the findings."""
    known = document.shown
    shown: list[types.Diagnostic] = []
    if known is not None:
        if known.build is not None:
            shown += [_compiler(document, message) for message in known.build.messages]
        if known.verdict is not None and (verdict := _verdict(document, known, known.verdict)) is not None:
            shown.append(verdict)
    shown += [finding_diagnostic(document, finding) for finding in findings(document)]
    return shown


def findings(document: Document) -> tuple[Finding, ...]:
    """From the check of this text, else from the text alone."""
    if (known := document.shown) is not None and known.findings is not None:
        return known.findings
    return document.static_findings or ()


def finding_diagnostic(document: Document, finding: Finding) -> types.Diagnostic:
    return types.Diagnostic(
        range=document.now.index.to_range(finding.span),
        message=words.finding_text(finding),
        severity=_SEVERITIES[finding.severity],
        code=finding.code,
        code_description=types.CodeDescription(href=documentation_link(finding.code)),
        source=SOURCE,
        data={"finding": finding.code, "rule": finding.rule, "digest": document.digest},
    )


def documentation_link(code: str) -> str:
    page = documentation_path(code)
    return f"{DOCUMENTATION}/{code}.md" if page is None else to_uri(page)


def concerns_machine(unit: KernelUnit, problem: Problem) -> bool:
    """It is said once in a message; the source is not at fault."""
    return problem.location is None and problem != unit.problem


def _compiler(document: Document, message: CompilerMessage) -> types.Diagnostic:
    elsewhere = message.location is not None and message.location.path != document.path
    span = _unit_span(document) if message.location is None or elsewhere else message.location.span
    related = [_related(document, location, text) for location, text in message.related]
    if elsewhere and message.location is not None:
        related.insert(0, _related(document, message.location, message.text))
    return types.Diagnostic(
        range=document.now.index.to_range(span),
        message=message.text,
        severity=_SEVERITIES[message.severity],
        code=message.option,
        source=SOURCE,
        related_information=related or None,
    )


def _verdict(document: Document, known: Known, verdict: Verdict) -> types.Diagnostic | None:
    location: Location | None = None
    match verdict:
        case Passed():
            return None
        case BuildFailed():
            code, severity = "build-failed", Severity.ERROR
            if any(message.severity is Severity.ERROR for message in verdict.messages):
                # The compiler's own messages say it, and where.
                return None
        case Crashed():
            code, severity = "crashed", Severity.ERROR
        case TimedOut():
            code, severity = "timed-out", Severity.ERROR
        case Mismatch():
            code, severity = "mismatch", Severity.ERROR
        case Rejected(rule=rule):
            code, severity = rule, Severity.ERROR
        case Unjudged(problem=problem):
            if concerns_machine(known.unit, problem):
                return None
            code, severity, location = problem.code, Severity.INFORMATION, problem.location
    here = location is not None and location.path == document.path
    span = location.span if location is not None and here else _unit_span(document)
    related = [] if location is None or here else [_related(document, location, words.verdict_sentence(verdict))]
    reference = known.unit.reference
    if reference is not None and (location is None or location.path != reference):
        related.append(_related(document, Location(path=reference, span=Span.line(0, 0, 0)), "the reference"))
    return types.Diagnostic(
        range=document.now.index.to_range(span),
        message="\n".join((words.verdict_sentence(verdict), *words.verdict_details(verdict))),
        severity=_SEVERITIES[severity],
        code=code,
        source=SOURCE,
        related_information=related or None,
    )


def _unit_span(document: Document) -> Span:
    """The entry's name, else the file's first line."""
    unit = document.unit
    return Span.line(0) if unit is None or unit.entry is None else unit.entry.name_span


def _related(document: Document, location: Location, text: str) -> types.DiagnosticRelatedInformation:
    start, end = location.span.start, location.span.end
    place = (
        document.now.index.to_range(location.span)
        if location.path == document.path
        # The other file's text is not at hand: exact but on lines that are not ASCII.
        else types.Range(
            start=types.Position(line=start.line, character=start.column),
            end=types.Position(line=end.line, character=end.column),
        )
    )
    return types.DiagnosticRelatedInformation(
        location=types.Location(uri=to_uri(location.path), range=place), message=text
    )


# --- lenses -------------------------------------------------------------------------------------------------


def lenses(document: Document, *, trusted: bool) -> list[types.CodeLens] | None:
    """Over the kernel: where it stands, and what can be done."""
    unit = document.unit
    if unit is None or unit.entry is None:
        return None
    known = document.shown
    place = document.now.index.to_range(unit.entry.name_span)
    if known is None or known.verdict is None:
        commands = [_command(words.lens(None), "kernel-lsp.check", document.uri)]
    else:
        line = words.lens(known.verdict, known.timing, known.roofline, known.build)
        commands = [_command(line, "kernel-lsp.report", document.uri)]
    if trusted:
        commands.append(_command(words.OPTIMIZE, "kernel-lsp.optimize", document.uri))
    if known is not None:
        commands.append(_command(words.OPEN_REPORT, "kernel-lsp.report", document.uri))
    return [types.CodeLens(range=place, command=command) for command in commands]


def _command(title: str, name: str, *arguments: Any) -> types.Command:
    return types.Command(title=title, command=name, arguments=list(arguments))


# --- hints and hover ----------------------------------------------------------------------------------------


def hints(document: Document, wanted: types.Range) -> list[types.InlayHint] | None:
    """Beside each hot line, its share of the samples."""
    known = document.shown
    if known is None or known.profile is None:
        return None
    profile = known.profile
    return [
        types.InlayHint(
            position=document.now.index.line_end(samples.location.span.start.line),
            label=words.line_hint(samples),
            tooltip=words.line_hint_tooltip(samples, profile),
            padding_left=True,
        )
        for samples in sorted(profile.lines, key=lambda samples: samples.location.span.start.line)
        if samples.share >= HOT
        and samples.location.path == document.path
        and wanted.start.line <= samples.location.span.start.line <= wanted.end.line
    ] or None


def hover(document: Document, at: types.Position, kind: types.MarkupKind) -> types.Hover | None:
    """On a finding its evidence, on the entry the verdict and times, on both where the kernel stands."""
    position = document.now.index.from_client(at)
    here = tuple(finding for finding in findings(document) if _covers(finding.span, position))
    known = document.shown
    unit = document.unit
    entry = None if unit is None else unit.entry
    if known is not None and entry is not None and _covers(entry.name_span, position):
        text = words.hover_markdown(
            here, verdict=known.verdict, timing=known.timing, roofline=known.roofline, profile=known.profile
        )
    else:
        text = words.hover_markdown(here, roofline=known.roofline if known is not None and here else None)
    if not text:
        return None
    return types.Hover(contents=types.MarkupContent(kind=kind, value=text))


def overlapping(document: Document, found: Iterable[Finding], wanted: types.Range) -> list[Finding]:
    return [finding for finding in found if touches(document, finding.span, wanted)]


def touches(document: Document, span: Span, wanted: types.Range) -> bool:
    """A mere cursor touches what it stands in or beside."""
    start, end = document.now.index.from_client(wanted.start), document.now.index.from_client(wanted.end)
    return span.start <= end and start <= span.end


def _covers(span: Span, position: Position) -> bool:
    return span.start <= position <= span.end
