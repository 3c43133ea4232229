"""The real server, engine, compiler and worker, through each client's own capabilities."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lsprotocol import types

from tests.e2e.conftest import Begin
from tests.e2e.editor import CAPABILITIES, PATIENCE_S, Editor, alive, descendants, kill

pytestmark = [pytest.mark.e2e, pytest.mark.compiler, pytest.mark.torch]

LOOP = "y[i * cols + j] = /* 😋 */ x[i * cols + j] * w[j];"
HAS_PERF = shutil.which("perf") is not None


async def test_from_save_to_verdict_times_hints_and_hover(begin: Begin, client: str, workspace: Path) -> None:
    editor = await begin(client)
    uri = editor.open(workspace / "scale_columns.cpp")
    # While typing, before anything is built: what the text alone tells.
    found = await editor.shown(uri, "KL501")
    assert found["KL501"].severity == types.DiagnosticSeverity.Hint
    assert (await editor.lens_titles(uri))[0] == "… not judged yet"

    editor.save(uri)
    line = await editor.lens(uri, "✓ matches reference · ")
    assert "× torch" in line or "≈ torch" in line
    await editor.until(
        lambda: any(d.severity == types.DiagnosticSeverity.Warning for d in editor.diagnostics[uri]) or not HAS_PERF,
        "a finding that samples bear out",
    )
    assert {p.version for p in editor.published} == {1}
    if HAS_PERF:
        hints = await editor.hints(uri)
        hot = next(hint for hint in hints if hint.position.line == 6)
        assert str(hot.label).endswith("% of samples")
        text = editor.texts[uri].splitlines()[6]
        assert hot.position.character == len(text.encode() if editor.utf8 else text.encode("utf-16-le")) // (
            1 if editor.utf8 else 2
        )
    finding = next(d for d in editor.diagnostics[uri] if d.code == "KL501")
    evidence = await editor.hover(uri, finding.range.start.line, finding.range.start.character)
    assert "| evidence | value | source |" in evidence
    entry = await editor.hover(uri, 3, 20)
    assert "Matches the reference" in entry
    assert "must move" in entry


async def test_a_compiler_error_stands_on_its_characters(begin: Begin, client: str, workspace: Path) -> None:
    editor = await begin(client)
    uri = editor.open(workspace / "scale_columns.cpp")
    editor.type(uri, "x[i * cols + j] * w[j]", "x[i * cols + j] * v[j]")
    editor.save(uri)
    await editor.until(
        lambda: any(d.severity == types.DiagnosticSeverity.Error for d in editor.diagnostics.get(uri, [])), "an error"
    )
    error = next(d for d in editor.diagnostics[uri] if d.severity == types.DiagnosticSeverity.Error)
    assert "‘v’ was not declared" in error.message
    before = editor.texts[uri].splitlines()[6].partition("v[j]")[0]
    units = len(before.encode()) if editor.utf8 else len(before.encode("utf-16-le")) // 2
    assert error.range.start == types.Position(line=6, character=units)
    assert error.range.end == types.Position(line=6, character=units + 1)
    assert await editor.lens(uri, "✗ does not compile")

    # Mended, the error goes.
    editor.type(uri, "v[j]", "w[j]")
    editor.save(uri)
    await editor.lens(uri, "✓")
    assert not any(d.severity == types.DiagnosticSeverity.Error for d in editor.diagnostics[uri])


async def test_a_wrong_kernel_is_refused_with_its_worst_element(begin: Begin, workspace: Path) -> None:
    editor = await begin()
    uri = editor.open(workspace / "scale_columns.cpp")
    editor.type(uri, "i < rows", "i < rows - 1")
    editor.save(uri)
    verdict = (await editor.shown(uri, "mismatch"))["mismatch"]
    assert verdict.severity == types.DiagnosticSeverity.Error
    assert "instead of" in verdict.message
    assert verdict.range.start.line == 3
    assert (await editor.lens_titles(uri))[0].startswith("✗")
    assert await editor.hints(uri) == []


async def test_a_kernel_that_crashes_is_one_message_and_the_server_lives(begin: Begin, workspace: Path) -> None:
    editor = await begin()
    uri = editor.open(workspace / "scale_columns.cpp")
    fault = "*(volatile int*)nullptr = 1; "
    loop = "for (int64_t j = 0; j < cols; ++j) {"
    editor.type(uri, loop, fault + loop)
    editor.save(uri)
    verdict = (await editor.shown(uri, "crashed"))["crashed"]
    assert "segmentation fault" in verdict.message.lower()
    editor.type(uri, fault, "")
    editor.save(uri)
    await editor.lens(uri, "✓")


async def test_a_newer_save_overtakes_the_older_and_nothing_stale_is_shown(begin: Begin, workspace: Path) -> None:
    editor = await begin()
    uri = editor.open(workspace / "scale_columns.cpp")
    editor.type(uri, "i < rows", "i < rows - 1")
    editor.save(uri)
    await asyncio.sleep(0.5)
    editor.type(uri, "i < rows - 1", "i < rows")
    version = editor.versions[uri]
    editor.save(uri)
    await editor.lens(uri, "✓")
    late = [p for p in editor.published if p.version == version]
    assert late
    assert not any(d.code == "mismatch" for p in late for d in p.diagnostics)


async def test_a_rewrite_is_offered_applied_and_judged(begin: Begin, client: str, workspace: Path) -> None:
    editor = await begin(client)
    path = workspace / "scale_columns.cpp"
    uri = editor.open(path)
    before = editor.texts[uri]
    finding = (await editor.shown(uri, "KL501"))["KL501"]
    fixes = [a for a in await editor.actions(uri, finding.range) if a.kind == types.CodeActionKind.QuickFix]
    fix = next(a for a in fixes if a.diagnostics and a.diagnostics[0].code == "KL501")
    assert fix.command is not None
    token = await editor.run(fix.command.command, *(fix.command.arguments or []))
    await editor.job_ended(token)
    if client.startswith("vscode"):
        await editor.until(lambda: editor.offers, "an offer")
        offer = editor.offers[0]
        assert "× faster" in offer["message"] if isinstance(offer, dict) else offer.message
        await editor.run("kernel-lsp.applyOffer", offer["id"] if isinstance(offer, dict) else offer.id)
    await editor.until(lambda: editor.applied, "an edit")
    after = editor.texts[uri]
    assert after != before
    # The rewrite leaves the rest of the file byte for byte.
    assert after.splitlines()[:4] == before.splitlines()[:4]
    assert path.read_text() == before
    editor.save(uri)
    await editor.lens(uri, "✓")


async def test_an_optimization_can_be_cancelled(begin: Begin, workspace: Path) -> None:
    editor = await begin()
    uri = editor.open(workspace / "scale_columns.cpp")
    token = await editor.run("kernel-lsp.optimize", uri)
    await editor.until(lambda: len(editor.progress_reports.get(token, [])) > 1, "progress")
    editor.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams(token=token))
    await editor.job_ended(token)
    assert not editor.offers
    # Only the worker is left of all that was running.
    await editor.until(lambda: len(descendants(editor.pid)) <= 2, "the end of all jobs' processes")


async def test_without_a_reference_a_skeleton_can_be_written(begin: Begin, client: str, workspace: Path) -> None:
    editor = await begin(client)
    uri = editor.open(workspace / "alone.cpp")
    editor.save(uri)
    missing = (await editor.shown(uri, "no-reference"))["no-reference"]
    assert missing.severity == types.DiagnosticSeverity.Information
    skeleton = next(a for a in await editor.actions(uri, missing.range) if a.title == "Write a reference skeleton")
    assert skeleton.edit is not None
    assert skeleton.edit.document_changes is not None
    create, fill = skeleton.edit.document_changes
    assert isinstance(create, types.CreateFile)
    assert isinstance(fill, types.TextDocumentEdit)
    reference = workspace / "alone.py"
    assert create.uri == reference.as_uri()

    # Filled in and saved, it has the kernel judged.
    text = str(getattr(fill.edits[0], "new_text", ""))
    assert "raise NotImplementedError" in text
    body = next(line for line in text.splitlines() if "raise NotImplementedError" in line)
    reference.write_text(text.replace(body, "    return 2.0 * x"))
    change = types.FileEvent(uri=reference.as_uri(), type=types.FileChangeType.Created)
    editor.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams(changes=[change]))
    await editor.lens(uri, "✓")


async def test_in_an_untrusted_workspace_nothing_is_run(begin: Begin, workspace: Path) -> None:
    editor = await begin(trusted=False)
    uri = editor.open(workspace / "scale_columns.cpp")
    found = await editor.shown(uri, "KL501")
    for _ in range(2):
        editor.save(uri)
        await editor.until(lambda: editor.messages, "a word on trust")
    assert await editor.actions(uri, found["KL501"].range) == []
    assert len([m for m in editor.messages if "not trusted" in m.message]) == 1
    assert descendants(editor.pid) == set()


async def test_two_editors_on_one_workspace(begin: Begin, workspace: Path) -> None:
    editors = [await begin("vscode_1.139.1"), await begin("neovim_0.11.4")]
    uris = [editor.open(workspace / "scale_columns.cpp") for editor in editors]
    for editor, uri in zip(editors, uris, strict=True):
        editor.save(uri)
    for editor, uri in zip(editors, uris, strict=True):
        await editor.lens(uri, "✓")


async def test_a_file_that_is_deleted_during_its_run_harms_nothing(begin: Begin, workspace: Path) -> None:
    editor = await begin()
    uri = editor.open(workspace / "scale_columns.cpp")
    editor.save(uri)
    (workspace / "scale_columns.cpp").unlink()
    (workspace / "scale_columns.py").unlink()
    closed = types.DidCloseTextDocumentParams(text_document=types.TextDocumentIdentifier(uri=uri))
    await asyncio.sleep(0.3)
    editor.text_document_did_close(closed)
    await editor.until(lambda: editor.diagnostics.get(uri) == [], "a cleared file")
    other = editor.open(workspace / "alone.cpp")
    editor.save(other)
    await editor.shown(other, "no-reference")
    assert editor.diagnostics[uri] == []


_CLIENT = """
import json, os, subprocess, sys, time
PIPE = subprocess.PIPE
server = subprocess.Popen([sys.executable, "-m", "kernel_lsp", "serve", "--stdio"], stdin=PIPE, stdout=PIPE)
heir = 0
if sys.argv[4] == "True":
    heir = os.fork()
    if heir == 0:
        time.sleep(600)
        os._exit(0)
