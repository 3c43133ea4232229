"""The compiler's and the linker's text to messages with exact places in the user's own file.

Text and not JSON, although gcc offers both: only the text tells how a header was reached and which line required an
instantiation, and that is what brings an error in a system header back to the line that caused it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kernel_lsp.build.content import Closure, Source
from kernel_lsp.domain import CompilerMessage, Location, Position, Severity, Span

TEXT_FLAGS = ("-fdiagnostics-color=never", "-fmessage-length=0")
"""For every compiler."""

GCC_TEXT_FLAGS = ("-fdiagnostics-column-unit=byte", "-fdiagnostics-show-caret", "-fdiagnostics-show-line-numbers")
"""Byte columns, and the underline that gives a message its end."""

_DIAGNOSTIC = re.compile(
    r"(?P<file>[^\s].*?):(?P<line>\d+):(?:(?P<column>\d+):)? "
    r"(?P<kind>fatal error|error|warning|note|sorry, unimplemented|internal compiler error): ?(?P<text>.*)"
)
_INCLUDED = re.compile(r"(?:In file included from|\s+from) (?P<file>.+?):(?P<line>\d+)(?::\d+)?[,:]")
_REQUIRED = re.compile(r"(?P<file>[^\s].*?):(?P<line>\d+):(?:(?P<column>\d+):)?\s+(?:recursively )?required .*")
_UNDERLINE = re.compile(r"[^|\S]*\|?(?P<marks>[\s~]*\^[~\s]*)")
_OPTION = re.compile(r"\s*\[(?P<option>-W[^\]]+)\]$")
_EXPANSION = re.compile(r"in expansion of macro [‘'](?P<macro>\w+)|expanded from macro")
_INSTANTIATION = re.compile(r"in instantiation of .* requested here")

_UNDEFINED = re.compile(r"undefined (?:reference to|symbol:?) [`'‘\"]?(?P<symbol>.+?)['’\"]?$")
_PLACE = re.compile(r"(?P<file>[^\s(>:][^(>:]*?):(?P<line>\d+)\b")

_MOST_MESSAGES = 100
_MOST_RELATED = 8
_SEVERITIES = {"warning": Severity.WARNING, "note": Severity.INFORMATION}


@dataclass(slots=True)
class _Raw:
    """One diagnostic as printed, with the context lines before it and the notes after it."""

    file: str
    line: int
    column: int | None
    kind: str
    text: str
    required: list[tuple[str, int, int]] = field(default_factory=list)
    """Places that required the instantiation, innermost first."""
    notes: list[_Raw] = field(default_factory=list)
    marks: str | None = None
    """The underline, `~~^~~`, blanks stripped."""


def parse(text: str, source: Source, closure: Closure) -> tuple[CompilerMessage, ...]:
    """The messages of one compile of `source`; a message from another file sits where `source` leads to it.

    Never raises: what is not understood is passed over.
    """
    own = _Own(source, closure)
    chains: dict[str, list[tuple[str, int]]] = {}
    messages: list[CompilerMessage] = []
    seen: set[tuple[Severity, str, Location | None]] = set()
    for raw in _diagnostics(text, chains):
        message = own.message(raw, chains.get(raw.file, []))
        key = (message.severity, message.text, message.location)
        if key not in seen:
            seen.add(key)
            messages.append(message)
        if len(messages) >= _MOST_MESSAGES:
            break
    return tuple(messages)


def undefined_symbols(text: str) -> tuple[tuple[str, str | None, int], ...]:
    """Each undefined symbol of a linker's output once, as printed, with the file and zero-based line that needs it."""
    found: dict[str, tuple[str, str | None, int]] = {}
    for line in text.splitlines():
        hit = _UNDEFINED.search(line)
        if hit is None or hit["symbol"] in found:
            continue
        # The last `file:line` before it; the linker's own path and the object come first.
        places = [p for p in _PLACE.finditer(line[: hit.start()]) if not p["file"].endswith((".o", "ld"))]
        place = places[-1] if places else None
        found[hit["symbol"]] = (
            hit["symbol"],
            place["file"] if place else None,
            int(place["line"]) - 1 if place else 0,
        )
    return tuple(found.values())


