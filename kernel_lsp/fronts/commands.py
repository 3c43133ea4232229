"""The commands of `kernel-lsp`: what each takes, what it prints, and its exit code."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from kernel_lsp import __version__
from kernel_lsp.doctor import examine
from kernel_lsp.domain import KernelUnit, Noted, Offer, Passed, Problem, Unjudged, Verdict
from kernel_lsp.engine import Engine
from kernel_lsp.fronts import json_lines, running, words
from kernel_lsp.fronts.json_lines import JsonReport
from kernel_lsp.fronts.terminal import Report, console, tools_table, unified
from kernel_lsp.settings import OnSave, load

AnyReport: TypeAlias = Report | JsonReport

PASSED, WRONG, CANNOT_JUDGE = 0, 1, 2

EXIT_CODES = (
    "Exit codes: 0, the kernel matches its reference; 1, it does not, or does not build or run; 2, it cannot be "
    "judged (the environment, the reference, the command line); 128 + n, ended by signal n, so 130 after Ctrl-C."
)

app = typer.Typer(
    help="Judge, measure, explain and rewrite compute kernels beside their Torch reference.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

KernelFile = Annotated[Path, typer.Argument(metavar="FILE", help="The kernel's source file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document a line for each event.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kernel-lsp {__version__}")
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """What stands before any command."""


# --- check --------------------------------------------------------------------------------------------------


@app.command(epilog=EXIT_CODES)
def check(
    file: KernelFile,
    reference: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The Torch reference, where it is not found by itself.")
    ] = None,
    as_json: AsJson = False,
    no_profile: Annotated[bool, typer.Option("--no-profile", help="Only judge and time.")] = False,
) -> None:
    """Build a kernel, judge it against its reference, time it, profile it, and say what holds it back."""
    level = OnSave.VERIFY if no_profile else OnSave.PROFILE
    raise typer.Exit(running.run(_check(file, reference, as_json, level)))


async def _check(file: Path, reference: Path | None, as_json: bool, level: OnSave) -> int:
    async with _opened(file, reference, as_json) as opened:
        if isinstance(opened, int):
            return opened
        engine, report, unit = opened
        try:
            with report.live():
                await running.follow(engine.check(unit, level), report.take)
        finally:
            # Also after Ctrl-C: to stop while torch.compile is timed must not throw the verdict away.
            if report.verdict is not None:
                report.conclude_check()
        return exit_code(report.verdict)


# --- optimize -----------------------------------------------------------------------------------------------


@app.command(epilog=EXIT_CODES + " To find nothing faster is 0 as well.")
def optimize(
    file: KernelFile,
    as_json: AsJson = False,
    apply: Annotated[bool, typer.Option("--apply", help="Write the rewrite to FILE.")] = False,
    seconds: Annotated[
        float | None, typer.Option(min=1, help="Wall time that the search may take; default from the settings.")
    ] = None,
    diff: Annotated[
        bool, typer.Option("--diff", help="Only the patch on standard output, everything else on standard error.")
    ] = False,
) -> None:
    """Search for a faster kernel; what is offered has been judged, and measured faster beyond the noise."""
    if as_json and diff:
        raise typer.BadParameter("--json and --diff exclude each other: the offer in the JSON has the edits")
    raise typer.Exit(running.run(_optimize(file, as_json, apply, seconds, diff)))


async def _optimize(file: Path, as_json: bool, apply: bool, seconds: float | None, diff: bool) -> int:
    async with _opened(file, None, as_json, diff=diff) as opened:
        if isinstance(opened, int):
            return opened
        engine, report, unit = opened
        with report.live():
            await running.follow(engine.check(unit, OnSave.VERIFY), report.take)
        report.conclude_baseline()
        if not isinstance(report.verdict, Passed):
            return exit_code(report.verdict)
        with report.live():
            await running.follow(engine.optimize(unit, seconds=seconds), report.take)
        report.conclude_search()
        offer = None if report.finished is None else report.finished.offer
        if offer is None:
            return PASSED
        if diff:
            sys.stdout.write("".join(unified(unit, offer)))
            sys.stdout.flush()
        if apply:
            if (problem := write_offer(unit, offer)) is not None:
                return _refuse(problem, as_json)
            if not as_json:
                typer.echo(words.applied_sentence(str(file)), err=diff)
        return PASSED


def write_offer(unit: KernelUnit, offer: Offer) -> Problem | None:
    """Put the rewrite in the place of the file, whole or not at all, and only over the text it was made for."""
    path = unit.path.resolve()
    try:
        if path.read_bytes() != unit.text.encode():
            return Problem(
                code="file-changed",
                message=f"{path} has changed since the search began, so nothing was written",
                hint="run the command again",
            )
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            try:
                file.write(offer.new_text.encode())
                file.flush()
                os.fchmod(file.fileno(), path.stat().st_mode)
                os.fsync(file.fileno())
                Path(file.name).replace(path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        return Problem(
            code="not-written",
            message=f"{path} cannot be written: {error.strerror}",
            hint="check permissions and free space, or take the patch from --diff",
        )
    return None


# --- serve, doctor, explain ---------------------------------------------------------------------------------


@app.command()
def serve(
    stdio: Annotated[bool, typer.Option("--stdio", help="Speak on standard input and output (the default).")] = False,
    tcp: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Listen there for one editor.")] = None,
) -> None:
    """Run the language server."""
    if stdio and tcp is not None:
        raise typer.BadParameter("--stdio and --tcp exclude each other")
    from kernel_lsp.fronts.lsp import serve as serve_editor

    serve_editor(None if tcp is None else address(tcp))


def address(text: str) -> tuple[str, int]:
    """Host and port of `127.0.0.1:2087`, `[::1]:2087` or `:2087`, the last on this machine only.

    Raises:
        typer.BadParameter: where there is no port from 1 to 65535.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise typer.BadParameter(f"{text!r} is not HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)


@app.command(epilog="Exit codes: 0, kernels can be checked here; 2, something that is needed is missing.")
def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document a line.")] = False) -> None:
    """List every tool that is used, its version, what is missing and the command that mends it."""
    raise typer.Exit(running.run(_doctor(as_json)))


async def _doctor(as_json: bool) -> int:
    settings, problems = load(running.workspace_of(Path.cwd() / "file"))
    reports = await examine(settings)
    if as_json:
        for report in reports:
            typer.echo(json_lines.tool_line(report))
    else:
        for problem in problems:
            typer.echo(words.problem_text(problem), err=True)
        out = console()
        out.print(tools_table(reports))
        remedies = [text for report in reports if (text := words.tool_remedy(report))]
        for line in ("", *remedies, *([""] if remedies else []), words.doctor_sentence(reports)):
            out.print(line)
    return CANNOT_JUDGE if any(report.blocks for report in reports) else PASSED


@app.command()
def explain(
    code: Annotated[str | None, typer.Argument(help="A rule's code or name; without it, all rules are listed.")] = None,
) -> None:
    """What a finding means, why it costs time, how it is measured, and what to do."""
    from kernel_lsp import diagnose

    if code is None:
        for rule in diagnose.RULES:
            typer.echo(words.rule_line(rule.code, rule.name, rule.title))
        return
    named = next((rule.code for rule in diagnose.RULES if rule.name == code.lower()), code)
    page = diagnose.explain(named)
    if page is None:
        raise typer.BadParameter(f"no rule {code!r}; `kernel-lsp explain` lists them")
    out = console()
    if not out.is_terminal:
        typer.echo(page)
        return
    from rich.markdown import Markdown

    out.print(Markdown(page), soft_wrap=False)


@app.command(hidden=True)
def demo(
    folder: Annotated[Path, typer.Argument(help="Folder of folders, each with a kernel and its reference.")],
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write the table there.")] = None,
    confirm: Annotated[bool, typer.Option(help="Also measure each rewrite with torch's own headers.")] = False,
) -> None:
    """Check and optimise every example in a folder."""
    from kernel_lsp.fronts.demo import demonstrate

    raise typer.Exit(running.run(demonstrate(folder, json_file, confirm=confirm)))


# --- what the commands share --------------------------------------------------------------------------------


def exit_code(verdict: Verdict | None) -> int:
    if isinstance(verdict, Passed):
        return PASSED
    return CANNOT_JUDGE if verdict is None or isinstance(verdict, Unjudged) else WRONG


@contextlib.asynccontextmanager
async def _opened(
    file: Path, reference: Path | None, as_json: bool, *, diff: bool = False
) -> AsyncIterator[tuple[Engine, AnyReport, KernelUnit] | int]:
    """Engine, report and unit for `file`; an exit code, the reason told, where it cannot be worked on."""
    problem = running.not_a_kernel(file) or (running.not_a_reference(reference) if reference is not None else None)
    if problem is not None:
        yield _refuse(problem, as_json)
        return
    workspace = running.workspace_of(file)
    settings, problems = load(workspace)
    async with running.engine_for(settings, workspace) as engine:
        unit = _unit(engine, file, reference)
        report: AnyReport
        if as_json:
            report = JsonReport(out=sys.stdout)
        else:
            report = Report(out=console(stderr=diff), unit=unit, with_diff=not diff)
        for each in problems:
            report.take(Noted(problem=each))
        yield engine, report, unit


def _unit(engine: Engine, file: Path, reference: Path | None) -> KernelUnit:
    """The kernel in `file`, judged by `reference` where one is named, whatever the file says."""
    unit = engine.unit(file.absolute())
    if reference is None:
        return unit
    problem = unit.problem
    if problem is not None and "reference" in problem.code:
        problem = None
    return dataclasses.replace(unit, reference=reference.absolute(), problem=problem)


def _refuse(problem: Problem, as_json: bool) -> int:
    if as_json:
        typer.echo(json_lines.line(Noted(problem=problem)))
    else:
        typer.echo(f"kernel-lsp: {words.problem_text(problem)}", err=True)
    return CANNOT_JUDGE