def send(message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    server.stdin.write(b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body)
    server.stdin.flush()
params, uri, text = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
params["processId"] = os.getpid()
send({"id": 1, "method": "initialize", "params": params})
send({"method": "initialized", "params": {}})
document = {"uri": uri, "languageId": "cpp", "version": 1, "text": text}
send({"method": "textDocument/didOpen", "params": {"textDocument": document}})
send({"method": "textDocument/didSave", "params": {"textDocument": {"uri": uri}, "text": text}})
print(server.pid, heir, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("stdin_survives", [False, True])
async def test_when_the_editor_is_killed_everything_ends(
    workspace: Path, environment: dict[str, str], stdin_survives: bool
) -> None:
    """Also where somebody else holds the server's standard input open, so that only the process id tells."""
    params = (CAPABILITIES / "vscode_1.139.1.json").read_text()
    path = workspace / "scale_columns.cpp"
    endless = path.read_text().replace("++i", "i += 0")
    path.write_text(endless)
    editor = subprocess.Popen(  # noqa: ASYNC220 - it is killed, not awaited
        [sys.executable, "-c", _CLIENT, params, path.as_uri(), endless, str(stdin_survives)],
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    )
    assert editor.stdout is not None
    server, heir = map(int, editor.stdout.readline().split())
    try:
        await _until(lambda: len(descendants(server)) >= 2)
        processes = {server, *descendants(server)}
        kill(editor.pid)
        await _until(lambda: not any(map(alive, processes)))
        assert alive(heir) == stdin_survives
    finally:
        if heir:
            kill(heir)
        editor.kill()
        editor.wait()


async def _until(true: object) -> None:
    assert callable(true)
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


async def test_several_clients_over_tcp(workspace: Path, environment: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = (sys.executable, "-m", "kernel_lsp", "serve", "--tcp", f"127.0.0.1:{port}")
    server = await asyncio.create_subprocess_exec(*command, env=environment, stderr=subprocess.PIPE)
    assert server.stderr is not None
    try:
        assert b"listens" in await server.stderr.readline()
        for client in ("vscode_1.139.1", "neovim_0.11.4"):
            editor = Editor()
            await editor.begin(client, workspace, environment, port=port)
            uri = editor.open(workspace / "scale_columns.cpp")
            await editor.shown(uri, "KL501")
            await editor.shutdown_session()
            editor.exit(None)
            editor._stop_event.set()
    finally:
        server.terminate()
        assert await asyncio.wait_for(server.wait(), 20) == 0
