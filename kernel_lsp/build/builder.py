"""Builds a kernel by the quickest way that gives what the user's own build gives, at most once for the same content."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from kernel_lsp import process
from kernel_lsp.build import blame, commands, content, dispatch, log, remarks, thin
from kernel_lsp.build.bare import bare
from kernel_lsp.build.binding import BINDING_PATH, binding_source
from kernel_lsp.build.cache import Cache
from kernel_lsp.build.content import Closure, Source
from kernel_lsp.build.thin import support as thin_support
from kernel_lsp.build.thin.support import Support
from kernel_lsp.build.toolchain import Toolchain, no_python_headers
from kernel_lsp.domain import (
    Artifact,
    ArtifactKind,
    BindingStyle,
    Build,
    CompilerMessage,
    KernelUnit,
    Language,
    Location,
    Problem,
    Route,
    Severity,
    Span,
    VectorRemark,
)
from kernel_lsp.settings import Settings

T = TypeVar("T")

_COMPILE_TIMEOUT_S = 600.0
_PARALLEL_COMPILES = 2
"""At a time; one unit over torch's headers takes 1.5 GB."""

_NO_SPACE = "No space left on device"

_OBJECT = "unit.o"
_TORCH_PROBLEMS = ("no-torch", "no-python")
_PYTHONS = re.compile(r"_?Py[A-Z_]")
_MODULE = re.compile(r"\bPYBIND11_MODULE ?\( ?(\w+)|\bPyInit_(\w+)")
_TORCH_LIBRARY = re.compile(r"\bTORCH_LIBRARY(?:_FRAGMENT|_EXPAND)? ?\( ?(\w+)()")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """One source, compiled; what the cache keeps of it beside the object file."""

    ok: bool
    messages: tuple[CompilerMessage, ...]
    remarks: tuple[VectorRemark, ...]
    problem: Problem | None
    seconds: float

    @property
    def lasting(self) -> bool:
        """The same content gives the same result: not so once a header or the memory was missing."""
        return self.problem is None and not any("No such file or directory" in m.text for m in self.messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked:
    """A library, linked; what the cache keeps beside it."""

    seconds: float
    """Wall time of compile and link."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """How every source of a build is compiled and linked."""

    route: Route
    language: tuple[str, ...]
    includes: tuple[str, ...]
    libraries: tuple[str, ...]
    digest: str
    """Of all that and of the tools' versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Object:
    digest: str
    path: Path
    compiled: Compiled
    cached: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What a build of a unit is made from, and what it is to be."""

    sources: tuple[Source, ...]
    kind: ArtifactKind
    name: str
    """Of the artifact; empty: after its file, which carries the digest."""

    @staticmethod
    def of(unit: KernelUnit, route: Route, sources: Sequence[Source]) -> _Plan:
        kind, name = ArtifactKind.TORCH_LIBRARY, ""
        if unit.style is BindingStyle.EXTERN_C or route is Route.PLAIN:
            kind = ArtifactKind.C_LIBRARY
        elif unit.style is BindingStyle.TORCH_LIBRARY:
            name = _first(_TORCH_LIBRARY, sources)
        elif route is Route.WHOLE:
            kind, name = ArtifactKind.PYTHON_MODULE, _first(_MODULE, sources) or commands.EXTENSION_NAME
        return _Plan(
            sources=tuple(sources),
            kind=kind,
            name=commands.EXTENSION_NAME if name == "TORCH_EXTENSION_NAME" else name,
        )


def _first(pattern: re.Pattern[str], sources: Sequence[Source]) -> str:
    found = (pattern.search(content.normal_form(source.text)) for source in sources)
    return next((hit[1] or hit[2] for hit in found if hit), "")


class Builder:
    """Builds with one toolchain into one cache folder; several tasks and several processes may share the folder."""

    def __init__(self, toolchain: Toolchain, settings: Settings, cache_dir: Path) -> None:
        self.toolchain = toolchain
        self.settings = settings
        self._cache = Cache(cache_dir, settings.cache_gb)
        self._compiles = asyncio.Semaphore(_PARALLEL_COMPILES)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What limits the cache: it is read-only or full. Builds go on in a temporary folder."""
        return () if self._cache.problem is None else (self._cache.problem,)

    async def build(self, unit: KernelUnit, route: Route | None = None) -> Build:
        """Build `unit` the quickest way that takes it. A failed compile is a `Build` without artifact.

        `Route.WHOLE` asks for torch's own headers, `Route.THIN` for nothing slower than the thin layer; a file
        without torch takes the plain way always.

        Every source is compiled and linked at most once for the same content; failures are remembered too.
        Cancelling the task that awaits this kills the compiler and leaves nothing behind.
        """
        if unit.language is not Language.CPP:
            return _stopped(unit, Route.PLAIN, _no_cuda())
        sources = [Source(path=unit.path, text=unit.text)]
        for sibling in unit.siblings:
            try:
                sources.append(Source(path=sibling, text=sibling.read_text(encoding="utf-8", errors="surrogateescape")))
            except OSError as error:
                return _stopped(unit, Route.PLAIN, _unreadable(sibling, error))
        if not any(self._closure(source).uses_torch for source in sources):
            return await self._attempt(unit, _Plan.of(unit, Route.PLAIN, sources), self._way(Route.PLAIN), "")
        torch = self.toolchain.torch
        if torch is None:
            return _stopped(unit, Route.WHOLE, next(p for p in self.toolchain.problems if p.code in _TORCH_PROBLEMS))
        if unit.style is BindingStyle.TENSOR_FUNCTIONS:
            binding = binding_source(unit)
            if isinstance(binding, Problem):
                return _stopped(unit, Route.THIN, binding)
            sources += [] if binding is None else [binding]
        reason = "asked for" if route is Route.WHOLE else thin.declines(torch, unit.text)
        if not reason:
            layer = await thin_support.prepare(self.toolchain, torch, self.settings.flags, self._cache)
            if isinstance(layer, Problem):
                reason = layer.message
            else:
                quick = await self._attempt(unit, _Plan.of(unit, Route.THIN, sources), self._way(Route.THIN, layer), "")
                if quick.artifact is not None or quick.problem is not None or route is Route.THIN:
                    return quick
                if own := blame.users_own(quick.messages, unit):
                    return replace(quick, messages=own)
                reason = _lacking(quick.messages)
        if self.toolchain.python_include is None:
            return _stopped(unit, Route.WHOLE, no_python_headers(self.toolchain))
        return await self._attempt(unit, _Plan.of(unit, Route.WHOLE, sources), self._way(Route.WHOLE), reason)

    async def _attempt(self, unit: KernelUnit, plan: _Plan, way: _Way, reason: str) -> Build:
        """Compile all sources of `plan`, at most two at a time, and link them."""
        objects = await _all([self._compiled(source, way) for source in plan.sources])
        build = Build(
            unit_digest=unit.digest,
            artifact=None,
            route=way.route,
            route_reason=reason,
            messages=tuple(_on_entry(message, unit) for built in objects for message in built.compiled.messages),
            remarks=tuple(remark for built in objects for remark in built.compiled.remarks),
            seconds=max(built.compiled.seconds for built in objects),
            cached=all(built.cached for built in objects),
            problem=next((built.compiled.problem for built in objects if built.compiled.problem), None),
        )
        if not all(built.compiled.ok for built in objects):
            return build
        return await self._linked(unit, plan, way, objects, build)

    async def _compiled(self, source: Source, way: _Way) -> _Object:
        """`source` compiled without comments and blank lines; what was said of it, at its own lines."""
        seen = bare(source.text)
        made = await self._compiled_bare(replace(source, text=seen.text), way)
        compiled = replace(
            made.compiled,
            messages=tuple(seen.message(message, source.path) for message in made.compiled.messages),
            remarks=tuple(seen.remark(remark, source.path) for remark in made.compiled.remarks),
        )
        return replace(made, compiled=compiled)

    async def _compiled_bare(self, source: Source, way: _Way) -> _Object:
        closure = self._closure(source)
        once = os.urandom(16).hex() if closure.computed else ""
        digest = content.sha256(way.digest, str(source.path), closure.digest, once)
        # Without messages nothing holds columns, which move when spacing does; with them, the exact text counts.
        exact = content.sha256(digest, source.text)
        for key in (digest, exact):
            if (known := self._cache.recall(key, Compiled)) is not None:
                return _Object(digest=key, path=known.folder / _OBJECT, compiled=known.value, cached=True)
        async with self._compiles:
            with self._cache.private() as folder:
                compiled = await self._compile(source, closure, way, folder)
                key = exact if compiled.messages else digest
                if not compiled.lasting:
                    key = content.sha256(digest, os.urandom(16).hex())
                entry = self._cache.publish(folder, key, compiled)
        return _Object(digest=key, path=entry / _OBJECT, compiled=compiled, cached=False)

    async def _compile(self, source: Source, closure: Closure, way: _Way, folder: Path) -> Compiled:
        if way.route is Route.THIN:
            text, changes = dispatch.spelled_out(source.text)
            if changes:
                spelled = await self._compile_text(replace(source, text=text), closure, way, folder)
                if spelled.ok:
                    messages = (dispatch.placed_back(message, source.text, changes) for message in spelled.messages)
                    return replace(spelled, messages=tuple(messages))
        return await self._compile_text(source, closure, way, folder)

    async def _compile_text(self, source: Source, closure: Closure, way: _Way, folder: Path) -> Compiled:
        started = time.monotonic()
        copy, notes = folder / source.path.name, folder / "remarks.txt"
        copy.write_bytes(commands.copy_text(source).encode(errors="surrogateescape"))
        command = commands.compile_command(
            self.toolchain,
            source=source,
            copy=copy,
            output=folder / _OBJECT,
            notes=notes,
            flags=(*self.settings.flags, *way.language, *way.includes),
        )
        real = source.path.parent
        done = await process.run(command, cwd=real if real.is_dir() else folder, timeout_s=_COMPILE_TIMEOUT_S)
        messages = log.parse(done.stderr, source, closure)
        found: tuple[VectorRemark, ...] = ()
        if done.ok and notes.is_file():
            text = notes.read_text(encoding="utf-8", errors="replace")
            found = remarks.parse(text, (source.path, *closure.headers))
        for leftover in (copy, notes):
            leftover.unlink(missing_ok=True)
        full = not done.ok and _NO_SPACE in done.stderr
        explained = done.ok or (not full and any(message.severity is Severity.ERROR for message in messages))
        return Compiled(
            ok=done.ok,
            messages=() if full else messages,
            remarks=found,
            problem=None if explained else _compiler_died(done, source.path),
            seconds=time.monotonic() - started,
        )

    async def _linked(
        self, unit: KernelUnit, plan: _Plan, way: _Way, objects: Sequence[_Object], build: Build
    ) -> Build:
        digest = content.sha256(way.digest, "link", *(built.digest for built in objects))
        library = f"kl_{digest[:24]}.so"
        known = self._cache.recall(digest, Linked)
        if known is not None:
            folder = known.folder
            build = replace(build, seconds=known.value.seconds, cached=True)
        else:
            started = time.monotonic()
            with self._cache.private() as private:
                command = commands.link_command(
                    self.toolchain,
                    objects=[built.path for built in objects],
                    output=private / library,
                    flags=self.settings.flags,
                    libraries=way.libraries,
                )
                done = await process.run(command, timeout_s=_COMPILE_TIMEOUT_S)
                missing = await self._undefined(done.stderr, unit)
                if missing:
                    return replace(build, cached=False, messages=(*build.messages, *missing))
                if not done.ok:
                    return replace(build, cached=False, problem=_linker_failed(done))
                seconds = build.seconds + time.monotonic() - started
                folder = self._cache.publish(private, digest, Linked(seconds=seconds))
            build = replace(build, seconds=seconds, cached=False)
        name = plan.name or Path(library).stem
        return replace(build, artifact=Artifact(path=folder / library, kind=plan.kind, name=name, digest=digest))

    def _way(self, route: Route, layer: Support | None = None) -> _Way:
        includes: tuple[str, ...] = ()
        libraries: tuple[str, ...] = ("-Wl,-z,defs",)
        if layer is not None:
            includes, libraries = layer.includes, (*layer.libraries, *libraries)
        elif route is Route.WHOLE and self.toolchain.torch is not None:
            includes = commands.whole_includes(self.toolchain, self.toolchain.torch)
            libraries = commands.whole_libraries(self.toolchain.torch)
        language = commands.language_flags(self.toolchain, route)
        return _Way(
            route=route,
            language=language,
            includes=includes,
            libraries=libraries,
            digest=content.sha256(
                content.own_digest(),
                route.value,
                str(self.toolchain.compiler),
                self.toolchain.compiler_version,
                str(self.toolchain.linker),
                content.processor() if any("native" in flag for flag in self.settings.flags) else "",
                *self.settings.flags,
                *language,
                layer.digest if layer else "",
                repr(self.toolchain.torch) if route is Route.WHOLE else "",
            ),
        )

    async def _undefined(self, output: str, unit: KernelUnit) -> tuple[CompilerMessage, ...]:
        """An error for each symbol that no source and no library defines, at the line that needs it."""
        found = [missing for missing in log.undefined_symbols(output) if not _PYTHONS.match(missing[0])]
        names = await self._demangled([symbol for symbol, _, _ in found])
        messages = []
        for name, (_, file, line) in zip(names, found, strict=True):
            span = Span.line(bare(unit.text).line(line) if file == str(unit.path) else 0)
            if file != str(unit.path) and unit.entry is not None:
                span = unit.entry.name_span
            messages.append(
                CompilerMessage(
                    severity=Severity.ERROR,
                    text=f"undefined symbol `{name}`: {log.explain_undefined(name)}",
                    location=Location(path=unit.path, span=span),
                )
            )
        return tuple(messages)

    async def _demangled(self, symbols: list[str]) -> list[str]:
        mangled = [symbol for symbol in symbols if symbol.startswith("_Z")]
        if not mangled or self.toolchain.cxxfilt is None:
            return symbols
        done = await process.run([self.toolchain.cxxfilt, *mangled], timeout_s=20)
        names = dict(zip(mangled, done.stdout.splitlines(), strict=False))
        return [names.get(symbol, symbol) for symbol in symbols]

    def _closure(self, source: Source) -> content.Closure:
        return content.closure(source, commands.include_dirs(self.settings.flags, source.path.parent))


async def _all(jobs: list[Coroutine[Any, Any, T]]) -> list[T]:
    """Results of `jobs` run together; where one raises or is cancelled, the others end before that goes on."""
    tasks = [asyncio.ensure_future(job) for job in jobs]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _on_entry(message: CompilerMessage, unit: KernelUnit) -> CompilerMessage:
    """`message`, or, if it is about the generated binding, the same on the function that is bound."""
    if unit.entry is None or message.location is None or message.location.path != BINDING_PATH:
        return message
    place = Location(path=unit.path, span=unit.entry.name_span)
    return replace(message, text=f"cannot be bound to Python: {message.text}", location=place, related=())


def _lacking(messages: Sequence[CompilerMessage]) -> str:
    first = next((message for message in messages if message.severity is Severity.ERROR), None)
    if first is None:
        return "the thin layer does not link it"
    line = f", line {first.location.span.start.line + 1}" if first.location else ""
    return f"the thin layer lacks something here{line}: {first.text}"


def _stopped(unit: KernelUnit, route: Route, problem: Problem) -> Build:
    return Build(
        unit_digest=unit.digest,
        artifact=None,
        route=route,
        route_reason="",
        messages=(),
        remarks=(),
        seconds=0.0,
        cached=False,
        problem=problem,
    )


def _compiler_died(done: process.Completed, path: Path) -> Problem:
    location = Location(path=path, span=Span.line(0))
    if done.timed_out:
        return Problem(
            code="compile-timeout",
            message=f"the compiler was still busy after {_COMPILE_TIMEOUT_S:.0f} s",
            hint="make the file smaller, or look for a template that recurses without end",
            location=location,
        )
    if "Killed" in done.stderr or done.code in (-9, 137):
        return Problem(
            code="compiler-killed",
            message="the system killed the compiler, most likely for want of memory",
            hint="close other programs, or add swap; a file over torch's headers takes 1.5 GB to compile",
            location=location,
        )
    if _NO_SPACE in done.stderr:
        return Problem(
            code="disk-full",
            message="the compiler found no space left on the disk",
            hint="free some space in the cache folder and in TMPDIR",
            location=location,
        )
    last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.code}"]
    return Problem(
        code="compiler-failed",
        message=f"the compiler failed without saying where: {last[0]}",
        hint='check the settings "compiler" and "flags"',
        location=location,
    )


def _linker_failed(done: process.Completed) -> Problem:
    lines = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("collect2")]
    return Problem(
        code="link-failed",
        message=f"the linker failed: {lines[0] if lines else f'exit status {done.code}'}",
        hint='check libraries named in the setting "flags"',
    )


def _unreadable(path: Path, error: OSError) -> Problem:
    return Problem(
        code="unreadable-source",
        message=f"{path.name} cannot be read: {error.strerror}",
        hint="check the line `// kernel-lsp: sources=…`",
    )


def _no_cuda() -> Problem:
    return Problem(
        code="no-cuda-build",
        message="CUDA sources are not built by this version",
        hint="static findings still hold; C++ kernels are built and judged",
    )
