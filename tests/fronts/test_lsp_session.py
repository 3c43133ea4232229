"""What the editor sees, when: with an engine that the test leads event by event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernel_lsp.domain import (
    BuildFailed,
    Built,
    Diagnosed,
    Finished,
    Judged,
    Noted,
    Problem,
    Profiled,
    Progress,
    Timed,
    Unjudged,
)
from kernel_lsp.fronts.lsp import session
from kernel_lsp.settings import OnSave
from kernel_lsp.source.edits import apply, digest
from tests.fronts import values
from tests.fronts.lsp_talk import LedEngine, Talk, at, span, until

PATH = values.PATH
EDITED = values.TEXT.replace("2.0", "2.0f")


@pytest.fixture(params=["vscode_1.139.1", "neovim_0.11.4"])
async def talk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Talk]:
    async with _talk(request.param, monkeypatch, tmp_path) as talking:
        yield talking


@pytest.fixture
async def code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Talk]:
    """With the extension for VS Code, which shows offers by itself."""
    async with _talk("vscode_1.139.1", monkeypatch, tmp_path, offers=True) as talking:
        yield talking


def _talk(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **options: Any) -> Talk:
    settings = {"cacheDir": str(tmp_path / "cache")}
    talking = Talk(name, {"settings": settings, **options})

    def engine(*arguments: Any, **keywords: Any) -> LedEngine:
        talking.engines.append(LedEngine(*arguments, **keywords))
        return talking.engine

    monkeypatch.setattr(session, "Engine", engine)
    return talking


def of(talking: Talk, number: int = -1) -> Any:
    return talking.engine.units[number]


async def diagnosed(talking: Talk, *codes: str) -> Any:
    """The next publication with exactly these codes."""
    return await talking.notified(
        "textDocument/publishDiagnostics", lambda p: sorted(d["code"] for d in p["diagnostics"]) == sorted(codes)
    )


async def lens_titles(talking: Talk, uri: str) -> list[str]:
    lenses = await talking.ask("textDocument/codeLens", {"textDocument": {"uri": uri}})
    return [lens["command"]["title"] for lens in lenses or []]


async def hovered(talking: Talk, uri: str, line: int, character: int) -> str:
    params = {"textDocument": {"uri": uri}, "position": {"line": line, "character": character}}
    return str((await talking.ask("textDocument/hover", params))["contents"]["value"])


def written(uri: str) -> str:
    """What a file that the editor was told to show holds."""
    return Path(uri.removeprefix("file://")).read_text()


def checked(unit: Any, verdict: Any = values.PASSED) -> list[Any]:
    return [
        Built(unit=unit, build=values.build()),
        Judged(unit=unit, verdict=verdict),
        Timed(unit=unit, timing=values.TIMING, roofline=values.ROOFLINE),
        Profiled(unit=unit, profile=values.PROFILE),
        Diagnosed(unit=unit, findings=(values.FINDING,)),
        None,
    ]


async def save_and_pass(talking: Talk, uri: str, text: str = values.TEXT, number: int = 0) -> None:
    talking.save(uri, text)
    story = await talking.story(number)
    for event in checked(of(talking)):
        story.put_nowait(event)
    # The text alone gives the same code as a hint; the profile makes it a warning.
    await talking.notified(
        "textDocument/publishDiagnostics",
        lambda p: [(d["code"], d["severity"]) for d in p["diagnostics"]] == [("KL501", 2)],
    )


# --- a check ------------------------------------------------------------------------------------------------


async def test_a_save_shows_verdict_times_hints_and_evidence(talk: Talk) -> None:
    uri = talk.open(PATH)
    published = await diagnosed(talk, "KL507")
    assert published["version"] == 1
    assert (await lens_titles(talk, uri))[0] == "… not judged yet"
    await save_and_pass(talk, uri)
    titles = await lens_titles(talk, uri)
    assert titles[0].startswith("✓ matches reference · 20.9 ms · 0.078× torch")
    assert "9 % of the memory limit" in titles[0]
    assert titles[1:] == ["Optimize this kernel", "Open report"]
    whole = {"start": at(0, 0), "end": at(99, 0)}
    hints = await talk.ask("textDocument/inlayHint", {"textDocument": {"uri": uri}, "range": whole})
    line = values.TEXT.splitlines()[5]
    units = len(line.encode()) if talk.capabilities["positionEncoding"] == "utf-8" else len(line)
    assert [(h["label"], h["position"]) for h in hints] == [("97 % of samples", {"line": 5, "character": units})]
    hover = await hovered(talk, uri, 5, 4)
    assert "D1 misses per access" in hover
    assert "must move" in hover
    assert "Matches the reference" in await hovered(talk, uri, 2, 18)


async def test_a_mismatch_stands_on_the_entrys_name(talk: Talk) -> None:
    uri = talk.open(PATH)
    talk.save(uri, values.TEXT)
    story = await talk.story(0)
    story.put_nowait(Judged(unit=of(talk), verdict=values.MISMATCH))
    published = await diagnosed(talk, "KL507", "mismatch")
    verdict = next(d for d in published["diagnostics"] if d["code"] == "mismatch")
    assert verdict["severity"] == 1
    assert verdict["range"] == span(2, 16, 21)
    assert "worst element [16, 2047]: 0.70000 instead of 0.73121" in verdict["message"]
    assert "17 of 34,816 elements" in verdict["message"]
    assert verdict["relatedInformation"][0]["location"]["uri"].endswith("scale.py")
    assert (await lens_titles(talk, uri))[0].startswith("✗ output differs")


async def test_compiler_errors_stand_where_they_are_with_their_notes(talk: Talk) -> None:
    uri = talk.open(PATH)
    talk.save(uri, values.TEXT)
    story = await talk.story(0)
    failed = values.build(values.ERROR, values.WARNING, failed=True)
    story.put_nowait(Built(unit=of(talk), build=failed))
    story.put_nowait(Judged(unit=of(talk), verdict=BuildFailed(messages=failed.messages)))
    published = await talk.notified("textDocument/publishDiagnostics", lambda p: len(p["diagnostics"]) == 3)
    error = next(d for d in published["diagnostics"] if d["severity"] == 1)
    assert error["message"] == "'z' was not declared in this scope"
    assert error["range"] == span(5, 21, 24)
    assert error["relatedInformation"][0]["message"] == "in this function"
    warning = next(d for d in published["diagnostics"] if d["severity"] == 2)
    assert warning["code"] == "-Wunused-variable"


async def test_a_problem_of_the_machine_is_said_once_and_never_in_the_source(talk: Talk) -> None:
    uri = talk.open(PATH)
    for number in range(2):
        talk.save(uri, values.TEXT + "\n" * number)
        story = await talk.story(number)
        no_compiler = Problem(code="no-compiler", message="there is no g++", hint="apt install g++")
        story.put_nowait(Noted(problem=values.NO_PERF))
        story.put_nowait(Judged(unit=of(talk), verdict=Unjudged(problem=no_compiler)))
        story.put_nowait(None)
        await until(lambda number=number: len(talk.engine.ended) == number + 1)
    await talk.settled()
    said = [m["params"]["message"] for m in talk.received if m.get("method") == "window/showMessage"]
    assert len(said) == 2
    assert "sudo sysctl" in said[0]
    assert "apt install g++" in said[1]
    published = [m["params"] for m in talk.received if m.get("method") == "textDocument/publishDiagnostics"]
    assert all(d["code"] == "KL507" for p in published for d in p["diagnostics"])
    assert (await lens_titles(talk, uri))[0] == "? not judged: there is no g++"


# --- nothing stale ------------------------------------------------------------------------------------------


async def test_results_of_a_text_that_was_edited_are_not_shown_and_come_back_with_it(talk: Talk) -> None:
    uri = talk.open(PATH)
    await save_and_pass(talk, uri)
    talk.type(uri, 2, EDITED)
    published = await talk.notified("textDocument/publishDiagnostics", lambda p: p["version"] == 2)
    assert published["diagnostics"] == [] or {d["code"] for d in published["diagnostics"]} == {"KL507"}
    assert (await lens_titles(talk, uri))[0] == "… not judged yet"
    assert await talk.ask("textDocument/inlayHint", {"textDocument": {"uri": uri}, "range": span(5, 0, 9)}) is None
    talk.type(uri, 3, values.TEXT)
    published = await talk.notified("textDocument/publishDiagnostics", lambda p: p["version"] == 3)
    assert {d["code"] for d in published["diagnostics"]} == {"KL501"}
    assert (await lens_titles(talk, uri))[0].startswith("✓")


async def test_events_that_come_after_an_edit_change_nothing_that_is_shown(talk: Talk) -> None:
    uri = talk.open(PATH)
    talk.save(uri, values.TEXT)
    story = await talk.story(0)
    talk.type(uri, 2, EDITED)
    await talk.settled()
    for event in checked(of(talk), values.MISMATCH):
        story.put_nowait(event)
    await until(lambda: talk.engine.ended == ["told"])
    await talk.settled()
    shown = [m["params"] for m in talk.received if m.get("method") == "textDocument/publishDiagnostics"]
    assert all(d["code"] == "KL507" for p in shown for d in p["diagnostics"])
    assert (await lens_titles(talk, uri))[0] == "… not judged yet"


async def test_a_newer_save_cancels_the_older_run(talk: Talk) -> None:
    uri = talk.open(PATH)
    talk.save(uri, values.TEXT)
    await talk.story(0)
    talk.type(uri, 2, EDITED)
    talk.save(uri, EDITED)
    await talk.story(1)
    await until(lambda: bool(talk.engine.ended))
    assert talk.engine.ended[0] in ("CancelledError", "GeneratorExit")
    assert [unit.digest for unit in talk.engine.units] == [digest(values.TEXT), digest(EDITED)]


async def test_saves_in_quick_succession_start_one_check(talk: Talk) -> None:
    uri = talk.open(PATH)
    for version, text in enumerate((values.TEXT, EDITED, values.TEXT + "\n"), start=2):
        talk.type(uri, version, text)
        talk.save(uri, text)
    await talk.story(0)
    await asyncio.sleep(0.2)
    assert [unit.text for unit in talk.engine.units] == [values.TEXT + "\n"]


async def test_saving_the_same_text_again_does_not_restart_its_check(talk: Talk) -> None:
    uri = talk.open(PATH)
    talk.save(uri, values.TEXT)
    await talk.story(0)
    talk.save(uri, values.TEXT)
    await talk.settled()
    await asyncio.sleep(0.2)
    assert len(talk.engine.stories) == 1
    assert talk.engine.ended == []


async def test_nothing_is_published_for_a_closed_file_and_its_check_ends(talk: Talk) -> None:
    uri = talk.open(PATH)
    talk.save(uri, values.TEXT)
    story = await talk.story(0)
    talk.tell("textDocument/didClose", {"textDocument": {"uri": uri}})
    await until(lambda: bool(talk.engine.ended))
    assert talk.engine.ended[0] in ("CancelledError", "GeneratorExit")
    await talk.settled()
    published = [m["params"] for m in talk.received if m.get("method") == "textDocument/publishDiagnostics"]
    assert published[-1]["diagnostics"] == []
    story.put_nowait(Judged(unit=of(talk), verdict=values.MISMATCH))
    await talk.settled()
    assert len([m for m in talk.received if m.get("method") == "textDocument/publishDiagnostics"]) == len(published)


async def test_a_changed_reference_has_its_kernels_judged_again(code: Talk, tmp_path: Path) -> None:
    kernel, reference = tmp_path / "scale.cpp", tmp_path / "scale.py"
    kernel.write_text(values.TEXT)
    reference.write_text("def reference(x):\n    return 2 * x\n\n\ndef inputs():\n    return []\n")
    uri = code.open(kernel)
    await save_and_pass(code, uri)
    reference.write_text(reference.read_text() + "\n")
    for _ in range(2):
        # An editor tells of it twice: as a save and as a change of a watched file.
        code.tell("workspace/didChangeWatchedFiles", {"changes": [{"uri": reference.as_uri(), "type": 2}]})
    story = await code.story(1)
    assert (await lens_titles(code, uri))[0].startswith("✓")
    story.put_nowait(Judged(unit=of(code), verdict=values.MISMATCH))
    await diagnosed(code, "KL507", "mismatch")
    await asyncio.sleep(0.2)
    assert len(code.engine.stories) == 2


async def test_typing_shows_findings_of_the_text_alone(talk: Talk) -> None:
    uri = talk.open(PATH, EDITED.replace("2.0f", "x"))
    await talk.notified("textDocument/publishDiagnostics", lambda p: p["diagnostics"] == [])
    talk.type(uri, 2, values.TEXT)
    published = await diagnosed(talk, "KL507")
    assert published["version"] == 2
    finding = published["diagnostics"][0]
    assert finding["codeDescription"]["href"].endswith("KL507.md")
    assert finding["data"]["finding"] == "KL507"
    assert talk.engine.stories == []


# --- progress and cancelling --------------------------------------------------------------------------------


async def test_progress_is_shown_and_cancel_ends_the_job(talk: Talk) -> None:
    uri = talk.open(PATH)
    token = await talk.run("kernel-lsp.optimize", uri)
    story = await talk.story(0)
    story.put_nowait(Progress(message="trying tile-for-cache", fraction=0.4))
    shown = await talk.notified("$/progress", lambda p: p["value"]["kind"] == "report")
    assert shown == {"token": token, "value": shown["value"]}
    assert (shown["value"]["message"], shown["value"]["percentage"]) == ("trying tile-for-cache", 40)
    talk.tell("window/workDoneProgress/cancel", {"token": token})
    ended = await talk.notified("$/progress", lambda p: p["value"]["kind"] == "end")
    assert ended["token"] == token
    await until(lambda: bool(talk.engine.ended))
    assert talk.engine.ended[0] in ("CancelledError", "GeneratorExit")


async def test_a_check_on_command_runs_whatever_is_set_for_saves(talk: Talk) -> None:
    uri = talk.open(PATH)
    assert await talk.run("kernel-lsp.check", uri)
    await talk.story(0)
    assert talk.engine.asked == [("check", OnSave.PROFILE)]


async def test_shutdown_ends_jobs_and_engine(code: Talk) -> None:
    uri = code.open(PATH)
    await code.run("kernel-lsp.optimize", uri)
    await code.story(0)
    await code.ask("shutdown", None)
    assert code.engine.closed
    assert code.engine.ended[0] in ("CancelledError", "GeneratorExit")
    code.tell("exit", None)
    assert await asyncio.wait_for(code.server, 5) == 0


async def test_a_client_that_vanishes_ends_jobs_and_engine(code: Talk) -> None:
    uri = code.open(PATH)
    code.save(uri, values.TEXT)
    await code.story(0)
    code._writer.close()
    assert await asyncio.wait_for(code.server, 5) == 1
    assert code.engine.closed


async def test_a_long_session_leaves_no_futures_behind(code: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    protocols: list[Any] = []
    original = session.Session.changed

    def changed(self: session.Session, *arguments: Any) -> None:
        protocols.append(self.client._server.protocol)
        original(self, *arguments)

    monkeypatch.setattr(session.Session, "changed", changed)
    uri = code.open(PATH)
    for version in range(2, 300):
        code.type(uri, version, values.TEXT + "\n" * (version % 2))
    await code.settled()
    for number in range(5):
        await save_and_pass(code, uri, values.TEXT + "\n" * number, number)
    await code.settled()
    assert len(protocols[0]._request_futures) < 5
    assert len(protocols[0]._result_types) < 5
    assert not protocols[0].progress.tokens


# --- rewrites -----------------------------------------------------------------------------------------------


async def optimized(talking: Talk, uri: str, *arguments: Any) -> None:
    await talking.run("kernel-lsp.optimize", uri, *arguments)
    story = await talking.story(len(talking.engine.stories))
    story.put_nowait(Finished(unit=of(talking), offer=values.OFFER, reason="nothing else applies"))
    story.put_nowait(None)


async def test_the_extension_is_offered_a_diff_and_applies_it_to_the_version_it_was_made_for(code: Talk) -> None:
    uri = code.open(PATH, version=7)
    applied: list[Any] = []
    code.answers["workspace/applyEdit"] = lambda p: applied.append(p) or {"applied": True}
    await optimized(code, uri)
    offer = await code.notified("kernel-lsp/offer")
    assert (offer["uri"], offer["newText"]) == (uri, values.FASTER)
    assert offer["message"].startswith("12.2× faster")
    await code.run("kernel-lsp.applyOffer", offer["id"])
    await until(lambda: bool(applied))
    (edit,) = applied[0]["edit"]["documentChanges"]
    assert edit["textDocument"] == {"uri": uri, "version": 7}
    assert edit["edits"] == [
        {
            "range": {"start": {"line": 3, "character": 0}, "end": {"line": 5, "character": 0}},
            "newText": values.OFFER.edits[0].new_text,
        }
    ]
    assert apply(values.TEXT, values.OFFER.edits) == values.FASTER


async def test_other_clients_are_asked_see_the_diff_and_apply(talk: Talk) -> None:
    uri = talk.open(PATH)
    picks = iter(("Show diff", "Apply"))
    shown: list[Any] = []
    applied: list[Any] = []
    talk.answers["window/showMessageRequest"] = lambda p: {"title": next(picks)}
    talk.answers["window/showDocument"] = lambda p: shown.append(p) or {"success": True}
    talk.answers["workspace/applyEdit"] = lambda p: applied.append(p) or {"applied": True}
    await optimized(talk, uri, "KL501")
    await until(lambda: bool(applied))
    assert talk.engine.asked[-1] == ("optimize", "KL501")
    diff = written(shown[0]["uri"])
    assert "+\tfor (int64_t i = 0; i < rows; ++i)" in diff
    edit = applied[0]["edit"]
    assert ("documentChanges" in edit) == bool(
        talk.params["capabilities"]["workspace"]["workspaceEdit"].get("documentChanges")
    )


async def test_an_offer_never_lands_on_text_that_has_changed_and_is_kept(code: Talk) -> None:
    uri = code.open(PATH)
    code.answers["workspace/applyEdit"] = lambda p: pytest.fail("was applied")
    await optimized(code, uri)
    offer = await code.notified("kernel-lsp/offer")
    code.type(uri, 2, EDITED)
    await code.run("kernel-lsp.applyOffer", offer["id"])
    said = await code.notified("window/showMessage")
    assert written(said["message"].rpartition(" kept in ")[2].rstrip(".")) == values.FASTER


async def test_an_edit_that_the_editor_refuses_is_said_and_kept(code: Talk) -> None:
    uri = code.open(PATH)
    code.answers["workspace/applyEdit"] = lambda p: {"applied": False, "failureReason": "read-only"}
    await optimized(code, uri)
    offer = await code.notified("kernel-lsp/offer")
    await code.run("kernel-lsp.applyOffer", offer["id"])
    said = await code.notified("window/showMessage")
    assert "read-only" in said["message"]


async def test_without_an_offer_the_reason_is_said(talk: Talk) -> None:
    uri = talk.open(PATH)
    await talk.run("kernel-lsp.optimize", uri)
    story = await talk.story(0)
    story.put_nowait(Finished(unit=of(talk), offer=None, reason="at the memory limit"))
    said = await talk.notified("window/showMessage")
    assert "at the memory limit" in said["message"]


async def test_a_save_of_other_text_stops_the_search_and_says_so(talk: Talk) -> None:
    uri = talk.open(PATH)
    await talk.run("kernel-lsp.optimize", uri)
    await talk.story(0)
    talk.type(uri, 2, EDITED)
    talk.save(uri, EDITED)
    said = await talk.notified("window/showMessage")
    assert "stopped" in said["message"]
    assert talk.engine.ended[0] in ("CancelledError", "GeneratorExit")


# --- actions ------------------------------------------------------------------------------------------------


async def actions(talking: Talk, uri: str, line: int, start: int, end: int) -> list[Any]:
    params = {"textDocument": {"uri": uri}, "range": span(line, start, end), "context": {"diagnostics": []}}
    return await talking.ask("textDocument/codeAction", params) or []


async def test_a_finding_that_a_skill_treats_has_a_quick_fix(talk: Talk) -> None:
    uri = talk.open(PATH)
    await save_and_pass(talk, uri)
    (fix,) = await actions(talk, uri, 5, 5, 5)
    assert fix["kind"] == "quickfix"
    assert fix["command"]["arguments"] == [uri, "KL501"]
    (whole,) = await actions(talk, uri, 2, 17, 17)
    assert (whole["title"], whole["kind"]) == ("Optimize this kernel", "refactor.rewrite")


async def test_a_kernel_without_reference_can_have_a_skeleton_written(talk: Talk, tmp_path: Path) -> None:
    uri = talk.open(tmp_path / "scale.cpp")
    await talk.settled()
    talk.engine.problem = values.NO_REFERENCE
    talk.save(uri, values.TEXT)
    story = await talk.story(0)
    story.put_nowait(Judged(unit=of(talk), verdict=Unjudged(problem=values.NO_REFERENCE)))
    published = await diagnosed(talk, "KL507", "no-reference")
    assert {d["severity"] for d in published["diagnostics"] if d["code"] == "no-reference"} == {3}
    fix = next(a for a in await actions(talk, uri, 2, 17, 17) if a["title"] == "Write a reference skeleton")
    create, fill = fix["edit"]["documentChanges"]
    assert (create["kind"], create["uri"]) == ("create", (tmp_path / "scale.py").as_uri())
    assert create["options"] == {"overwrite": False, "ignoreIfExists": False}
    compile(fill["edits"][0]["newText"], "scale.py", "exec")
    (tmp_path / "scale.py").touch()
    assert all(a["title"] != "Write a reference skeleton" for a in await actions(talk, uri, 2, 17, 17))


async def test_an_ambiguous_entry_can_be_named(talk: Talk) -> None:
    text = values.TEXT + values.TEXT.replace("scale", "shrink")
    uri = talk.open(PATH.with_name("both.cpp"), text)
    await talk.settled()
    talk.engine.problem = replace(values.NO_REFERENCE, code="ambiguous-entry")
    talk.save(uri, text)
    await talk.story(0)
    titles = {a["title"]: a for a in await actions(talk, uri, 0, 0, 0)}
    assert {"Judge `scale`", "Judge `shrink`"} <= set(titles)
    edit = titles["Judge `shrink`"]["edit"]
    changes = edit["documentChanges"][0]["edits"] if "documentChanges" in edit else edit["changes"][uri]
    assert changes == [{"range": span(0, 0, 0), "newText": "// kernel-lsp: entry=shrink\n"}]


# --- settings, trust, other messages ------------------------------------------------------------------------


async def test_an_untrusted_workspace_offers_nothing_that_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with _talk("vscode_1.139.1", monkeypatch, tmp_path, trusted=False) as talking:
        uri = talking.open(PATH)
        await diagnosed(talking, "KL507")
        assert await lens_titles(talking, uri) == ["… not judged yet"]
        assert await actions(talking, uri, 5, 5, 5) == []
        assert not talking.engine.trusted


async def test_new_settings_start_a_new_engine_and_judge_again(code: Talk) -> None:
    uri = code.open(PATH)
    await save_and_pass(code, uri)
    code.tell("workspace/didChangeConfiguration", {"settings": {"kernelLsp": {"onSave": "verify", "compiler": None}}})
    await until(lambda: len(code.engines) == 2)
    assert code.engines[0].closed
    await code.story(0)
    assert code.engine.settings.on_save is OnSave.VERIFY


async def test_a_wrong_setting_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    talking = _talk("neovim_0.11.4", monkeypatch, tmp_path)
    talking.params["initializationOptions"]["settings"]["onSave"] = "sometimes"
    async with talking:
        talking.open(PATH)
        said = await talking.notified("window/showMessage")
        assert "onSave" in said["message"]


async def test_the_report_is_a_file_that_the_editor_opens(talk: Talk) -> None:
    uri = talk.open(PATH)
    shown: list[Any] = []
    talk.answers["window/showDocument"] = lambda p: shown.append(p) or {"success": True}
    await save_and_pass(talk, uri)
    await talk.run("kernel-lsp.report", uri)
    await until(lambda: bool(shown))
    report = written(shown[0]["uri"])
    for part in ("# scale (scale.cpp)", "## Verdict", "## Time", "KL501", "must move"):
        assert part in report


async def test_an_error_inside_a_job_is_one_message(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = talk.open(PATH)
    await talk.settled()

    async def broken(*_: Any, **__: Any) -> AsyncIterator[Any]:
        raise RuntimeError("of ours")
        yield

    monkeypatch.setattr(talk.engine, "check", broken)
    talk.save(uri, values.TEXT)
    said = await talk.notified("window/showMessage")
    assert said["type"] == 1
    assert "RuntimeError" in said["message"]
    assert "Traceback" not in said["message"]


async def test_files_that_are_no_kernels_are_left_alone(talk: Talk) -> None:
    for name, text in (("main.py", "x = 1\n"), ("notes.txt", "")):
        uri = talk.open(PATH.with_name(name), text)
        talk.save(uri, text)
        assert await lens_titles(talk, uri) == []
    talk.tell(
        "textDocument/didOpen", {"textDocument": {"uri": "untitled:1", "languageId": "cpp", "version": 1, "text": ""}}
    )
    talk.tell("textDocument/didChange", {"textDocument": {"uri": "untitled:1", "version": 2}, "contentChanges": []})
    assert await lens_titles(talk, "untitled:1") == []
    assert not any(m.get("method") == "textDocument/publishDiagnostics" for m in talk.received)


async def test_a_request_that_cannot_be_understood_is_answered_with_an_error(code: Talk) -> None:
    code.send({"id": "odd", "method": "textDocument/hover", "params": {"position": "here"}})
    answer = await code.until(lambda m: m.get("id") == "odd")
    assert answer["error"]["code"] == -32602
    code.send({"id": "unknown", "method": "textDocument/nothing", "params": {}})
    answer = await code.until(lambda m: m.get("id") == "unknown")
    assert answer["error"]["code"] == -32601
    await code.settled()