def explain_undefined(symbol: str) -> str:
    """Which of the known causes leaves a demangled `symbol` undefined, and what to do."""
    name = re.sub(r"^(?:vtable|typeinfo|guard variable|construction vtable) for ", "", symbol)
    if name.startswith(("THP", "torch::PyWarningHandler", "torch::jit::tracer")) or "THPVariable" in name:
        return "it is in libtorch_python: import torch before the module is loaded"
    if re.match(r"_?Py[A-Z_]", name):
        return "it belongs to the Python interpreter: load the library from Python, not on its own"
    if name.startswith(("omp_", "GOMP_", "__kmpc_")):
        return 'it is OpenMP\'s: add -fopenmp to the setting "flags"'
    if re.match(r"(?:cblas_\w+|[sdcz](?:gemm|gemv|dot|axpy|getrf|potrf|syrk)_)", name):
        return 'it is a BLAS or LAPACK function: add its library, -lopenblas, to the setting "flags"'
    if re.search(r"\b(?:c10|at|torch|caffe2)::", name):
        if "__cxx11" in name or "std::string" in name or "basic_string" in name:
            return "torch was built with the other C++ ABI: compile with the _GLIBCXX_USE_CXX11_ABI that torch has"
        return "this torch does not have it: the code was written, or compiled, for another version of torch"
    return "no source defines it: define it, or name the file that does: // kernel-lsp: sources=other.cpp"


def advised(message: str, line_text: str) -> str:
    """`message` with what to do about it, where it has one known cause."""
    if ".type()" in line_text and re.search(r"DeprecatedTypeProperties|no member named ‘type’|scalar_type", message):
        return (
            "a tensor's `.type()` does not convert to a scalar type in today's torch: "
            "write `.scalar_type()` instead of `.type()`"
        )
    return message


class _Own:
    """The user's file: says what is in it, and where it leads to other files."""

    def __init__(self, source: Source, closure: Closure) -> None:
        self.source = source
        self.closure = closure
        self.lines = re.split(r"\r\n|\r|\n", source.text)
        self._names = {str(source.path), str(_resolved(str(source.path)))}
        self._headers = {str(header): header for header in closure.headers}

    def has(self, file: str) -> bool:
        return file in self._names or (file.endswith(".cpp") and str(_resolved(file)) in self._names)

    def location(self, line: int, column: int | None, marks: str | None = None) -> Location:
        """From one-based line and byte column."""
        text = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        data = text.encode(errors="surrogateescape")
        if column is None:
            start, end = len(data) - len(data.lstrip()), len(data.rstrip())
        else:
            start = end = max(column - 1, 0)
            if marks:
                # The underline has one mark for each character, the column counts bytes.
                caret = len(data[:start].decode(errors="replace")) - marks.index("^")
                start = len(text[: max(caret, 0)].encode(errors="surrogateescape"))
                end = len(text[: max(caret, 0) + len(marks)].encode(errors="surrogateescape"))
            word = re.compile(rb"[\w\x80-\xff]+").match(data, max(column - 1, 0))
            if word and (not marks or len(marks) == 1):
                end = word.end()
            end = max(end, start + 1)
        start = min(max(start, 0), len(data))
        end = max(start, min(end, len(data)))
        zero = max(line - 1, 0)
        return Location(
            path=self.source.path,
            span=Span(start=Position(line=zero, column=start), end=Position(line=zero, column=end)),
        )

    def elsewhere(self, raw: _Raw) -> Location:
        zero, column = max(raw.line - 1, 0), max((raw.column or 1) - 1, 0)
        return Location(path=Path(raw.file), span=Span.line(zero, column, column + 1))

    def at(self, raw: _Raw) -> Location:
        return self.location(raw.line, raw.column, raw.marks) if self.has(raw.file) else self.elsewhere(raw)

    def is_directive(self, line: int) -> bool:
        """One-based `line` belongs to a preprocessor directive, continuations included."""
        index = line - 1
        while 0 < index < len(self.lines) and self.lines[index - 1].endswith("\\"):
            index -= 1
        return 0 <= index < len(self.lines) and self.lines[index].lstrip().startswith("#")

    def message(self, raw: _Raw, chain: list[tuple[str, int]]) -> CompilerMessage:
        option = _OPTION.search(raw.text)
        text = raw.text[: option.start()] if option else raw.text
        location = self._primary(raw, chain)
        related = [(self.at(note), note.text.replace("::thin::", "::")) for note in raw.notes]
        if location is None or not self.has(raw.file) or location.span.start.line != raw.line - 1:
            related.insert(0, (self.at(raw), "the compiler stopped here"))
        line = self.lines[location.span.start.line] if location and location.span.start.line < len(self.lines) else ""
        text = advised(text.replace("::thin::", "::"), line)
        return CompilerMessage(
            severity=_SEVERITIES.get(raw.kind, Severity.ERROR),
            text=text,
            location=location,
            related=tuple(related[:_MOST_RELATED]),
            option=option["option"] if option else None,
        )

    def _primary(self, raw: _Raw, chain: list[tuple[str, int]]) -> Location | None:
        """Where it belongs in the user's file: there already, expanded there, required there or included there."""
        if self.has(raw.file) and not self.is_directive(raw.line):
            return self.location(raw.line, raw.column, raw.marks)
        for note in reversed(raw.notes):
            if self.has(note.file) and (_EXPANSION.match(note.text) or _INSTANTIATION.match(note.text)):
                return self.location(note.line, note.column, note.marks)
        for file, line, column in reversed(raw.required):
            if self.has(file):
                return self.location(line, column)
        if self.has(raw.file):
            return self.location(raw.line, raw.column, raw.marks)
        for file, line in reversed(chain):
            if self.has(file):
                return self.location(line, None)
        header = self._headers.get(str(_resolved(raw.file)))
        include = self.closure.include_line(header) if header else None
        return None if include is None else self.location(include + 1, None)


