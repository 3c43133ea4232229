"""One editor's session: its documents, their jobs, and when each of them starts, is cancelled, and is shown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from lsprotocol import types

from kernel_lsp.domain import Finished, Judged, KernelUnit, Noted, Problem, Profiled, Progress, Timed, Tried, Unjudged
from kernel_lsp.engine import Engine
from kernel_lsp.fronts import words
from kernel_lsp.fronts.lsp import client as clients
from kernel_lsp.fronts.lsp import report, show
from kernel_lsp.fronts.lsp.actions import actions
from kernel_lsp.fronts.lsp.client import Client
from kernel_lsp.fronts.lsp.documents import Document
from kernel_lsp.fronts.lsp.known import Known
from kernel_lsp.fronts.lsp.offers import Offers
from kernel_lsp.fronts.lsp.uris import to_path
from kernel_lsp.settings import OnSave, load
from kernel_lsp.source.pairing import dependents

SETTLE_S = 0.05
"""A save waits this long for further ones: editors write several files at once."""

TYPING_S = (0.05, 0.5)
"""A pause in typing after which the text is read again: what the last reading cost, within these bounds."""

CLOSE_S = 5.0
"""For ending the worker; the process that waits for us is not kept longer."""

KERNELS = frozenset({".cpp", ".cc", ".cxx", ".c++", ".cu"})
HEADERS = frozenset({".h", ".hh", ".hpp", ".hxx", ".cuh"})
SETTINGS_FILES = frozenset({"pyproject.toml", "kernel-lsp.toml"})
SECTIONS = ("kernelLsp", "kernel-lsp")
"""Under which clients send our settings."""

OF_THE_CLIENT = frozenset({"server", "trace"})
"""Settings of ours that mean something to the editor's extension only."""

logger = logging.getLogger(__name__)


