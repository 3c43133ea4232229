"""The editor as we speak to it: each thing we may ask of it, in the form that it understands."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from kernel_lsp.fronts.lsp.positions import Encoding
from kernel_lsp.fronts.lsp.uris import to_uri

ANSWER_S = 5.0
"""For a question that the client answers by itself, without asking anyone."""

WATCHED = ("**/*.{py,cpp,cc,cxx,h,hh,hpp,hxx,cu,cuh}", "**/{pyproject,kernel-lsp}.toml")

logger = logging.getLogger(__name__)


class Client:
    def __init__(self, server: LanguageServer, params: types.InitializeParams, encoding: Encoding) -> None:
        self._server = server
        self._capabilities = params.capabilities
        self.encoding = encoding
        options = params.initialization_options
        self.shows_offers = isinstance(options, dict) and options.get("offers") is True
        """Knows our notification `kernel-lsp/offer` and shows a diff with Apply and Discard."""
        self._jobs: dict[str | int, asyncio.Task[None]] = {}

    def can(self, capability: str) -> bool:
        return bool(get_capability(self._capabilities, capability, False))

    @property
    def reads_markdown(self) -> bool:
        formats = get_capability(self._capabilities, "text_document.hover.content_format", None) or []
        return types.MarkupKind.Markdown in formats

    @property
    def creates_files(self) -> bool:
        operations = get_capability(self._capabilities, "workspace.workspace_edit.resource_operations", None) or []
        return types.ResourceOperationKind.Create in operations

    @property
    def versions_edits(self) -> bool:
        return self.can("workspace.workspace_edit.document_changes")

    def publish(self, uri: str, version: int | None, diagnostics: Sequence[types.Diagnostic]) -> None:
        self._server.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri=uri, diagnostics=list(diagnostics), version=version)
        )

    def refresh(self) -> None:
        """Have lenses and hints asked for again."""
        if self.can("workspace.code_lens.refresh_support"):
            self._ask(types.WORKSPACE_CODE_LENS_REFRESH, None)
        if self.can("workspace.inlay_hint.refresh_support"):
            self._ask(types.WORKSPACE_INLAY_HINT_REFRESH, None)

    def say(self, text: str, kind: types.MessageType = types.MessageType.Info) -> None:
        self._server.window_show_message(types.ShowMessageParams(type=kind, message=text))

    def warn(self, text: str) -> None:
        self.say(text, types.MessageType.Warning)

    def log(self, text: str, kind: types.MessageType = types.MessageType.Info) -> None:
        self._server.window_log_message(types.LogMessageParams(type=kind, message=text))

    async def choose(self, text: str, options: Sequence[str]) -> str | None:
        """What the user picked; None where the question was dismissed. Waits as long as that takes."""
        with contextlib.suppress(JsonRpcException):
            picked = await self._server.window_show_message_request_async(
                types.ShowMessageRequestParams(
                    type=types.MessageType.Info,
                    message=text,
                    actions=[types.MessageActionItem(title=option) for option in options],
                )
            )
            return None if picked is None else picked.title
        return None

    async def open(self, path: Path) -> None:
        """Show a file; where the client cannot, say where it is."""
        if self.can("window.show_document.support"):
            params = types.ShowDocumentParams(uri=to_uri(path), take_focus=True)
            with contextlib.suppress(JsonRpcException, asyncio.TimeoutError):
                shown = await asyncio.wait_for(self._server.window_show_document_async(params), ANSWER_S)
                if shown.success:
                    return
        self.say(f"Written to {path}")

    async def apply(self, edit: types.WorkspaceEdit, label: str) -> str | None:
        """Apply an edit; None where it was applied, else the client's reason, which may be empty."""
        try:
            result = await self._server.workspace_apply_edit_async(
                types.ApplyWorkspaceEditParams(edit=edit, label=label)
            )
        except JsonRpcException as error:
            return str(error)
        return None if result.applied else result.failure_reason or ""

    def edit_of(self, uri: str, version: int | None, edits: Sequence[types.TextEdit]) -> types.WorkspaceEdit:
        """Edits of one document, tied to its version where the client checks that. `None`: it is not open."""
        if not self.versions_edits:
            return types.WorkspaceEdit(changes={uri: list(edits)})
        document = types.OptionalVersionedTextDocumentIdentifier(uri=uri, version=version)
        return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(text_document=document, edits=list(edits))])

    def offer(self, params: dict[str, Any]) -> None:
        self._server.protocol.notify("kernel-lsp/offer", params)

    async def configuration(self, section: str) -> Any:
        """The settings under `section`; None where the client does not serve them."""
        if not self.can("workspace.configuration"):
            return None
        params = types.ConfigurationParams(items=[types.ConfigurationItem(section=section)])
        with contextlib.suppress(JsonRpcException, asyncio.TimeoutError):
            values = await asyncio.wait_for(self._server.workspace_configuration_async(params), ANSWER_S)
            return values[0] if values else None
        return None

    def watch_files(self) -> None:
        """Be told of changes to references, headers and settings, where the client can watch."""
        if not self.can("workspace.did_change_watched_files.dynamic_registration"):
            return
        options = types.DidChangeWatchedFilesRegistrationOptions(
            watchers=[types.FileSystemWatcher(glob_pattern=pattern) for pattern in WATCHED]
        )
        registration = types.Registration(
            id="watched-files", method=types.WORKSPACE_DID_CHANGE_WATCHED_FILES, register_options=options
        )
        self._ask(types.CLIENT_REGISTER_CAPABILITY, types.RegistrationParams(registrations=[registration]))

    # --- progress -------------------------------------------------------------------------------------------

    def token(self) -> str:
        """A name for a job, under which its progress is shown and it can be cancelled."""
        return uuid.uuid4().hex

    def job_started(self, token: str, task: asyncio.Task[None]) -> None:
        self._jobs[token] = task
        task.add_done_callback(lambda _: self._jobs.pop(token, None))

    def cancel_job(self, token: str | int) -> None:
        if (task := self._jobs.get(token)) is not None:
            task.cancel()

    async def begin_progress(self, token: str, title: str, *, measured: bool) -> Progress:
        """Progress of the job `token`, silent where the client shows none. `measured`: as a share of the whole."""
        if not self.can("window.work_done_progress"):
            return Progress(self._server, None)
        create = self._server.window_work_done_progress_create_async(types.WorkDoneProgressCreateParams(token=token))
        try:
            await asyncio.wait_for(create, ANSWER_S)
        except (JsonRpcException, asyncio.TimeoutError):
            return Progress(self._server, None)
        progress = Progress(self._server, token)
        progress.begin(title, measured)
        return progress

    def _ask(self, method: str, params: Any) -> None:
        """A request whose answer changes nothing."""
        self._server.protocol.send_request(method, params).add_done_callback(_log_failure)


class Progress:
    def __init__(self, server: LanguageServer, token: str | None) -> None:
        self._server = server
        self._token = token

    def begin(self, title: str, measured: bool) -> None:
        start = 0 if measured else None
        self._send(types.WorkDoneProgressBegin(title=title, cancellable=True, percentage=start))

    def report(self, message: str, fraction: float | None = None) -> None:
        percentage = None if fraction is None else round(100 * min(1.0, max(0.0, fraction)))
        self._send(types.WorkDoneProgressReport(message=message, cancellable=True, percentage=percentage))

    def end(self, message: str | None = None) -> None:
        self._send(types.WorkDoneProgressEnd(message=message))
        self._token = None

    def _send(self, value: Any) -> None:
        if self._token is not None:
            self._server.progress(types.ProgressParams(token=self._token, value=value))


def _log_failure(future: Any) -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        logger.info("the client refused a request: %s", error)
