"""Every sentence that people read, for the editor and the terminal alike: pure functions over domain types.

Numbers are rounded here and nowhere before. Plain text unless a name says markdown; no colour, no line breaks
within a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from kernel_lsp.doctor import Fitness, ToolReport
from kernel_lsp.domain import (
    Attempt,
    Build,
    BuildFailed,
    CompilerMessage,
    Crashed,
    ErrorStatistics,
    Evidence,
    Finding,
    Finished,
    Interval,
    LineSamples,
    Mismatch,
    Offer,
    Outcome,
    Passed,
    Position,
    Problem,
    Profile,
    Rejected,
    Roofline,
    Route,
    Severity,
    SkillDecision,
    TimedOut,
    Timing,
    Unjudged,
    VectorRemark,
    Verdict,
    Workload,
)

SEPARATOR = " · "

BASELINES = (("eager", "torch"), ("compiled", "torch.compile"))
"""Subjects of a timing that the kernel is compared with, and what people call them."""

STARTING = "looking for the tools"

# --- numbers ------------------------------------------------------------------------------------------------


def duration(us: float) -> str:
    """Three significant digits in the unit that suits: `842 ns`, `12.3 µs`, `1.84 ms`, `2.31 s`."""
    for unit, size in (("s", 1e6), ("ms", 1e3), ("µs", 1.0)):
        if us >= 0.9995 * size:
            return f"{_three_digits(us / size)} {unit}"
    return f"{_three_digits(us * 1e3)} ns"


def seconds(value: float) -> str:
    return duration(value * 1e6)


def factor(interval: Interval, *, with_interval: bool = False) -> str:
    """`0.31×`, `12.4×`; the 95 % interval follows on demand and wherever it straddles 1."""
    text = f"{_ratio(interval.mid)}×"
    return f"{text} ({_range(interval)})" if with_interval or straddles_one(interval) else text


def straddles_one(interval: Interval) -> bool:
    """Neither faster nor slower can be claimed."""
    return interval.low <= 1 <= interval.high


def percent(share: float) -> str:
    """`62 %`, `0.4 %`, `< 0.1 %`."""
    if share >= 0.0095:
        return f"{100 * share:.0f} %"
    return f"{100 * share:.1f} %" if share >= 0.00095 else "< 0.1 %" if share > 0 else "0 %"


def count(number: int, singular: str, plural: str | None = None) -> str:
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def data_size(size: float) -> str:
    """Decimal units, as bandwidths have: `8.39 MB`."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{_three_digits(size / scale)} {unit}"
    return f"{size:.0f} B"


def _three_digits(value: float) -> str:
    decimals = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{decimals}f}"


def _ratio(value: float) -> str:
    if value >= 0.095 or value <= 0:
        return _three_digits(value)
    # Two digits that mean something, however slow the kernel is: 0.0042.
    return f"{value:.{1 - math.floor(math.log10(value))}f}"


def _range(interval: Interval) -> str:
    return f"{_ratio(interval.low)}–{_ratio(interval.high)}"


def _error(value: float) -> str:
    return f"{value:.2g}"


# --- the lens -----------------------------------------------------------------------------------------------


def lens(
    verdict: Verdict | None,
    timing: Timing | None = None,
    roofline: Roofline | None = None,
    build: Build | None = None,
) -> str:
    """The line above a kernel: `✓ matches reference · 1.84 ms · 0.31× torch · 9 % of the memory limit`.

    What is not known yet is left out; with no verdict yet, it says so.
    """
    if verdict is None:
        return "… not judged yet"
    parts = [f"{mark(verdict)} {_short(verdict)}"]
    if isinstance(verdict, Passed):
        parts += timing_parts(timing, roofline)
    if build is not None and (route := route_text(build)):
        parts.append(route)
    return SEPARATOR.join(parts)


def mark(verdict: Verdict) -> str:
    return "✓" if isinstance(verdict, Passed) else "?" if isinstance(verdict, Unjudged) else "✗"


def timing_parts(timing: Timing | None, roofline: Roofline | None, *, with_interval: bool = False) -> list[str]:
    """Time of the kernel, its speed against each baseline that was timed, and its share of the nearer limit."""
    parts: list[str] = []
    if timing is not None and (kernel := timing.of("kernel")) is not None:
        parts.append(duration(kernel.median_us))
        parts += [
            against(speedup, name, with_interval=with_interval)
            for subject, name in BASELINES
            if (speedup := timing.speedup(subject)) is not None
        ]
    if roofline is not None:
        parts.append(limit_text(roofline))
    return parts


