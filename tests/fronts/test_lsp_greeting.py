"""The first answer, given before pygls is loaded, promises exactly what the server then keeps."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import converters, types

from kernel_lsp.fronts.lsp import greeting, transport
from kernel_lsp.fronts.lsp.server import Server

CAPABILITIES = Path(__file__).parent.parent / "e2e" / "capabilities"
CLIENTS = [path.stem for path in sorted(CAPABILITIES.glob("*.json"))]


class Sink:
    """A writer that keeps what is written."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data

    async def drain(self) -> None: ...

    def messages(self) -> list[Any]:
        found, rest = [], self.data
        while rest:
            head, _, rest = rest.partition(b"\r\n\r\n")
            length = int(head.split(b":")[1])
            found.append(json.loads(rest[:length]))
            rest = rest[length:]
        return found


def params(client: str) -> Any:
    return json.loads((CAPABILITIES / f"{client}.json").read_text())


def framed(*messages: Any) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    for message in messages:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        reader.feed_data(b"content-length: %d\r\nContent-Type: x\r\n\r\n%s" % (len(body), body))
    reader.feed_eof()
    return reader


@pytest.mark.parametrize("client", CLIENTS)
async def test_it_promises_what_the_registered_features_come_to(client: str) -> None:
    server = Server()
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params(client)}
    assert await server.converse(asked, framed({"method": "exit"}), Sink()) is False  # type: ignore[arg-type]
    kept = converters.get_converter().unstructure(server.server_capabilities, types.ServerCapabilities)
    kept["positionEncoding"] = server.encoding.value
    promised = greeting.capabilities(params(client))
    # Left out or false is the same promise.
    assert _said(promised) == _said(kept)


def _said(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: _said(inner) for key, inner in value.items() if inner not in (None, False)}


@pytest.mark.parametrize(("client", "encoding"), [("neovim_0.11.4", "utf-8"), ("vscode_1.139.1", "utf-16")])
def test_positions_are_bytes_wherever_the_client_can_count_them(client: str, encoding: str) -> None:
    assert greeting.position_encoding(params(client)) == encoding


def test_a_client_without_capabilities_gets_the_protocols_default() -> None:
    assert greeting.position_encoding({"capabilities": {}}) == "utf-16"
    assert greeting.position_encoding({}) == "utf-16"


async def test_what_comes_before_initialize_is_refused_and_notifications_dropped() -> None:
    sink = Sink()
    reader = framed(
        {"method": "textDocument/didOpen", "params": {}},
        {"id": 1, "method": "textDocument/hover", "params": {}},
        {"id": 2, "method": "initialize", "params": {}},
    )
    asked = await greeting.greet(reader, sink)  # type: ignore[arg-type]
    assert asked is not None
    refused, answered = sink.messages()
    assert refused["error"]["code"] == -32002
    assert answered["result"]["serverInfo"]["name"] == "kernel-lsp"


async def test_a_client_that_leaves_first_ends_it() -> None:
    assert await greeting.greet(framed({"method": "exit"}), Sink()) is None  # type: ignore[arg-type]
    assert await greeting.greet(framed(), Sink()) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
        b"Content-Length: many\r\n\r\n{}",
        b"Content-Length: 2\r\n\r\n[]",
        b"Content-Length: 3\r\n\r\n{]}",
        b"x" * 100_000,
        b'Content-Length: 46\r\n\r\n{"jsonrpc":"2.0","id":1,"method":"initialize"}',
    ],
)
async def test_what_is_not_the_protocol_ends_it_without_a_traceback(data: bytes) -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    assert await transport.converse(reader, Sink(), local=False) == 1  # type: ignore[arg-type]


def test_until_the_first_answer_nothing_heavy_is_imported() -> None:
    code = "import sys, kernel_lsp.fronts.cli, kernel_lsp.fronts.lsp.transport; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pygls", "lsprotocol", "attrs", "typer", "rich", "tree_sitter", "torch", "anthropic"} & set(loaded)


def test_the_server_never_imports_torch() -> None:
    code = "import sys, kernel_lsp.fronts.lsp.server; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "pygls" in loaded
    assert not {"torch", "numpy", "anthropic", "typer", "rich"} & set(loaded)
