"""pygls' protocol with what a long session needs: nothing leaks, shutdown is orderly, documents are ours."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.protocol import LanguageServerProtocol
from pygls.protocol.language_server import lsp_method

if TYPE_CHECKING:
    from kernel_lsp.fronts.lsp.server import Server

logger = logging.getLogger(__name__)


class Protocol(LanguageServerProtocol):
    _server: Server

    @property
    def is_shut_down(self) -> bool:
        return self._shutdown

    def refuse(self, id: str | int, error: JsonRpcException) -> None:
        """Answer a request that could not even be understood."""
        self._send_response(id, None, error.to_response_error())

    def give_up(self, id: str | int, error: JsonRpcException) -> None:
        """The answer to a question of ours could not be understood."""
        self._result_types.pop(id, None)
        future = self._request_futures.pop(id, None)
        if future is not None and not future.done():
            future.set_exception(error)

    def _execute_handler(
        self,
        msg_id: str | int,
        handler: Callable[..., Any],
        callback: Callable[[Future[Any]], None],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        # pygls never drops the futures of notifications: an entry for every key that is pressed.
        def finished(future: Future[Any]) -> None:
            self._request_futures.pop(msg_id, None)
            callback(future)

        super()._execute_handler(msg_id, handler, finished, args, kwargs)

    def _handle_response(
        self, msg_id: str | int, result: Any | None = None, error: types.ResponseError | None = None
    ) -> None:
        self._result_types.pop(msg_id, None)
        future = self._request_futures.get(msg_id)
        if future is not None and future.cancelled():
            # Its asker is gone; setting a result would raise.
            self._request_futures.pop(msg_id, None)
            return
        super()._handle_response(msg_id, result, error)

    @lsp_method(types.SHUTDOWN)
    async def lsp_shutdown(self, *args: Any) -> None:  # type: ignore[override]
        # pygls cancels futures while it walks the table that cancelling changes; our jobs are ended by the session.
        await self._server.close()
        self._shutdown = True

    @lsp_method(types.EXIT)
    def lsp_exit(self, *args: Any) -> None:  # type: ignore[override]
        """The reading loop ends the server."""

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> None:
        self._server.did_open(params)

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        self._server.did_change(params)

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        self._server.did_close(params)

    @lsp_method(types.WINDOW_WORK_DONE_PROGRESS_CANCEL)
    def lsp_work_done_progress_cancel(self, params: types.WorkDoneProgressCancelParams) -> None:
        self._server.did_cancel(params)
