"""Reports as markdown files, for the editor to open."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kernel_lsp.doctor import ToolReport
from kernel_lsp.domain import Finished
from kernel_lsp.fronts import words
from kernel_lsp.fronts.lsp import show
from kernel_lsp.fronts.lsp.documents import Document
from kernel_lsp.source.lines import encode


def write(folder: Path, document: Document, finished: Finished | None) -> Path:
    """All that is known of a kernel as it is now. Raises OSError where the folder cannot be written."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{document.path.stem}-{document.digest[:8]}.md"
    path.write_bytes(encode(text(document, finished)))
    return path


def text(document: Document, finished: Finished | None) -> str:
    known, unit = document.shown, document.unit
    title = document.path.name if unit is None or unit.entry is None else f"{unit.entry.name} ({document.path.name})"
    verdict = None if known is None else known.verdict
    parts = [f"# {title}", words.lens(verdict)]
    if known is not None:
        if known.build is not None:
            parts.append(words.build_sentence(known.build))
        if known.verdict is not None:
            parts += ["## Verdict", words.verdict_markdown(known.verdict)]
        if known.timing is not None:
            parts += ["## Time", words.timing_markdown(known.timing)]
        if known.roofline is not None:
            parts += ["## Limits of this machine", words.roofline_markdown(known.roofline)]
        if known.profile is not None:
            parts += ["## Where the time goes", words.profile_markdown(known.profile, most=20)]
            parts += [words.problem_text(problem) for problem in known.profile.problems]
    if found := show.findings(document):
        parts.append("## Findings")
        for finding in found:
            place = words.place_text(document.path.name, finding.span.start)
            link = f"[{finding.code}]({show.documentation_link(finding.code)})"
            parts += [f"### {place}: {link}", words.finding_markdown(finding)]
    if finished is not None:
        parts += ["## Rewrites tried", words.finished_sentence(finished)]
        parts += [f"- {words.attempt_line(attempt)}" for attempt in finished.attempts]
    return "\n\n".join(part for part in parts if part) + "\n"


def write_doctor(folder: Path, reports: Sequence[ToolReport]) -> Path:
    """Every tool, and what mends what is missing. Raises OSError where the folder cannot be written."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "doctor.md"
    path.write_bytes(encode(words.doctor_markdown(reports)))
    return path