def against(speedup: Interval, name: str, *, with_interval: bool = False) -> str:
    """`0.31× torch`; `≈ torch (0.97–1.04×)` where the noise does not let us say which is faster."""
    if straddles_one(speedup):
        return f"≈ {name} ({_range(speedup)}×)"
    return f"{_ratio(speedup.mid)}× {name}" + (f" ({_range(speedup)})" if with_interval else "")


def limit_text(roofline: Roofline) -> str:
    return f"{percent(roofline.share)} of the {roofline.limit} limit"


def route_text(build: Build) -> str:
    """Why the slow way was taken, where it was: worth a few words, since it costs half a minute a save."""
    if build.route is not Route.WHOLE:
        return ""
    return f"full torch headers: {build.route_reason}" if build.route_reason else "full torch headers"


def _short(verdict: Verdict) -> str:
    match verdict:
        case Passed():
            return "matches reference"
        case BuildFailed(messages=messages):
            errors = sum(message.severity is Severity.ERROR for message in messages)
            return "does not compile" + (f"{SEPARATOR}{count(errors, 'error')}" if errors else "")
        case Crashed(what=what):
            return f"crashed: {what}"
        case TimedOut(seconds=limit):
            return f"did not end within {limit:g} s"
        case Mismatch(output=output, workload=workload):
            return f"{output} differs from the reference ({workload.name})"
        case Rejected(rule=rule):
            return f"rejected: {rule}"
        case Unjudged(problem=problem):
            return f"not judged: {problem.message}"


# --- verdicts -----------------------------------------------------------------------------------------------


def verdict_sentence(verdict: Verdict) -> str:
    """What was found, in one sentence that stands alone."""
    match verdict:
        case Passed(results=results):
            return f"Matches the reference on {count(len(results), 'workload')}."
        case BuildFailed(messages=messages):
            first = next((message for message in messages if message.severity is Severity.ERROR), None)
            return "Does not compile" + (f": {first.text}" if first is not None else ".")
        case Crashed(what=what, workload=workload):
            return f"The kernel crashed{_on(workload)}: {what}."
        case TimedOut(seconds=limit, workload=workload):
            return f"The kernel did not end within {limit:g} s{_on(workload)} and was stopped."
        case Mismatch(output=output, workload=workload, explanation=explanation):
            why = f": {explanation}" if explanation else ""
            return f"{_capital(output)} differs from the reference{_on(workload)}{why}."
        case Rejected(rule=rule, evidence=evidence, workload=workload):
            return f"Rejected{_on(workload)} ({rule}): {evidence}."
        case Unjudged(problem=problem):
            return f"Not judged: {problem.message}."


def verdict_details(verdict: Verdict) -> tuple[str, ...]:
    """What stands under the sentence: worst element, error statistics, what replays it. One fact a line."""
    match verdict:
        case Passed(results=results, binding=binding, notes=notes):
            judged = [r.statistics for r in results if r.statistics is not None]
            worst = max(judged, key=lambda s: s.max_abs / s.tolerance if s.tolerance else 0.0, default=None)
            called = ", ".join(f"{argument.parameter} = {argument.source}" for argument in binding)
            return (
                *([f"called with {called}"] if called else []),
                *([f"workloads: {', '.join(result.workload.name for result in results)}"] if results else []),
                *([_margin(worst)] if worst is not None else []),
                *notes,
            )
        case BuildFailed(messages=messages):
            return tuple(compiler_text(message) for message in messages)
        case Crashed(workload=workload, output_tail=tail) | TimedOut(workload=workload, output_tail=tail):
            return (*_replay(workload), *(f"it printed: {line}" for line in tail.strip().splitlines()))
        case Mismatch(worst=worst_element, statistics=statistics, workload=workload):
            found: list[str] = []
            if worst_element is not None:
                index = ", ".join(str(i) for i in worst_element.index)
                found.append(f"worst element [{index}]: {worst_element.got} instead of {worst_element.expected}")
            if statistics is not None:
                found += _statistics(statistics)
            return (*found, *_replay(workload))
        case Rejected(workload=workload):
            return _replay(workload)
        case Unjudged(problem=problem):
            return (problem.hint,)


def workload_text(workload: Workload) -> str:
    """Name and shapes, as in: `rows=17`: float32 (17, 2048)."""
    shapes = ", ".join(f"{tensor.dtype} {_shape(tensor.shape)}" for tensor in workload.inputs)
    return f"`{workload.name}`: {shapes}" if shapes else f"`{workload.name}`"


