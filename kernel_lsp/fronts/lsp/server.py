"""The language server: each message of the protocol handed to the session."""

from __future__ import annotations

import logging
from asyncio import StreamReader, StreamWriter
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer

from kernel_lsp import __version__
from kernel_lsp.fronts.lsp import greeting
from kernel_lsp.fronts.lsp.client import Client
from kernel_lsp.fronts.lsp.positions import Encoding
from kernel_lsp.fronts.lsp.protocol import Protocol
from kernel_lsp.fronts.lsp.session import Session

logger = logging.getLogger(__name__)


class Server(LanguageServer):
    """One client's."""

    protocol: Protocol
    session: Session
    """There from `initialize` on."""
    encoding: Encoding

    def __init__(self) -> None:
        super().__init__(
            "kernel-lsp",
            __version__,
            protocol_cls=Protocol,
            text_document_sync_kind=types.TextDocumentSyncKind.Incremental,
        )
        _register(self)

    async def converse(self, initialize: greeting.Message, reader: StreamReader, writer: StreamWriter) -> bool:
        """Serve a client that was greeted until it goes; whether it took leave with `shutdown`.

        Raises:
            Malformed: where the stream cannot be read on.
        """
        self.encoding = Encoding(greeting.position_encoding(initialize["params"]))
        # The client has its answer to `initialize`; pygls' own is not sent a second time.
        self.protocol.set_writer(_Discard())
        self._take(initialize)
        if not hasattr(self, "session"):
            raise greeting.Malformed("the parameters of `initialize` are not understood")
        self.protocol.set_writer(writer)
        try:
            while (message := await greeting.read(reader)) is not None and message.get("method") != types.EXIT:
                self._take(message)
        finally:
            await self.close()
        return self.protocol.is_shut_down

    async def close(self) -> None:
        await self.session.close()

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Into the log: a mistake of ours is no pop-up in the middle of somebody's typing."""
        logger.error("%s: %s", getattr(source, "__name__", source), error)

    def _take(self, message: greeting.Message) -> None:
        try:
            self.protocol.handle_message(self.protocol.structure_message(message))
        except JsonRpcException as error:
            logger.error("%s: %s", message.get("method"), error)
            if "id" in message:
                respond = self.protocol.refuse if "method" in message else self.protocol.give_up
                respond(message["id"], error)

    # --- documents, from the protocol: pygls would keep copies of its own -----------------------------------

    def did_open(self, params: types.DidOpenTextDocumentParams) -> None:
        document = params.text_document
        self.session.opened(document.uri, document.version, document.text)

    def did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        document = params.text_document
        self.session.changed(document.uri, document.version, list(params.content_changes))

    def did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        self.session.closed(params.text_document.uri)

    def did_cancel(self, params: types.WorkDoneProgressCancelParams) -> None:
        self.session.client.cancel_job(params.token)


class _Discard:
    def write(self, data: bytes) -> None:
        pass

    def close(self) -> None:
        pass


def _register(server: Server) -> None:
    feature, command = server.feature, server.command

    @feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        server.session = Session(Client(server, params, server.encoding), params)

    @feature(types.INITIALIZED)
    def initialized(_: types.InitializedParams) -> None:
        server.session.initialized()

    @feature(types.TEXT_DOCUMENT_DID_SAVE, types.SaveOptions(include_text=True))
    def saved(params: types.DidSaveTextDocumentParams) -> None:
        server.session.saved(params.text_document.uri, params.text)

    @feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def watched(params: types.DidChangeWatchedFilesParams) -> None:
        server.session.watched_changed([change.uri for change in params.changes])

    @feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def configured(params: types.DidChangeConfigurationParams) -> None:
        server.session.configured(params.settings)

    @feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def folders(params: types.DidChangeWorkspaceFoldersParams) -> None:
        event = params.event
        server.session.folders_changed([f.uri for f in event.added], [f.uri for f in event.removed])

    @feature(types.TEXT_DOCUMENT_CODE_LENS)
    def lenses(params: types.CodeLensParams) -> list[types.CodeLens] | None:
        return server.session.lenses(params.text_document.uri)

    @feature(types.TEXT_DOCUMENT_INLAY_HINT)
    def hints(params: types.InlayHintParams) -> list[types.InlayHint] | None:
        return server.session.hints(params.text_document.uri, params.range)

    @feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover | None:
        return server.session.hover(params.text_document.uri, params.position)

    kinds = [types.CodeActionKind(kind) for kind in greeting.CODE_ACTION_KINDS]

    @feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(code_action_kinds=kinds))
    def actions(params: types.CodeActionParams) -> list[types.CodeAction] | None:
        return server.session.actions(params)

    @command("kernel-lsp.check")
    def check(*arguments: Any) -> str | None:
        return server.session.check(_text(arguments, 0))

    @command("kernel-lsp.optimize")
    def optimize(*arguments: Any) -> str | None:
        finding = _text(arguments, 1) if len(arguments) > 1 and arguments[1] is not None else None
        return server.session.optimize(_text(arguments, 0), finding)

    @command("kernel-lsp.applyOffer")
    def apply_offer(*arguments: Any) -> None:
        server.session.apply_offer(_text(arguments, 0))

    @command("kernel-lsp.report")
    def report(*arguments: Any) -> None:
        server.session.report(_text(arguments, 0))

    @command("kernel-lsp.doctor")
    def doctor(*_: Any) -> None:
        server.session.doctor()


def _text(arguments: tuple[Any, ...], index: int) -> str:
    if index < len(arguments) and isinstance(arguments[index], str):
        return str(arguments[index])
    raise JsonRpcInvalidParams.of(TypeError(f"argument {index + 1} must be a string"))