def _diagnostics(text: str, chains: dict[str, list[tuple[str, int]]]) -> Iterator[_Raw]:
    """Each error and warning with its notes; `chains` is filled with how each header was reached."""
    current: _Raw | None = None
    last: _Raw | None = None
    required: list[tuple[str, int, int]] = []
    chain: list[tuple[str, int]] = []
    for line in text.splitlines():
        if included := _INCLUDED.fullmatch(line):
            if line.startswith("In"):
                chain = []
            chain.append((included["file"], int(included["line"])))
        elif diagnostic := _DIAGNOSTIC.fullmatch(line):
            raw = _Raw(
                file=diagnostic["file"],
                line=int(diagnostic["line"]),
                column=int(diagnostic["column"]) if diagnostic["column"] else None,
                kind=diagnostic["kind"],
                text=diagnostic["text"].strip(),
                required=required,
            )
            # gcc prints the way to a header once, for all that follows in it.
            if chain:
                chains[raw.file] = chain
            required, chain, last = [], [], raw
            if raw.kind == "note" and current is not None:
                current.notes.append(raw)
            else:
                if current is not None:
                    yield current
                current = raw
        elif needed := _REQUIRED.fullmatch(line):
            required.append((needed["file"], int(needed["line"]), int(needed["column"] or 1)))
        elif (context := re.match(r"(?P<file>[^\s].*?): (?:In|At) ", line)) and chain:
            chains[context["file"]] = chain
        elif last is not None and last.marks is None and (underline := _UNDERLINE.fullmatch(line)):
            last.marks = re.sub(r"\s", "", _marked(underline["marks"]))
    if current is not None:
        yield current


def _marked(marks: str) -> str:
    """The run of `~` around the caret, other underlines of the same line left out."""
    run = re.search(r"~*\^~*", marks)
    return run[0] if run else "^"


def _resolved(file: str) -> Path:
    try:
        return Path(file).resolve()
    except (OSError, RuntimeError, ValueError):
        return Path(file)