def _statistics(statistics: ErrorStatistics) -> list[str]:
    share = statistics.wrong / statistics.elements if statistics.elements else 0.0
    wrong = f"{statistics.wrong:,} of {count(statistics.elements, 'element')} outside the tolerance ({percent(share)})"
    error = (
        f"largest error {_error(statistics.max_abs)}, {_error(statistics.max_rel_spread)} of the output's spread; "
        f"{_error(statistics.tolerance)} is allowed there, and Torch's own rounding costs "
        f"{_error(statistics.torch_max_abs)}"
    )
    known = "torch.allclose would let it pass" if statistics.allclose else "torch.allclose refuses it too"
    return [wrong, error, known]


def _margin(statistics: ErrorStatistics) -> str:
    return (
        f"largest error {_error(statistics.max_abs)} of {_error(statistics.tolerance)} allowed; "
        f"Torch's own rounding costs {_error(statistics.torch_max_abs)}"
    )


def _replay(workload: Workload | None) -> tuple[str, ...]:
    return () if workload is None else (f"workload {workload_text(workload)}", f"drawn with seed {workload.seed}")


def _on(workload: Workload | None) -> str:
    return "" if workload is None else f" on workload `{workload.name}`"


def _shape(shape: tuple[int, ...]) -> str:
    return f"({', '.join(str(size) for size in shape)}{',' if len(shape) == 1 else ''})"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


# --- builds -------------------------------------------------------------------------------------------------

_ROUTES = {
    Route.PLAIN: "without torch",
    Route.THIN: "over the thin torch layer",
    Route.WHOLE: "with torch's own headers",
}


def build_sentence(build: Build) -> str:
    if build.artifact is None:
        return f"Build failed after {seconds(build.seconds)}."
    how = "taken from the cache" if build.cached else f"built in {seconds(build.seconds)}"
    why = f": {build.route_reason}" if build.route_reason else ""
    return f"{_capital(how)} ({_ROUTES[build.route]}{why})."


def compiler_text(message: CompilerMessage) -> str:
    """`softmax.cpp:12:7: error: 'x' was not declared`, as compilers write it."""
    place = (
        "" if message.location is None else f"{place_text(message.location.path.name, message.location.span.start)}: "
    )
    option = f" [{message.option}]" if message.option else ""
    return f"{place}{message.severity.value}: {message.text}{option}"


def more_messages(number: int) -> str:
    return f"and {count(number, 'further message')} from the compiler"


def place_text(name: str, start: Position) -> str:
    """One-based line and byte column, as compilers count."""
    return f"{name}:{start.line + 1}:{start.column + 1}"


def remark_text(remark: VectorRemark) -> str:
    state = "vectorised" if remark.vectorized else "not vectorised"
    return f"{state}: {remark.said}" if remark.reason else state


# --- findings and profiles ----------------------------------------------------------------------------------


def finding_text(finding: Finding) -> str:
    """The message for the line, with what mending it can save."""
    saving = headroom_text(finding)
    return f"{finding.message} {_capital(saving)}." if saving else finding.message


def headroom_text(finding: Finding) -> str:
    """`mending it can save up to 62 % of the time`; empty where no profile bears a number out."""
    if finding.headroom is None or finding.headroom <= 0:
        return ""
    return f"mending it can save up to {percent(finding.headroom)} of the time"


def evidence_text(evidence: Evidence) -> str:
    return f"{evidence.name}: {evidence.value} ({evidence.source})"


def explain_hint(finding: Finding) -> str:
    return f"{finding.rule}: kernel-lsp explain {finding.code}"


def profile_heading(profile: Profile) -> str:
    return f"Where the time goes ({profile.tool}, {count(profile.samples, 'sample')})"


def line_hint(samples: LineSamples) -> str:
    """Beside a hot line."""
    return f"{percent(samples.share)} of samples"


def line_hint_tooltip(samples: LineSamples, profile: Profile) -> str:
    return f"{samples.count:,} of {count(profile.samples, 'sample')} in the kernel's calls ({profile.tool})"


def hover_markdown(
    findings: Sequence[Finding] = (),
    *,
    verdict: Verdict | None = None,
    timing: Timing | None = None,
    roofline: Roofline | None = None,
    profile: Profile | None = None,
) -> str:
    """What is known of a place as markdown: the findings with their evidence, then times, limits and samples."""
    parts = [finding_markdown(finding) for finding in findings]
    if verdict is not None:
        parts.append(verdict_markdown(verdict))
    if timing is not None:
        parts.append(timing_markdown(timing))
    if roofline is not None:
        parts.append(roofline_markdown(roofline))
    if profile is not None:
        parts.append(profile_markdown(profile))
    return "\n\n".join(part for part in parts if part)


