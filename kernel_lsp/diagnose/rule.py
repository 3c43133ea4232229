"""A rule: the name of a fault, what there is to read about it, and the check that finds it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kernel_lsp.diagnose.context import Context
from kernel_lsp.domain import Evidence, Loop, Severity, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a check says of one place; `diagnose` ranks claims, folds them and makes findings of what is left."""

    message: str
    """One sentence for the line."""
    span: Span
    """The access or statement that causes the loss, not where the loss shows."""
    function: str
    """Qualified name of the function that it is in; empty where it concerns the file."""
    loop: Loop | None = None
    evidence: tuple[Evidence, ...] = ()
    share: float | None = None
    """Share of the kernel's time spent on the lines at fault, 0–1; None without a profile."""
    saved: float = 0.0
    """Upper bound on the part of `share` that goes away with the fault, 0–1; each rule documents its formula."""
    explained_by: tuple[str, ...] = ()
    """Codes of deeper causes: where one of them is found in the same loop, this claim folds under it."""


def _not_by_number(context: Context, loop: Loop) -> str | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Documentation:
    """The parts of a rule's page, markdown but for the two programs; each ends with a line break."""

    what_it_is: str
    why_it_is_slow: str
    how_it_is_measured: str
    """With the formula of the headroom."""
    example: str
    """C++ that has the fault."""
    instead: str
    """C++ that does the same without it."""
    thresholds: str
    """Each with its source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    code: str
    """`KL501`: stable for ever."""
    name: str
    """The fault: `strided-inner-access`."""
    title: str
    """One line for tables and headings."""
    documentation: Documentation
    skills: tuple[str, ...]
    """Names of the skills that treat it, the likeliest first."""
    check: Callable[[Context], Iterable[Claim]]
    rules_out: Callable[[Context, Loop], str | None] = _not_by_number
    """Where a measurement excludes this fault for a loop: that in words, with the number."""
    on_device: bool = False
    """It holds for code on a GPU, too: other rules of the CPU's say nothing of kernels and device functions."""
    severity: Severity | None = None
    """Fixed severity; None goes by the samples (see `diagnosis.severity`)."""
