"""A client that speaks raw messages with a server in the same process, whose engine is led by the test."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernel_lsp.domain import Event, Finding, KernelUnit, Problem, SkillDecision
from kernel_lsp.fronts.lsp import transport
from kernel_lsp.settings import OnSave, Settings
from kernel_lsp.source.edits import digest
from tests.fronts import values

CAPABILITIES = Path(__file__).parent.parent / "e2e" / "capabilities"
PATIENCE_S = 5.0


class LedEngine:
    """Tells what the test puts into `stories`, one for each check or search; a story ends with None."""

    def __init__(self, settings: Settings, *, workspace: Path | None = None, trusted: bool = True) -> None:
        self.settings, self.workspace, self.trusted = settings, workspace, trusted
        self.stories: list[asyncio.Queue[Event | None]] = []
        self.units: list[KernelUnit] = []
        self.asked: list[tuple[str, object]] = []
        self.ended: list[str] = []
        self.problem: Problem | None = None
        self.closed = False

    def warm(self) -> None: ...

    def forget(self, path: Path) -> None: ...

    def unit(self, path: Path, text: str | None = None) -> KernelUnit:
        text = path.read_bytes().decode() if text is None else text
        return replace(values.UNIT, path=path, text=text, digest=digest(text), problem=self.problem)

    def static_findings(self, path: Path, text: str) -> tuple[Finding, ...]:
        return (replace(values.FINDING, code="KL507"),) if "2.0" in text else ()

    def decisions(self, path: Path, text: str, findings: tuple[Finding, ...]) -> tuple[SkillDecision, ...]:
        return tuple(
            SkillDecision(skill="use-float", finding=finding.code, score=1.0, reason="", chosen=True)
            for finding in findings
        )

    async def check(self, unit: KernelUnit, level: OnSave | None = None, *, anew: bool = False) -> AsyncIterator[Event]:
        self.asked.append(("check", level))
        async for event in self._tell(unit):
            yield event

    async def optimize(self, unit: KernelUnit, *, finding: str | None = None) -> AsyncIterator[Event]:
        self.asked.append(("optimize", finding))
        async for event in self._tell(unit):
            yield event

    async def close(self) -> None:
        self.closed = True

    async def _tell(self, unit: KernelUnit) -> AsyncIterator[Event]:
        story: asyncio.Queue[Event | None] = asyncio.Queue()
        self.stories.append(story)
        self.units.append(unit)
        try:
            while (event := await story.get()) is not None:
                yield event
            self.ended.append("told")
        except BaseException as error:
            self.ended.append(type(error).__name__)
            raise


class Talk:
    """The client's side. Requests of the server are answered at once, with null unless `answers` says otherwise."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self.params: dict[str, Any] = json.loads((CAPABILITIES / f"{name}.json").read_text())
        self.params["initializationOptions"] = options
        self.engines: list[LedEngine] = []
        self.received: list[dict[str, Any]] = []
        self.answers: dict[str, Callable[[Any], Any]] = {}
        self._arrived = asyncio.Condition()
        self._next = 0

    async def __aenter__(self) -> Talk:
        ours, theirs = socket.socketpair()
        self._reader, self._writer = await asyncio.open_connection(sock=ours)
        reader, writer = await asyncio.open_connection(sock=theirs)
        self.server = asyncio.create_task(transport.converse(reader, writer, local=False))
        self._listening = asyncio.create_task(self._listen())
        self.capabilities = (await self.ask("initialize", self.params))["capabilities"]
        self.tell("initialized", {})
        await self.settled()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        self.code = await asyncio.wait_for(self.server, PATIENCE_S)
        self._listening.cancel()

    @property
    def engine(self) -> LedEngine:
        return self.engines[-1]

    def tell(self, method: str, params: Any) -> None:
        self.send({"method": method, "params": params})

    async def ask(self, method: str, params: Any) -> Any:
        self._next += 1
        number = self._next
        self.send({"id": number, "method": method, "params": params})
        answer = await self.until(lambda message: message.get("id") == number and "method" not in message)
        assert "error" not in answer, answer
        return answer["result"]

    def send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._writer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    async def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first message, already received or yet to come, that is `wanted`; it is not found a second time."""

        def taken() -> dict[str, Any] | None:
            for number, message in enumerate(self.received):
                if wanted(message):
                    return self.received.pop(number)
            return None

        async with self._arrived:
            try:
                await asyncio.wait_for(self._arrived.wait_for(lambda: any(map(wanted, self.received))), PATIENCE_S)
            except asyncio.TimeoutError:
                raise AssertionError(f"what was wanted is not among {self.received}") from None
            found = taken()
        assert found is not None
        return found

    async def notified(self, method: str, wanted: Callable[[Any], bool] = lambda params: True) -> Any:
        found = await self.until(lambda m: m.get("method") == method and wanted(m["params"]))
        return found["params"]

    async def settled(self) -> None:
        """Until the server has dealt with all that was sent."""
        await self.ask("textDocument/hover", {"textDocument": {"uri": "file:///none"}, "position": at(0, 0)})

    # --- what an editor does --------------------------------------------------------------------------------

    def open(self, path: Path, text: str = values.TEXT, version: int = 1) -> str:
        uri = path.as_uri()
        document = {"uri": uri, "languageId": "cpp", "version": version, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": document})
        return uri

    def type(self, uri: str, version: int, text: str) -> None:
        changes = [{"text": text}]
        self.tell(
            "textDocument/didChange", {"textDocument": {"uri": uri, "version": version}, "contentChanges": changes}
        )

    def save(self, uri: str, text: str) -> None:
        self.tell("textDocument/didSave", {"textDocument": {"uri": uri}, "text": text})

    async def run(self, command: str, *arguments: Any) -> Any:
        return await self.ask("workspace/executeCommand", {"command": command, "arguments": list(arguments)})

    async def story(self, number: int) -> asyncio.Queue[Event | None]:
        """The engine's `number`-th story, once it is asked for."""
        await until(lambda: bool(self.engines) and len(self.engine.stories) > number)
        return self.engine.stories[number]

    async def _listen(self) -> None:
        with_length = b"Content-Length: "
        while head := await self._reader.readuntil(b"\r\n\r\n"):
            length = next(
                int(line.removeprefix(with_length)) for line in head.split(b"\r\n") if line.startswith(with_length)
            )
            message = json.loads(await self._reader.readexactly(length))
            if "id" in message and "method" in message:
                answer = self.answers.get(message["method"], lambda params: None)(message.get("params"))
                self.send({"id": message["id"], "result": answer})
            async with self._arrived:
                self.received.append(message)
                self._arrived.notify_all()


async def until(true: Callable[[], bool]) -> None:
    async def wait() -> None:
        while not true():
            await asyncio.sleep(0.005)

    await asyncio.wait_for(wait(), PATIENCE_S)


def at(line: int, character: int) -> dict[str, int]:
    return {"line": line, "character": character}


def span(line: int, start: int, end: int) -> dict[str, Any]:
    return {"start": at(line, start), "end": at(line, end)}
