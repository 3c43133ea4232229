"""The command line over a scripted engine: what is printed where, exit codes, and files left whole."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from click.testing import Result
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

from kernel_lsp import __version__
from kernel_lsp.domain import (
    Attempt,
    BuildFailed,
    Built,
    Crashed,
    Event,
    Finished,
    Interval,
    Judged,
    Noted,
    Outcome,
    Tried,
    Unjudged,
    Verdict,
)
from kernel_lsp.fronts import running
from kernel_lsp.fronts.commands import address, app, write_offer
from kernel_lsp.fronts.terminal import unified
from kernel_lsp.settings import OnSave
from tests.fronts import values
from tests.fronts.fake import FakeEngine, checked, searched

FASTER = Attempt(
    number=1,
    parent="p",
    base="p",
    fingerprint="f",
    skill="interchange-loops",
    parameters=(),
    outcome=Outcome.FASTER,
    speedup=Interval(low=11.9, mid=12.2, high=12.4),
    detail="",
)


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    path = tmp_path / "scale.cpp"
    path.write_bytes(values.TEXT.encode())
    return path


def scripted(monkeypatch: pytest.MonkeyPatch, engine: FakeEngine) -> FakeEngine:
    monkeypatch.setattr(running, "Engine", lambda *_, **__: engine)
    return engine


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


# --- check --------------------------------------------------------------------------------------------------


def test_a_report_of_a_slow_kernel(kernel: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion) -> None:
    unit = replace(values.UNIT, path=kernel)
    profile = replace(
        values.PROFILE,
        lines=tuple(replace(line, location=replace(line.location, path=kernel)) for line in values.PROFILE.lines),
    )
    events: list[Event] = [Built(unit=unit, build=values.build()), *checked(unit, values.PASSED)]
    events[5] = replace(events[5], profile=profile)  # type: ignore[call-arg]
    events += [Noted(problem=values.NO_PERF), Noted(problem=values.NO_PERF)]
    engine = scripted(monkeypatch, FakeEngine(events))
    result = invoke("check", kernel)
    assert result.stdout == snapshot
    assert result.exit_code == 0
    assert engine.levels == [OnSave.PROFILE]
    assert engine.closed == 1


def test_compiler_messages_with_their_lines(
    kernel: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    unit = replace(values.UNIT, path=kernel)
    error = replace(values.ERROR, location=replace(values.ERROR.location, path=kernel))  # type: ignore[type-var]
    build = values.build(error, *[values.WARNING] * 12, failed=True)
    events: list[Event] = [
        Built(unit=unit, build=build),
        Judged(unit=unit, verdict=BuildFailed(messages=build.messages)),
    ]
    scripted(monkeypatch, FakeEngine(events))
    result = invoke("check", kernel)
    assert result.exit_code == 1
    assert result.stdout == snapshot


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        (values.PASSED, 0),
        (values.MISMATCH, 1),
        (BuildFailed(messages=()), 1),
        (Crashed(what="\x1b[2Jsegmentation fault", workload=None, output_tail="\x1b]0;title\x07"), 1),
        (Unjudged(problem=values.NO_REFERENCE), 2),
    ],
)
def test_exit_codes(verdict: Verdict, code: int, kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, FakeEngine([Judged(unit=values.UNIT, verdict=verdict)]))
    result = invoke("check", kernel)
    assert result.exit_code == code
    assert "\x1b" not in result.output
    assert invoke("check", kernel, "--json").exit_code == code


def test_without_a_verdict_nothing_is_claimed(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, FakeEngine([]))
    assert invoke("check", kernel).exit_code == 2


def test_json_is_one_document_for_each_event(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = checked(values.UNIT, values.PASSED)
    scripted(monkeypatch, FakeEngine(events))
    result = invoke("check", kernel, "--json", "--no-profile")
    assert [json.loads(line)["class"] for line in result.stdout.splitlines()] == [type(e).__name__ for e in events]
    assert result.stderr == ""


def test_a_named_reference_is_used(kernel: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    engine = scripted(monkeypatch, FakeEngine([]))
    reference = tmp_path / "elsewhere.py"
    reference.write_text("", encoding="utf-8")
    invoke("check", kernel, "--reference", reference)
    assert engine.units[0].reference == reference
    missing = invoke("check", kernel, "--reference", tmp_path / "nowhere.py")
    assert missing.exit_code == 2
    assert "nowhere.py does not exist" in missing.stderr


# --- what is no kernel --------------------------------------------------------------------------------------


def bad_files(folder: Path) -> dict[str, Path]:
    latin, text, fifo, pointing = (folder / name for name in ("latin.cpp", "notes.txt", "fifo.cpp", "pointing.cpp"))
    latin.write_bytes("// Größe\n".encode("latin-1"))
    text.write_text("nothing", encoding="utf-8")
    os.mkfifo(fifo)
    pointing.symlink_to(folder / "gone.cpp")
    return {
        "missing": folder / "gone.cpp",
        "folder": folder,
        "latin": latin,
        "text": text,
        "fifo": fifo,
        "dangling": pointing,
        "under a file": text / "kernel.cpp",
    }


@pytest.mark.parametrize("kind", ["missing", "folder", "latin", "text", "fifo", "dangling", "under a file"])
@pytest.mark.parametrize("command", ["check", "optimize"])
def test_what_is_no_kernel_is_refused_in_one_line(kind: str, command: str, tmp_path: Path) -> None:
    path = bad_files(tmp_path)[kind]
    result = invoke(command, path)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert str(path) in result.stderr
    document = json.loads(invoke(command, path, "--json").stdout)
    assert document["class"] == "Noted"
    assert document["problem"]["hint"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_refused(kernel: Path) -> None:
    kernel.chmod(0)
    result = invoke("check", kernel)
    assert result.exit_code == 2
    assert "Permission denied" in result.stderr


# --- optimize -----------------------------------------------------------------------------------------------


def optimizing(monkeypatch: pytest.MonkeyPatch, kernel: Path, finished: Finished | None = None) -> FakeEngine:
    unit = replace(values.UNIT, path=kernel)
    script = searched(unit, Tried(unit=unit, attempt=FASTER), finished=finished)
    return scripted(monkeypatch, FakeEngine(checked(unit, values.PASSED)[:4], script))


def test_an_offer_is_shown_and_nothing_written(
    kernel: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    optimizing(monkeypatch, kernel)
    result = invoke("optimize", kernel)
    assert result.exit_code == 0
    assert result.stdout == snapshot
    assert kernel.read_bytes() == values.TEXT.encode()


def test_apply_writes_the_offer(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    optimizing(monkeypatch, kernel)
    kernel.chmod(0o640)
    result = invoke("optimize", kernel, "--apply")
    assert result.exit_code == 0
    assert "Applied" in result.stdout
    assert kernel.read_bytes() == values.FASTER.encode()
    assert stat.S_IMODE(kernel.stat().st_mode) == 0o640
    assert [path.name for path in kernel.parent.iterdir()] == [kernel.name]


def test_diff_leaves_only_the_patch_on_standard_output(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    optimizing(monkeypatch, kernel)
    result = invoke("optimize", kernel, "--diff")
    assert result.stdout.startswith("--- a/scale.cpp\n+++ b/scale.cpp\n@@")
    assert "12.2× faster" in result.stderr
    assert "12.2× faster" not in result.stdout


def test_nothing_faster_is_no_failure(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    optimizing(monkeypatch, kernel, Finished(unit=values.UNIT, offer=None, reason="at the memory limit"))
    result = invoke("optimize", kernel, "--apply")
    assert result.exit_code == 0
    assert "No faster kernel" in result.stdout
    assert kernel.read_bytes() == values.TEXT.encode()


def test_a_wrong_kernel_is_not_optimised(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = optimizing(monkeypatch, kernel)
    engine.checked = [Judged(unit=values.UNIT, verdict=values.MISMATCH)]
    result = invoke("optimize", kernel)
    assert result.exit_code == 1
    assert "interchange-loops" not in result.stdout


def test_an_offer_never_lands_on_a_text_that_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "scale.cpp"
    path.write_text(values.TEXT + "// edited meanwhile\n", encoding="utf-8")
    before = path.read_bytes()
    problem = write_offer(replace(values.UNIT, path=path), values.OFFER)
    assert problem is not None
    assert problem.code == "file-changed"
    assert path.read_bytes() == before


def test_line_ends_and_links_survive(tmp_path: Path) -> None:
    real, link = tmp_path / "real.cpp", tmp_path / "link.cpp"
    text, faster = values.TEXT.replace("\n", "\r\n"), values.FASTER.replace("\n", "\r\n")
    real.write_bytes(text.encode())
    link.symlink_to(real)
    unit, offer = replace(values.UNIT, path=link, text=text), replace(values.OFFER, new_text=faster)
    assert write_offer(unit, offer) is None
    assert link.is_symlink()
    assert real.read_bytes() == faster.encode()


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@pytest.mark.parametrize("change", ["plain", "crlf", "form feed", "no newline at the end"])
def test_the_patch_applies(change: str, tmp_path: Path) -> None:
    def changed(text: str) -> str:
        match change:
            case "crlf":
                return text.replace("\n", "\r\n")
            case "form feed":
                return text.replace("\n\t", "\n\f\v\u2028\t")
            case "no newline at the end":
                return text.rstrip("\n")
        return text

    before, after = changed(values.TEXT), changed(values.FASTER)
    path = tmp_path / "scale.cpp"
    path.write_bytes(before.encode())
    lines = unified(replace(values.UNIT, path=path, text=before), replace(values.OFFER, new_text=after))
    patch = "".join(lines).encode()
    subprocess.run(["git", "apply", "-p1", "-"], input=patch, cwd=tmp_path, check=True)
    assert path.read_bytes() == after.encode()


# --- the rest -----------------------------------------------------------------------------------------------


def test_addresses() -> None:
    assert address("127.0.0.1:2087") == ("127.0.0.1", 2087)
    assert address(":2087") == ("127.0.0.1", 2087)
    assert address("[::1]:2087") == ("::1", 2087)
    for wrong in ("2087", "host:", "host:0", "host:65536", "host:-1", "host:²"):
        with pytest.raises(typer.BadParameter):
            address(wrong)


def test_version_and_usage() -> None:
    assert invoke("--version").stdout == f"kernel-lsp {__version__}\n"
    assert invoke("check").exit_code == 2
    assert invoke("nonsense").exit_code == 2
    assert invoke("optimize", "a.cpp", "--json", "--diff").exit_code == 2
    assert invoke("serve", "--stdio", "--tcp", ":1").exit_code == 2
    assert "130 after Ctrl-C" in " ".join(invoke("check", "--help").stdout.split())


def test_explain() -> None:
    listed = invoke("explain").stdout
    assert "KL501" in listed
    page = invoke("explain", "kl501").stdout
    assert page.startswith("# KL501")
    assert invoke("explain", "strided-inner-access").stdout == page
    unknown = invoke("explain", "KL999")
    assert unknown.exit_code == 2
    assert "KL999" in unknown.stderr


def test_the_documentation_names_every_command_and_option() -> None:
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for name, command in commands.items():
        if command.hidden:
            continue
        assert f"kernel-lsp {name}" in page
        for parameter in command.params:
            for option in parameter.opts:
                assert not option.startswith("--") or option == "--help" or option in page, (name, option)


def test_editors_do_not_wait_for_what_they_do_not_use() -> None:
    heavy = {"typer", "rich", "pygls", "lsprotocol", "kernel_lsp.engine", "kernel_lsp.fronts.commands", "torch"}
    code = f"import sys, kernel_lsp.fronts.cli; print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cancels_the_work_and_waits_for_its_end(number: signal.Signals) -> None:
    ended: list[str] = []

    async def work() -> int:
        try:
            os.kill(os.getpid(), number)
            await asyncio.sleep(30)
        finally:
            await asyncio.sleep(0)
            ended.append("cleaned up")
        return 0

    assert running.run(work()) == 128 + number
    assert ended == ["cleaned up"]


def test_a_cancelled_check_still_tells_its_verdict(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(FakeEngine):
        async def check(self, unit, level=None):  # type: ignore[no-untyped-def]
            for event in self.checked:
                yield event
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(30)

    engine = scripted(monkeypatch, Interrupted(checked(values.UNIT, values.PASSED)))
    result = invoke("check", kernel)
    assert result.exit_code == 130
    assert "✓ matches reference" in result.stdout
    assert engine.closed == 1


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    script = f"{sys.executable} -m kernel_lsp explain KL501 | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == ""
