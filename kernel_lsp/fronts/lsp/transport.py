"""Standard streams and sockets; and the end of the server when its client is gone, however it went."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from asyncio import StreamReader, StreamWriter
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import IO, Any

from kernel_lsp.fronts.lsp import greeting

logger = logging.getLogger(__name__)


async def serve_stdio() -> int:
    """Serve the client at the standard streams; the exit code that the protocol asks for."""
    loop = asyncio.get_running_loop()
    with _private_streams() as (stdin, stdout):
        reader = StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), stdin)
        transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, stdout)
        writer = StreamWriter(transport, protocol, reader, loop)
        return await converse(reader, writer, local=True)


async def serve_tcp(host: str, port: int) -> int:
    """Serve every client that connects, until a signal ends the server."""
    conversations: set[asyncio.Task[None]] = set()

    async def connected(reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        conversations.add(task)
        try:
            await converse(reader, writer, local=False)
        finally:
            conversations.discard(task)
            writer.close()

    server = await asyncio.start_server(connected, host, port)
    async with server:
        for socket in server.sockets:
            address = socket.getsockname()
            print(f"kernel-lsp listens on {address[0]}:{address[1]}", file=sys.stderr, flush=True)
        await _signalled()
    for task in conversations:
        task.cancel()
    await asyncio.gather(*conversations, return_exceptions=True)
    return 0


async def converse(reader: StreamReader, writer: StreamWriter, *, local: bool) -> int:
    """0 after `shutdown` and `exit`, as the protocol has it; 1 for any other end."""
    endings: list[asyncio.Task[None]] = []
    try:
        initialize = await greeting.greet(reader, writer)
        if initialize is None:
            return 1
        if local:
            endings = [asyncio.create_task(_end(reader, wait)) for wait in (_gone(_client(initialize)), _signalled())]
        from kernel_lsp.fronts.lsp.server import Server

        return 0 if await Server().converse(initialize, reader, writer) else 1
    except greeting.Malformed as error:
        logger.error("the client does not speak the language server protocol: %s", error)
        return 1
    finally:
        for ending in endings:
            ending.cancel()


async def _end(reader: StreamReader, awaited: Coroutine[Any, Any, None]) -> None:
    """Let the conversation end as if the client had closed the stream, once `awaited` has happened."""
    await awaited
    reader.feed_eof()


def _client(initialize: greeting.Message) -> int | None:
    params = initialize.get("params")
    number = params.get("processId") if isinstance(params, dict) else None
    return number if isinstance(number, int) else None


async def _gone(pid: int | None) -> None:
    """Until process `pid` has ended. Never for one that cannot be seen from here, as out of a container."""
    try:
        descriptor = os.pidfd_open(pid) if pid is not None else None
    except OSError:
        descriptor = None
    ended = asyncio.Event()
    if descriptor is None:
        await ended.wait()
        return
    loop = asyncio.get_running_loop()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


async def _signalled() -> None:
    """Until somebody asks the server to end."""
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, asked.set)
    try:
        await asked.wait()
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


@contextlib.contextmanager
def _private_streams() -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """The streams to the client, taken away from everybody else: a stray `print` would break the protocol."""
    with os.fdopen(os.dup(0), "rb", 0) as stdin, os.fdopen(os.dup(1), "wb", 0) as stdout:
        with Path(os.devnull).open("rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        yield stdin, stdout