class Session:
    def __init__(self, client: Client, params: types.InitializeParams) -> None:
        options = params.initialization_options if isinstance(params.initialization_options, dict) else {}
        self.client = client
        self.trusted = options.get("trusted") is not False
        self.offers = Offers(client, self)
        self._layer = _editor_settings(options.get("settings"))
        self._has_settings = "settings" in options
        self._folders = _folders(params)
        self._engines: dict[Path | None, Engine] = {}
        self._documents: dict[str, Document] = {}
        self._finished: dict[str, Finished] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._said: set[str] = set()
        self._stamps: dict[Path, tuple[int, int] | None] = {}
        self._closed = False

    async def close(self) -> None:
        """End every job and every process of ours. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        for document in self._documents.values():
            _forget_pause(document)
        await self._end_tasks(self._tasks)
        await self._close_engines()

    def initialized(self) -> None:
        self.client.watch_files()
        if not self._has_settings:
            self._start(self._fetch_settings)

    def engine_of(self, path: Path) -> Engine:
        """Of the innermost workspace folder that holds `path`."""
        homes = [folder for folder in self._folders if path.is_relative_to(folder)]
        home = max(homes, key=lambda folder: len(folder.parts), default=None)
        if home not in self._engines:
            settings, problems = load(home, self._layer)
            self._engines[home] = Engine(settings, workspace=home, trusted=self.trusted)
            for problem in problems:
                self._note(problem, again=True)
        return self._engines[home]

    def document(self, uri: str) -> Document | None:
        return self._documents.get(uri)

    def folders_changed(self, added: list[str], removed: list[str]) -> None:
        gone = {to_path(uri) for uri in removed}
        new = [path for uri in added if (path := to_path(uri)) is not None]
        self._folders = [folder for folder in self._folders if folder not in gone] + new

    # --- documents ------------------------------------------------------------------------------------------

    def opened(self, uri: str, version: int, text: str) -> None:
        path = to_path(uri)
        if path is None or path.suffix.lower() not in KERNELS | HEADERS:
            return
        document = Document(uri=uri, path=path, version=version, text=text, encoding=self.client.encoding)
        document.saved_digest = document.digest
        self._documents[uri] = document
        self._read_unit(document)
        if document.is_kernel:
            self.engine_of(path).warm()
            self._read_static(document)
            self._show(document)

    def changed(self, uri: str, version: int, changes: list[types.TextDocumentContentChangeEvent]) -> None:
        if (document := self._documents.get(uri)) is None:
            return
        document.change(version, changes)
        _forget_pause(document)
        shortest, longest = TYPING_S
        delay = min(longest, max(shortest, document.reading_cost_s))
        document.pause = asyncio.get_running_loop().call_later(delay, self._pause_in_typing, document)

    def saved(self, uri: str, text: str | None) -> None:
        path = to_path(uri)
        if path is None:
            return
        document = self._documents.get(uri)
        if document is not None:
            if text is None:
                # The client sends no text though asked for it; an edit that was lost on the way ends here.
                text = _text_on_disk(path)
            document.saved(document.text if text is None else text)
            self._end_outdated(document)
            self._read_unit(document, anew=True)
            if document.is_kernel:
                self._read_static(document)
                self._show(document)
                self._check_saved(document)
        self._changed_on_disk(path)

    def closed(self, uri: str) -> None:
        document = self._documents.pop(uri, None)
        if document is None:
            return
        document.is_open = False
        _forget_pause(document)
        for task in (document.check, document.optimization):
            if task is not None:
                task.cancel()
        self._finished.pop(uri, None)
        self.engine_of(document.path).forget(document.path)
        self.client.publish(uri, None, [])

    def watched_changed(self, uris: list[str]) -> None:
        paths = [path for uri in uris if (path := to_path(uri)) is not None]
        if any(path.name in SETTINGS_FILES for path in paths):
            self._start(self._restart_engines)
        for path in paths:
            self._changed_on_disk(path)

    def lenses(self, uri: str) -> list[types.CodeLens] | None:
        document = self._with_unit(uri)
        return None if document is None else show.lenses(document, trusted=self.trusted)

    def hints(self, uri: str, wanted: types.Range) -> list[types.InlayHint] | None:
        document = self._documents.get(uri)
        return None if document is None else show.hints(document, wanted)

    def hover(self, uri: str, at: types.Position) -> types.Hover | None:
        kind = types.MarkupKind.Markdown if self.client.reads_markdown else types.MarkupKind.PlainText
        document = self._with_unit(uri)
        return None if document is None else show.hover(document, at, kind)

    def actions(self, params: types.CodeActionParams) -> list[types.CodeAction] | None:
        document = self._with_unit(params.text_document.uri)
        if document is None:
            return None
        treatable = self._treatable(document) if self.trusted else frozenset()
        return actions(document, params, self.client, treatable=treatable, trusted=self.trusted)

    # --- commands: each returns at once ---------------------------------------------------------------------

    def check(self, uri: str) -> str | None:
        """The token of the job; None where the file is not open."""
        document = self._documents.get(uri)
        return None if document is None else self._check(document, OnSave.PROFILE, anew=True)

    def optimize(self, uri: str, finding: str | None) -> str | None:
        """The token of the job; None where the file is not open."""
        document = self._documents.get(uri)
        if document is None:
            return None
        if document.optimization is not None:
            document.optimization.cancel()
        token, document.optimization = self._job(partial(self._optimizing, document, finding))
        return token

    def apply_offer(self, id: str) -> None:
        self._start(lambda: self.offers.apply(id))

    def report(self, uri: str) -> None:
        if (document := self._documents.get(uri)) is not None:
            folder = self.cache_dir(document.path) / "reports"
            path = report.write(folder, document, self._finished.get(uri))
            self._start(lambda: self.client.open(path))

    def doctor(self) -> None:
        self._start(self._examine)

    def cache_dir(self, path: Path) -> Path:
        return self.engine_of(path).settings.cache_folder

    # --- reading and showing --------------------------------------------------------------------------------

    def _with_unit(self, uri: str) -> Document | None:
        """The document, its unit read from the text as it is."""
        document = self._documents.get(uri)
        if document is not None:
            self._read_unit(document)
        return document

    def _read_unit(self, document: Document, *, anew: bool = False) -> None:
        """`anew`: the files beside it have changed."""
        if document.unit is not None and not anew:
            return
        if document.path.suffix.lower() in KERNELS:
            with contextlib.suppress(OSError, UnicodeDecodeError):
                document.read = unit = self.engine_of(document.path).unit(document.path, document.text)
                document.is_kernel = means_to_be_judged(unit)

    def _read_static(self, document: Document) -> None:
        _forget_pause(document)
        if document.static_findings is None and document.is_kernel:
            began = time.perf_counter()
            findings = self.engine_of(document.path).static_findings(document.path, document.text)
            document.static = (document.digest, findings)
            document.reading_cost_s = time.perf_counter() - began

    def _pause_in_typing(self, document: Document) -> None:
        document.pause = None
        self._read_static(document)
        self._show(document)

    def _show(self, document: Document) -> None:
        if document.is_open and not self._closed:
            shown = show.diagnostics(document) if document.is_kernel else []
            self.client.publish(document.uri, document.version, shown)

    def _treatable(self, document: Document) -> frozenset[str]:
        """Codes of the findings that a skill can do something about; editors ask for every move of the cursor."""
        findings = show.findings(document)
        if document.treatable is None or document.treatable[0] is not findings:
            decisions = self.engine_of(document.path).decisions(document.path, document.text, findings)
            codes = frozenset(d.finding for d in decisions if d.chosen and d.finding is not None)
            document.treatable = (findings, codes)
        return document.treatable[1]

    def _note(self, problem: Problem, *, again: bool = False) -> None:
        """Say what is the matter with the machine, once a session."""
        if again or problem.code not in self._said:
            self._said.add(problem.code)
            self.client.warn(f"kernel-lsp: {words.problem_text(problem)}")

    # --- checking -------------------------------------------------------------------------------------------

    def _check_saved(self, document: Document) -> None:
        running = document.check is not None and not document.check.done()
        if running and document.checking == document.digest:
            # The same text was saved again: its answer is on the way.
            return
        self._check(document, None, anew=False)

    def _check(self, document: Document, level: OnSave | None, *, anew: bool) -> str:
        """Start a check in place of the running one. `anew`: what is known of this text counts no longer."""
        if document.check is not None:
            document.check.cancel()
        document.checking = document.digest
        token, document.check = self._job(partial(self._checking, document, level, anew))
        return token

    async def _checking(self, document: Document, level: OnSave | None, anew: bool, token: str) -> None:
        progress: clients.Progress | None = None
        known: Known | None = None
        try:
            await asyncio.sleep(SETTLE_S)
            engine = self.engine_of(document.path)
            unit = engine.unit(document.path, document.text)
            document.checking = unit.digest
            known = document.shown if not anew and document.shown is not None else None
            known = Known(unit=unit) if known is None else known.of(unit)
            progress = await self.client.begin_progress(token, f"kernel-lsp: {document.path.name}", measured=False)
            async with contextlib.aclosing(engine.check(unit, level, anew=anew)) as events:
                async for event in events:
                    match event:
                        case Progress(message=message, fraction=fraction):
                            progress.report(message, fraction)
                            continue
                        case Noted(problem=problem):
                            self._note(problem)
                            continue
                        case Judged(verdict=Unjudged(problem=problem)) if show.concerns_machine(unit, problem):
                            self._note(problem)
                    known = known.after(event)
                    document.known = known
                    if document.shown is not None:
                        self._show(document)
                        if isinstance(event, (Judged, Timed, Profiled)):
                            self.client.refresh()
        finally:
            if progress is not None:
                line = None if known is None or known.verdict is None else words.lens(known.verdict, known.timing)
                progress.end(line)

    def _changed_on_disk(self, path: Path) -> None:
        """Check again the open kernels that lean on `path`: their reference, a header, another source."""
        stamp = _stamp(path)
        if path in self._stamps and self._stamps[path] == stamp:
            # Editors that also watch files tell of each save twice.
            return
        self._stamps[path] = stamp
        open_kernels = {document.path: document for document in self._documents.values() if document.path != path}
        for kernel in dependents(path, [p for p in open_kernels if p.suffix.lower() in KERNELS]):
            document = open_kernels[kernel]
            self._read_unit(document, anew=True)
            if _was_checked(document):
                self._check(document, None, anew=True)

    # --- optimising -----------------------------------------------------------------------------------------

    async def _optimizing(self, document: Document, finding: str | None, token: str) -> None:
        progress: clients.Progress | None = None
        ended = "cancelled"
        try:
            progress = await self.client.begin_progress(token, f"Optimizing {document.path.name}", measured=True)
            if document.check is not None and not document.check.done():
                progress.report("waiting for the check to end")
                await asyncio.wait([document.check])
            engine = self.engine_of(document.path)
            unit = engine.unit(document.path, document.text)
            document.optimizing = unit.digest
            async with contextlib.aclosing(engine.optimize(unit, finding=finding)) as events:
                async for event in events:
                    match event:
                        case Progress(message=message, fraction=fraction):
                            progress.report(message, fraction)
                        case Tried(attempt=attempt):
                            self.client.log(f"{document.path.name}: {words.attempt_line(attempt)}")
                        case Noted(problem=problem):
                            self._note(problem)
                        case Finished():
                            ended = words.finished_sentence(event)
                            self._finished[document.uri] = event
                            self._start(partial(self.offers.present, document, event))
        finally:
            if progress is not None:
                progress.end(ended)

    def _end_outdated(self, document: Document) -> None:
        """A rewrite of a text that is no more helps nobody."""
        running = document.optimization is not None and not document.optimization.done()
        if running and document.optimization is not None and document.optimizing not in (None, document.digest):
            document.optimization.cancel()
            self.client.say(words.optimization_outdated(document.path.name))

    # --- settings and tools ---------------------------------------------------------------------------------

    def configured(self, settings: Any) -> None:
        """New settings from the client; where it sends none, it is asked for them."""
        if settings is None:
            self._start(self._fetch_settings)
        else:
            self._take_settings(_editor_settings(settings))

    async def _fetch_settings(self) -> None:
        for section in SECTIONS:
            values = await self.client.configuration(section)
            if isinstance(values, Mapping) and values:
                self._take_settings(_editor_settings(values))
                return

    def _take_settings(self, layer: Mapping[str, Any]) -> None:
        if layer != self._layer:
            self._layer = dict(layer)
            self._start(self._restart_engines)

    async def _restart_engines(self) -> None:
        """Under the settings as they are now; kernels that were judged are judged again."""
        jobs = [task for d in self._documents.values() for task in (d.check, d.optimization) if task is not None]
        await self._end_tasks(jobs)
        await self._close_engines()
        for document in self._documents.values():
            self._read_unit(document, anew=True)
            if _was_checked(document):
                self._check(document, None, anew=True)

    async def _examine(self) -> None:
        engine = self.engine_of(next(iter(self._folders), Path.cwd()))
        path = report.write_doctor(engine.settings.cache_folder / "reports", await engine.doctor())
        await self.client.open(path)

    # --- tasks ----------------------------------------------------------------------------------------------

    def _job(self, work: Callable[[str], Awaitable[None]]) -> tuple[str, asyncio.Task[None]]:
        """Start a job that the client may cancel, with the token under which its progress is shown."""
        token = self.client.token()
        task = self._start(lambda: work(token))
        self.client.job_started(token, task)
        return token, task

    def _start(self, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception as error:
            logger.exception("a job failed")
            self.client.say(words.internal_error(error), types.MessageType.Error)

    async def _end_tasks(self, tasks: Iterable[asyncio.Task[None]]) -> None:
        ours = asyncio.current_task()
        ending = [task for task in list(tasks) if task is not ours and not task.done()]
        for task in ending:
            task.cancel()
        if ending:
            await asyncio.wait(ending, timeout=CLOSE_S)

    async def _close_engines(self) -> None:
        engines = list(self._engines.values())
        self._engines.clear()
        if engines:
            closing = asyncio.gather(*(engine.close() for engine in engines), return_exceptions=True)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(closing, CLOSE_S)


def means_to_be_judged(unit: KernelUnit) -> bool:
    """Not every C++ file is a kernel: one has something to call, a reference, or words for us."""
    return unit.entry is not None or unit.reference is not None or bool(unit.directives)


def _was_checked(document: Document) -> bool:
    """And holds no edit that was not saved: those are checked when they are."""
    return document.known is not None and document.is_kernel and document.saved_digest == document.digest


def _forget_pause(document: Document) -> None:
    if document.pause is not None:
        document.pause.cancel()
        document.pause = None


def _folders(params: types.InitializeParams) -> list[Path]:
    uris = [folder.uri for folder in params.workspace_folders or []]
    if not uris and params.root_uri is not None:
        uris = [params.root_uri]
    return [path for uri in uris if (path := to_path(uri)) is not None]


def _editor_settings(values: Any) -> dict[str, Any]:
    """Our settings out of what a client sends: under one of our names or bare, unset ones as null or not at all."""
    if not isinstance(values, Mapping):
        return {}
    for section in SECTIONS:
        if isinstance(values.get(section), Mapping):
            values = values[section]
            break
    return {key: value for key, value in values.items() if value is not None and key not in OF_THE_CLIENT}


def _text_on_disk(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size)
