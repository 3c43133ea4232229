"""An editor over the real server process: pytest-lsp's client with the real capabilities of VS Code or Neovim."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lsprotocol import converters, types
from pytest_lsp import LanguageClient
from pytest_lsp.client import DEFAULT_CLIENT_FEATURES, register_lsp_features
from pytest_lsp.protocol import LanguageClientProtocol

CAPABILITIES = Path(__file__).parent / "capabilities"
CLIENTS = ("vscode_1.139.1", "neovim_0.11.4")

PATIENCE_S = 100.0
"""A test that waits this long has failed; none is meant to measure anything."""

SETTINGS = {"compiledBaseline": False, "optimizeSeconds": 45, "timeoutS": 20}


class EditorProtocol(LanguageClientProtocol):
    def get_result_type(self, method: str) -> Any:
        # lsprotocol takes every code action that has a command for a bare command, and loses all but its title.
        return None if method == types.TEXT_DOCUMENT_CODE_ACTION else super().get_result_type(method)


class Editor(LanguageClient):
    """Documents are what the test says; what the server asks for is done as an obliging user would do it."""

    def __init__(self) -> None:
        super().__init__(protocol_cls=EditorProtocol)
        self.texts: dict[str, str] = {}
        self.versions: dict[str, int] = {}
        self.paths: dict[str, Path] = {}
        self.published: list[types.PublishDiagnosticsParams] = []
        self.offers: list[Any] = []
        self.applied: list[types.ApplyWorkspaceEditParams] = []
        self.questions: list[types.ShowMessageRequestParams] = []
        self.answer: Callable[[types.ShowMessageRequestParams], str | None] = lambda question: "Apply"
        self.refreshes = 0
        _register(self)

    @property
    def pid(self) -> int:
        assert self._server is not None
        return self._server.pid

    @property
    def utf8(self) -> bool:
        return self.encoding == "utf-8"

    async def begin(
        self, client: str, workspace: Path, environment: Mapping[str, str], *, port: int | None = None, **options: Any
    ) -> types.InitializeResult:
        if port is None:
            await self.start_io(sys.executable, "-m", "kernel_lsp", "serve", "--stdio", env=dict(environment))
        else:
            await self.start_tcp("127.0.0.1", port)
        raw = json.loads((CAPABILITIES / f"{client}.json").read_text())
        raw |= {
            "rootUri": workspace.as_uri(),
            "rootPath": str(workspace),
            "workspaceFolders": [{"uri": workspace.as_uri(), "name": workspace.name}],
            "initializationOptions": {"settings": SETTINGS, "offers": client.startswith("vscode"), **options},
        }
        raw.pop("workDoneToken", None)
        params = converters.get_converter().structure(raw, types.InitializeParams)
        result = await self.initialize_session(params)
        self.encoding = result.capabilities.position_encoding
        return result

    async def end(self) -> None:
        if self._server is not None and self._server.returncode is None:
            await asyncio.wait_for(self.shutdown_session(), 20)
        await self.stop()

    # --- what a user does -----------------------------------------------------------------------------------

    def open(self, path: Path) -> str:
        uri, text = path.as_uri(), path.read_text()
        self.texts[uri], self.versions[uri], self.paths[uri] = text, 1, path
        document = types.TextDocumentItem(uri=uri, language_id="cpp", version=1, text=text)
        self.text_document_did_open(types.DidOpenTextDocumentParams(text_document=document))
        return uri

    def type(self, uri: str, old: str, new: str) -> None:
        """Replace the only `old` as typing does: an edit of just that range."""
        before, found, after = self.texts[uri].partition(old)
        assert found
        assert old not in after
        start, end = self._position(before), self._position(before + old)
        self.texts[uri] = before + new + after
        self.versions[uri] += 1
        change = types.TextDocumentContentChangePartial(range=types.Range(start=start, end=end), text=new)
        document = types.VersionedTextDocumentIdentifier(uri=uri, version=self.versions[uri])
        self.text_document_did_change(
            types.DidChangeTextDocumentParams(text_document=document, content_changes=[change])
        )

    def save(self, uri: str) -> None:
        self.paths[uri].write_text(self.texts[uri])
        document = types.TextDocumentIdentifier(uri=uri)
        self.text_document_did_save(types.DidSaveTextDocumentParams(text_document=document, text=self.texts[uri]))

    async def run(self, command: str, *arguments: Any) -> Any:
        return await self.workspace_execute_command_async(
            types.ExecuteCommandParams(command=command, arguments=list(arguments))
        )

    async def lens_titles(self, uri: str) -> list[str]:
        params = types.CodeLensParams(text_document=types.TextDocumentIdentifier(uri=uri))
        lenses = await self.text_document_code_lens_async(params) or []
        return [lens.command.title for lens in lenses if lens.command is not None]

    async def hints(self, uri: str) -> list[types.InlayHint]:
        params = types.InlayHintParams(
            text_document=types.TextDocumentIdentifier(uri=uri), range=_whole(self.texts[uri])
        )
        return list(await self.text_document_inlay_hint_async(params) or [])

    async def hover(self, uri: str, line: int, character: int) -> str:
        params = types.HoverParams(
            text_document=types.TextDocumentIdentifier(uri=uri), position=types.Position(line=line, character=character)
        )
        hover = await self.text_document_hover_async(params)
        assert hover is not None
        assert isinstance(hover.contents, types.MarkupContent)
        return hover.contents.value

    async def actions(self, uri: str, place: types.Range) -> list[types.CodeAction]:
        context = types.CodeActionContext(diagnostics=[d for d in self.diagnostics.get(uri, []) if d.range == place])
        params = types.CodeActionParams(
            text_document=types.TextDocumentIdentifier(uri=uri), range=place, context=context
        )
        found = await self.text_document_code_action_async(params) or []
        return [converters.get_converter().structure(action, types.CodeAction) for action in found]

    # --- what a test waits for ------------------------------------------------------------------------------

    async def shown(self, uri: str, *codes: str) -> dict[str, types.Diagnostic]:
        """The diagnostics by code, once all of `codes` are among them."""
        await self.until(lambda: set(codes) <= {str(d.code) for d in self.diagnostics.get(uri, [])}, f"{codes}")
        return {str(d.code): d for d in self.diagnostics[uri]}

    async def lens(self, uri: str, beginning: str) -> str:
        """The kernel's line, once it begins so."""
        line = ""

        async def begins() -> bool:
            nonlocal line
            line = next(iter(await self.lens_titles(uri)), "")
            return line.startswith(beginning)

        await self.until(begins, f"a lens {beginning!r}")
        return line

    async def job_ended(self, token: str) -> None:
        await self.until(
            lambda: any(isinstance(v, types.WorkDoneProgressEnd) for v in self.progress_reports.get(token, [])),
            f"the end of job {token}",
        )

    async def until(self, true: Callable[[], Any], what: str) -> None:
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while True:
            holds = true()
            if asyncio.iscoroutine(holds):
                holds = await holds
            if holds:
                return
            assert asyncio.get_running_loop().time() < deadline, f"{what} never came; {self._seen()}"
            await asyncio.sleep(0.05)

    def _seen(self) -> str:
        found = {uri: [(d.code, d.message) for d in diagnostics] for uri, diagnostics in self.diagnostics.items()}
        return f"there is {found}; said: {[m.message for m in self.messages]}"

    def _position(self, before: str) -> types.Position:
        line = before.rpartition("\n")[2]
        units = len(line.encode()) if self.utf8 else len(line.encode("utf-16-le")) // 2
        return types.Position(line=before.count("\n"), character=units)

    def apply(self, params: types.ApplyWorkspaceEditParams) -> types.ApplyWorkspaceEditResult:
        """As an editor does: an edit for another version is refused, edits are made from the last to the first."""
        edit = params.edit
        by_uri: dict[str, list[Any]] = {uri: list(edits) for uri, edits in (edit.changes or {}).items()}
        for change in edit.document_changes or []:
            assert isinstance(change, types.TextDocumentEdit)
            document = change.text_document
            if document.version is not None and document.version != self.versions[document.uri]:
                return types.ApplyWorkspaceEditResult(applied=False, failure_reason="changed meanwhile")
            by_uri[document.uri] = list(change.edits)
        self.applied.append(params)
        for uri, edits in by_uri.items():
            self._edit(uri, edits)
        return types.ApplyWorkspaceEditResult(applied=True)

    def _edit(self, uri: str, edits: list[types.TextEdit]) -> None:
        lines = self.texts[uri].splitlines(keepends=True)

        def offset(position: types.Position) -> int:
            line = lines[position.line] if position.line < len(lines) else ""
            codec, width = ("utf-8", 1) if self.utf8 else ("utf-16-le", 2)
            inside = line.encode(codec)[: position.character * width].decode(codec)
            return len("".join(lines[: position.line]) + inside)

        text = self.texts[uri]
        for edit in sorted(edits, key=lambda e: offset(e.range.start), reverse=True):
            text = text[: offset(edit.range.start)] + edit.new_text + text[offset(edit.range.end) :]
        self.texts[uri] = text
        self.versions[uri] += 1
        document = types.VersionedTextDocumentIdentifier(uri=uri, version=self.versions[uri])
        change = types.TextDocumentContentChangeWholeDocument(text=text)
        self.text_document_did_change(
            types.DidChangeTextDocumentParams(text_document=document, content_changes=[change])
        )