def finding_markdown(finding: Finding) -> str:
    rows = [(e.name, e.value, e.source) for e in finding.evidence]
    parts = [f"**{finding.code} {finding.rule}**: {finding.message}"]
    if rows:
        parts.append(_table(("evidence", "value", "source"), rows))
    if saving := headroom_text(finding):
        parts.append(f"{_capital(saving)}.")
    if finding.ruled_out:
        parts.append("Ruled out: " + "; ".join(finding.ruled_out) + ".")
    return "\n\n".join(parts)


def verdict_markdown(verdict: Verdict) -> str:
    details = "\n".join(f"- {line}" for line in verdict_details(verdict))
    sentence = f"{mark(verdict)} {verdict_sentence(verdict)}"
    return f"{sentence}\n\n{details}" if details else sentence


def timing_markdown(timing: Timing) -> str:
    names = {"kernel": "this kernel", "parent": "before the rewrite", "initial": "as first saved", **dict(BASELINES)}
    rows = []
    for samples in timing.samples:
        speedup = timing.speedup(samples.subject) if samples.subject != "kernel" else None
        rows.append(
            (
                names.get(samples.subject, samples.subject),
                duration(samples.median_us),
                f"± {percent(samples.spread / 2)}",
                "" if speedup is None else factor(speedup, with_interval=True),
            )
        )
    how = f"Median of {count(len(timing.samples[0].us) if timing.samples else 0, 'round')}, every subject once a round"
    cache = "caches flushed before each call" if timing.cold_cache else "caches warm"
    where = f"{how}; {count(timing.threads, 'thread')}; {cache}; {workload_text(timing.workload)}."
    return f"{_table(('', 'time', 'spread', 'kernel is'), rows)}\n\n{where}"


def roofline_markdown(roofline: Roofline) -> str:
    rows = [("memory", f"{data_size(roofline.compulsory_bytes)} must move", percent(roofline.memory_share))]
    if roofline.flops is not None and roofline.compute_share is not None:
        rows.append(("compute", f"{_operations(roofline.flops)} operations", percent(roofline.compute_share)))
    return _table(("limit", "work", "reached"), rows)


def profile_markdown(profile: Profile, most: int = 5) -> str:
    """The hottest lines and what runs outside the file; the counters that the machine has."""
    rows = [
        (place_text(line.location.path.name, line.location.span.start).rpartition(":")[0], percent(line.share))
        for line in profile.lines[:most]
    ]
    rows += [(name, percent(share)) for name, share in profile.outside[: most - 2]]
    parts = [_table((f"{profile.tool}, {count(profile.samples, 'sample')}", "share"), rows)] if rows else []
    if profile.busy_threads is not None:
        of = "" if profile.threads is None else f" of {profile.threads}"
        parts.append(f"{profile.busy_threads:.1f}{of} threads busy on average.")
    if profile.counters:
        parts.append(
            "; ".join(f"{counter.name} {counter.value:,.4g} {counter.unit}".rstrip() for counter in profile.counters)
        )
    return "\n\n".join(parts)


def _operations(number: int) -> str:
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= scale:
            return f"{_three_digits(number / scale)} {unit}"
    return str(number)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    escaped = [tuple(cell.replace("|", "\\|") for cell in row) for row in (head, *rows)]
    lines = [f"| {' | '.join(row)} |" for row in escaped]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


# --- optimising ---------------------------------------------------------------------------------------------


def offer_sentence(offer: Offer) -> str:
    """`2.90× faster, 95 % interval 2.84–2.97 (12.1 ms → 4.17 ms), by interchange-loops, tile-for-cache (tile=64).`"""
    before, after = offer.timing.of("parent") or offer.timing.of("initial"), offer.timing.of("kernel")
    times = f" ({duration(before.median_us)} → {duration(after.median_us)})" if before and after else ""
    by = f", by {', '.join(offer.skills)}" if offer.skills else ""
    return f"{_ratio(offer.speedup.mid)}× faster, 95 % interval {_range(offer.speedup)}{times}{by}."


def finished_sentence(finished: Finished) -> str:
    """How a search ended: the offer or why there is none, and why it stopped."""
    tried = count(len(finished.attempts), "attempt")
    if finished.offer is None:
        return f"No faster kernel to offer after {tried}: {finished.reason}."
    return f"{_capital(offer_sentence(finished.offer))} Stopped after {tried}: {finished.reason}."


