"""What nvcc, its front end and ptxas print: messages at their places, and what each kernel takes of the device."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kernel_lsp.build.content import Closure, Source
from kernel_lsp.domain import CompilerMessage, DeviceFunction, Location, Position, Severity, Span

_MESSAGE = re.compile(
    r"(?P<file>[^\s(][^(\n]*)\((?P<line>\d+)\): (?P<kind>(?:catastrophic )?error|warning|remark)"
    r"(?: #(?P<number>\d+(?:-D)?))?: (?P<text>.*)"
)
_NOWHERE = re.compile(r"(?:nvcc (?P<kind>fatal|warning)|(?:catastrophic )?error)\s*: (?P<text>.*)")
_AT_END = re.compile(r"At end of source: error(?: #[\w-]+)?: (?P<text>.*)")
_PTXAS = re.compile(r"ptxas (?P<kind>error|warning|fatal)\s*: (?P<text>.*)")
_ENTRY = re.compile(r"'(?P<symbol>_Z\w+|\w+)'")

_COMPILING = re.compile(r"ptxas info\s*: Compiling entry function '(?P<symbol>[^']+)' for '(?P<architecture>\w+)'")
_FRAME = re.compile(
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads"
)
_USED = re.compile(r"ptxas info\s*: Used (?P<registers>\d+) registers")

_INDENT = 2
"""nvcc 13 shows a source line behind so many blanks."""

_MOST_MESSAGES = 100

_HINTS = (
    (
        re.compile(r"uses too much shared data"),
        "static shared memory is limited to 48 KiB; declare it `extern __shared__`, give its size at the launch, and "
        "allow it with cudaFuncSetAttribute(…, cudaFuncAttributeMaxDynamicSharedMemorySize, …)",
    ),
    (
        re.compile(r"no operator .* matches these operands"),
        "torch's flags forbid half arithmetic by operators (-D__CUDA_NO_HALF_OPERATORS__): use __hadd, __hmul and "
        "their like, or compute in float",
    ),
    (
        re.compile(r"unsupported GNU version"),
        "this nvcc does not take this gcc: name an older one with `-ccbin` in the setting `cuda-flags`",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """One message as printed, mangled names and all."""

    message: CompilerMessage
    symbol: str | None
    """The kernel that ptxas speaks of."""


def parse(text: str, source: Source, closure: Closure) -> tuple[Raw, ...]:
    """The messages of one run of nvcc on `source`; what is not understood is passed over."""
    found: list[Raw] = []
    seen: set[tuple[str, Location | None]] = set()
    for raw in _messages(text, source, closure):
        key = (raw.message.text, raw.message.location)
        if key not in seen and len(found) < _MOST_MESSAGES:
            seen.add(key)
            found.append(raw)
    return tuple(found)


def _messages(text: str, source: Source, closure: Closure) -> Iterator[Raw]:
    lines = text.splitlines()
    code = source.text.split("\n")
    for index, printed in enumerate(lines):
        if found := _MESSAGE.fullmatch(printed):
            line = int(found["line"]) - 1
            severity = Severity.ERROR if "error" in found["kind"] else Severity.WARNING
            if found["file"] == str(source.path):
                span = _span(line, code, lines[index + 1 : index + 3])
                location = Location(path=source.path, span=span)
                said = found["text"]
            else:
                led = closure.include_line(Path(found["file"]))
                location = Location(path=source.path, span=Span.line(led or 0))
                said = f"{found['text']} (in {Path(found['file']).name}, line {line + 1})"
            option = f"#{found['number']}" if found["number"] else None
            yield Raw(
                message=CompilerMessage(severity=severity, text=_hinted(said), location=location, option=option),
                symbol=None,
            )
        elif found := _AT_END.fullmatch(printed):
            location = Location(path=source.path, span=Span.line(max(len(code) - 2, 0)))
            message = CompilerMessage(severity=Severity.ERROR, text=found["text"], location=location)
            yield Raw(message=message, symbol=None)
        elif found := _PTXAS.fullmatch(printed):
            symbol = _ENTRY.search(found["text"])
            severity = Severity.WARNING if found["kind"] == "warning" else Severity.ERROR
            message = CompilerMessage(
                severity=severity,
                text=_hinted(found["text"]),
                location=Location(path=source.path, span=Span.line(0)),
            )
            yield Raw(message=message, symbol=symbol["symbol"] if symbol else None)


def fatal(text: str) -> str | None:
    """What nvcc says where it does not even begin: an unknown option or architecture, a host compiler it refuses."""
    for printed in text.splitlines():
        if "unsupported GNU version" in printed:
            return _hinted(printed.partition("error:")[2].strip() or printed.strip())
        if (found := _NOWHERE.fullmatch(printed)) and found["kind"] == "fatal":
            return found["text"]
    return None


def device_functions(text: str) -> tuple[DeviceFunction, ...]:
    """One for each entry function in what `-Xptxas -v` prints, with its mangled name."""
    functions: list[DeviceFunction] = []
    symbol, architecture, frame = "", "", (0, 0, 0)
    for line in text.splitlines():
        if found := _COMPILING.search(line):
            symbol, architecture, frame = found["symbol"], found["architecture"], (0, 0, 0)
        elif found := _FRAME.search(line):
            frame = (int(found["stack"]), int(found["stores"]), int(found["loads"]))
        elif symbol and (found := _USED.search(line)):
            functions.append(
                DeviceFunction(
                    name=symbol,
                    architecture=architecture,
                    registers=int(found["registers"]),
                    stack_bytes=frame[0],
                    spill_store_bytes=frame[1],
                    spill_load_bytes=frame[2],
                    shared_bytes=_number(line, r"(\d+) bytes smem"),
                    barriers=_number(line, r"used (\d+) barriers"),
                )
            )
            symbol = ""
    return tuple(functions)


def _number(line: str, pattern: str) -> int:
    found = re.search(pattern, line)
    return int(found[1]) if found else 0


def _span(line: int, code: list[str], shown: list[str]) -> Span:
    """The word under the caret, where the line is shown as it is written; else the line."""
    if len(shown) == 2 and line < len(code) and shown[0][_INDENT:].rstrip() == code[line].rstrip():
        column = shown[1].find("^") - _INDENT
        if 0 <= column <= len(code[line]):
            word = re.match(r"\w+|.", code[line][column:])
            start = len(code[line][:column].encode("utf-8", "surrogatepass"))
            length = len(word[0].encode("utf-8", "surrogatepass")) if word else 1
            return Span(start=Position(line=line, column=start), end=Position(line=line, column=start + length))
    return Span.line(line)


def _hinted(text: str) -> str:
    hint = next((hint for pattern, hint in _HINTS if pattern.search(text)), None)
    return text if hint is None else f"{text}; {hint}"
