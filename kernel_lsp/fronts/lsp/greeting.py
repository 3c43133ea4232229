"""The answer to `initialize`, given before the protocol's library is loaded: that alone takes half a second.

`tests/fronts/test_lsp_greeting.py` holds these capabilities against the features that the server registers.
"""

from __future__ import annotations

import json
from asyncio import IncompleteReadError, LimitOverrunError, StreamReader, StreamWriter
from typing import Any, TypeAlias

from kernel_lsp import __version__

Message: TypeAlias = dict[str, Any]

COMMANDS = (
    "kernel-lsp.check",
    "kernel-lsp.optimize",
    "kernel-lsp.applyOffer",
    "kernel-lsp.report",
    "kernel-lsp.doctor",
)
CODE_ACTION_KINDS = ("quickfix", "refactor.rewrite")

_INCREMENTAL = 2
_NOT_INITIALIZED = -32002


class Malformed(Exception):
    """The bytes are no message of the protocol; nothing after them can be read."""


async def greet(reader: StreamReader, writer: StreamWriter) -> Message | None:
    """Answer the client's `initialize` and return it; None where the client left before it asked.

    Raises:
        Malformed: where what comes is not the language server protocol.
    """
    while (message := await read(reader)) is not None:
        method = message.get("method")
        if method == "exit":
            return None
        if method == "initialize" and "id" in message:
            if not isinstance(message.get("params"), dict):
                raise Malformed("`initialize` has no parameters")
            await write(writer, message["id"], result=initialize_result(message["params"]))
            return message
        if "id" in message and method is not None:
            await write(writer, message["id"], error=(_NOT_INITIALIZED, "the server is not initialized"))
    return None


def initialize_result(params: Message) -> Message:
    return {"capabilities": capabilities(params), "serverInfo": {"name": "kernel-lsp", "version": __version__}}


def capabilities(params: Message) -> Message:
    return {
        "positionEncoding": position_encoding(params),
        "textDocumentSync": {
            "openClose": True,
            "change": _INCREMENTAL,
            "willSave": False,
            "willSaveWaitUntil": False,
            "save": {"includeText": True},
        },
        "hoverProvider": True,
        "codeActionProvider": {"codeActionKinds": list(CODE_ACTION_KINDS)},
        "codeLensProvider": {"resolveProvider": False},
        "inlayHintProvider": {"resolveProvider": False},
        "executeCommandProvider": {"commands": list(COMMANDS)},
        "workspace": {
            "workspaceFolders": {"supported": True, "changeNotifications": True},
            "fileOperations": {},
        },
    }


def position_encoding(params: Message) -> str:
    """UTF-8, which is what compilers count in, wherever the client knows it."""
    general = (params.get("capabilities") or {}).get("general") or {}
    offered = general.get("positionEncodings") or []
    return "utf-8" if "utf-8" in offered else "utf-16"


async def read(reader: StreamReader) -> Message | None:
    """The next message; None at the end of the stream.

    Raises:
        Malformed
    """
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(_content_length(head))
    except (IncompleteReadError, ConnectionError):
        return None
    except (LimitOverrunError, ValueError) as error:
        raise Malformed(f"no message header: {error}") from error
    try:
        message = json.loads(body)
    except ValueError as error:
        raise Malformed(f"a message is no JSON: {error}") from error
    if not isinstance(message, dict):
        raise Malformed("a message is no object")
    return message


async def write(
    writer: StreamWriter, id: int | str, *, result: Any = None, error: tuple[int, str] | None = None
) -> None:
    message: Message = {"jsonrpc": "2.0", "id": id}
    if error is None:
        message["result"] = result
    else:
        message["error"] = {"code": error[0], "message": error[1]}
    body = json.dumps(message).encode()
    writer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    await writer.drain()


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    raise ValueError("no Content-Length")