_OUTCOMES = {
    Outcome.FASTER: "faster",
    Outcome.NOT_FASTER: "not faster",
    Outcome.WRONG: "wrong",
    Outcome.DECLINED: "does not apply",
}
"""What an attempt's own detail does not say already."""


def attempt_line(attempt: Attempt) -> str:
    """`4. tile-for-cache (tile=64): faster, 1.84× (1.80–1.90)`."""
    head = f"{attempt.number}. {attempt_label(attempt)}:"
    outcome = _OUTCOMES.get(attempt.outcome)
    if outcome is None:
        return f"{head} {attempt.detail}"
    detail = attempt.detail if attempt.speedup is None else factor(attempt.speedup, with_interval=True)
    return f"{head} {outcome}, {detail}" if detail else f"{head} {outcome}"


def attempt_label(attempt: Attempt) -> str:
    """The skill with its parameters: `tile-for-cache (tile=64)`."""
    values = ", ".join(f"{name}={value}" for name, value in attempt.parameters)
    return f"{attempt.skill} ({values})" if values else attempt.skill


def decision_line(decision: SkillDecision) -> str:
    return f"{'+' if decision.chosen else '-'} {decision.skill}: {decision.reason}"


# --- problems and tools -------------------------------------------------------------------------------------


def problem_text(problem: Problem) -> str:
    """What happened and what to do next, in one line; no capital, for it may begin with a file's name."""
    return f"{problem.message}; {problem.hint}" if problem.hint else problem.message


def tool_state(report: ToolReport) -> str:
    """`ready`, `limited`, `missing`; `not found` where nothing depends on it."""
    if report.fitness is Fitness.MISSING and report.remedy is None:
        return "not found"
    return report.fitness.value


def tool_purpose(report: ToolReport) -> str:
    return f"{report.needed_for} ({report.detail})" if report.detail else report.needed_for


def tool_remedy(report: ToolReport) -> str:
    """`valgrind: sudo apt install valgrind`; empty where nothing needs mending."""
    return "" if report.remedy is None else f"{report.name}: {report.remedy}"


def applied_sentence(name: str) -> str:
    return f"Applied to {name}."


def rule_line(code: str, name: str, title: str) -> str:
    return f"{code}  {name:<32} {title}"


def doctor_sentence(reports: Sequence[ToolReport]) -> str:
    """The last line of `doctor`."""
    broken = [report.name for report in reports if report.blocks]
    if broken:
        return f"Kernels cannot be checked yet: mend {', '.join(broken)} first."
    limited = [report.name for report in reports if report.remedy is not None]
    if limited:
        return f"Kernels can be checked. With {', '.join(limited)} mended, more can be said about them."
    return "Everything is there."


# --- what the editor offers ---------------------------------------------------------------------------------

OPTIMIZE = "Optimize this kernel"
OPEN_REPORT = "Open report"
WRITE_REFERENCE = "Write a reference skeleton"
APPLY, SHOW_DIFF, DISCARD = "Apply", "Show diff", "Discard"


def treat_title(finding: Finding) -> str:
    """The quick fix for one finding."""
    return f"Look for a verified rewrite ({finding.code} {finding.rule})"


def judge_title(name: str) -> str:
    """Where several functions could be the kernel."""
    return f"Judge `{name}`"


def offer_stale(name: str, kept: str) -> str:
    return f"{name} has changed since this rewrite was measured, so it was not applied; it is kept in {kept}."


def offer_refused(name: str, reason: str, kept: str) -> str:
    why = f": {reason}" if reason else ""
    return f"The editor did not apply the rewrite of {name}{why}; it is kept in {kept}."


def optimization_outdated(name: str) -> str:
    return f"{name} was saved with other contents, so the search for a faster version of the old ones was stopped."


def offer_gone() -> str:
    return "This rewrite is no longer on offer: a newer one took its place, or the file was closed."


def internal_error(error: BaseException) -> str:
    return f"kernel-lsp has made a mistake ({type(error).__name__}); its log says more. Please report it."


def doctor_markdown(reports: Sequence[ToolReport]) -> str:
    """The table of `doctor`, for the editor."""
    rows = [
        (report.name, report.version or "", tool_state(report), tool_purpose(report), report.remedy or "")
        for report in reports
    ]
    head = ("tool", "version", "state", "needed for", "what mends it")
    return f"# kernel-lsp doctor\n\n{doctor_sentence(reports)}\n\n{_table(head, rows)}\n"