def _register(editor: Editor) -> None:
    ours = {types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS}
    register_lsp_features(editor, {name: do for name, do in DEFAULT_CLIENT_FEATURES.items() if name not in ours})

    @editor.feature(types.WORKSPACE_CODE_LENS_REFRESH)
    @editor.feature(types.WORKSPACE_INLAY_HINT_REFRESH)
    def refresh(_: Any) -> None:
        editor.refreshes += 1

    @editor.feature(types.CLIENT_REGISTER_CAPABILITY)
    def register(_: types.RegistrationParams) -> None: ...

    @editor.feature(types.WORKSPACE_APPLY_EDIT)
    def apply(params: types.ApplyWorkspaceEditParams) -> types.ApplyWorkspaceEditResult:
        return editor.apply(params)

    @editor.feature(types.WINDOW_SHOW_MESSAGE_REQUEST)
    def ask(params: types.ShowMessageRequestParams) -> types.MessageActionItem | None:
        editor.questions.append(params)
        picked = editor.answer(params)
        return None if picked is None else types.MessageActionItem(title=picked)

    @editor.feature("kernel-lsp/offer")
    def offer(params: Any) -> None:
        editor.offers.append(params)

    @editor.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def publish(params: types.PublishDiagnosticsParams) -> None:
        editor.published.append(params)
        editor.diagnostics[params.uri] = list(params.diagnostics)


def _whole(text: str) -> types.Range:
    end = types.Position(line=text.count("\n") + 1, character=0)
    return types.Range(start=types.Position(line=0, character=0), end=end)


def alive(pid: int) -> bool:
    """Runs, and is no zombie that waits for its parent."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def descendants(pid: int) -> set[int]:
    """Children of `pid`, theirs and so on."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found |= set(children)
        waiting += children
    return found


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
