"""From instructions of a shared object to lines of the user's files, through inlining."""

from __future__ import annotations

import contextlib
import os
import re
import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kernel_lsp import process
from kernel_lsp.build import commands, content
from kernel_lsp.build.bare import Bare, bare
from kernel_lsp.domain import KernelUnit, LineSamples, Location, Problem, Profile, Span
from kernel_lsp.profile.perf_output import Address

TIMEOUT_S = 30.0

SMALLEST_SHARE = 0.005
"""A function outside the user's files with a smaller share is counted under its shared object."""

_BATCH = 20_000
"""Addresses per run of addr2line: 20 bytes each are well below what a command line may hold (`ARG_MAX`, 2 MiB)."""

_ADDRESS = re.compile(r"0x([0-9a-f]{8,16})")
_DISCRIMINATOR = re.compile(r" \(discriminator \d+\)$")
_PT_LOAD = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    function: str
    """Demangled; empty where unknown."""
    path: str
    """As in the debug information; empty where unknown."""
    line: int | None
    """One-based."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    samples: int
    lines: tuple[LineSamples, ...]
    """By share, largest first."""
    outside: tuple[tuple[str, float], ...]
    """As `Profile.outside`: `expf (libm.so.6)`, `libgomp.so.1.0.0`."""


class UserFiles:
    """The kernel's file and the other files of the user's that take part in it."""

    def __init__(self, kernel: Path, others: Iterable[Path] = (), compiled: Mapping[Path, Bare] | None = None) -> None:
        """`compiled`: what the compiler saw of those that are sources."""
        self._kernel = kernel
        self._compiled = compiled or {}
        self._known = {os.path.realpath(path): path for path in (*others, kernel)}
        self._found: dict[str, Path | None] = {}

    @classmethod
    def of(cls, unit: KernelUnit, flags: Sequence[str]) -> UserFiles:
        """The kernel's file, its siblings, and the local headers that these include."""
        texts = {unit.path: unit.text}
        for sibling in unit.siblings:
            with contextlib.suppress(OSError):
                texts[sibling] = sibling.read_text(encoding="utf-8", errors="surrogateescape")
        include_dirs = commands.include_dirs(flags, unit.path.parent)
        closures = [content.closure(content.Source(path=path, text=text), include_dirs) for path, text in texts.items()]
        headers = [header for closure in closures for header in closure.headers]
        return cls(unit.path, [*texts, *headers], {path: bare(text) for path, text in texts.items()})

    def find(self, path: str, line: int) -> tuple[Path, int] | None:
        """The user's file and its one-based line that debug information means; None for the rest of the world's."""
        if path not in self._found:
            self._found[path] = self._known.get(os.path.realpath(path)) if path else None
        if (found := self._found[path]) is None:
            return None
        compiled = self._compiled.get(found)
        return found, line if compiled is None else compiled.line(line - 1) + 1

    def place(self, frames: Iterable[Frame]) -> tuple[Path, int] | None:
        """Where an instruction with these frames, innermost first, belongs: file and one-based line.

        The kernel's own file comes first: what a loop there calls from a header, inlined, is that loop's time. Only
        what was not inlined into it stays in the other file.
        """
        found = [place for frame in frames if frame.line and (place := self.find(frame.path, frame.line)) is not None]
        return next((place for place in found if place[0] == self._kernel), found[0] if found else None)


def moved(profile: Profile, unit: KernelUnit, before: Bare, after: Bare) -> Profile:
    """`profile` of an earlier text of `unit`'s file, `before`, at the lines of `after`, which is the same code."""

    def at(location: Location) -> Location:
        if location.path != unit.path:
            return location
        return replace(location, span=Span.line(after.line(before.number(location.span.start.line))))

    return replace(
        profile,
        unit_digest=unit.digest,
        lines=tuple(replace(line, location=at(line.location)) for line in profile.lines),
        cache=tuple(replace(line, location=at(line.location)) for line in profile.cache),
    )


async def resolve(samples: Mapping[Address, int], library: Path, files: UserFiles) -> Attribution | Problem:
    """Attribute samples to lines; `library` is the kernel's own, whose debug information `addr2line` reads once."""
    inside = _inside(samples, library)
    frames: dict[Address, tuple[Frame, ...]] = {}
    if inside:
        found = await _frames(library, sorted(set(inside.values())))
        if isinstance(found, Problem):
            return found
        frames = {address: found.get(offset, ()) for address, offset in inside.items()}
    return attribute(samples, frames, files)


def _inside(samples: Iterable[Address], library: Path) -> dict[Address, int]:
    """Places in `library`'s file of the addresses that lie in it."""
    name = os.path.realpath(library)
    return {
        address: address.offset
        for address in samples
        if address.offset is not None and os.path.realpath(address.object) == name
    }


def attribute(
    samples: Mapping[Address, int], frames: Mapping[Address, tuple[Frame, ...]], files: UserFiles
) -> Attribution:
    """Each sample goes to the line that `UserFiles.place` finds for it.

    A sample in a library's template that was compiled for the kernel but not inlined has no such frame: it is
    outside, under the function's name.
    """
    total = sum(samples.values())
    counts: dict[tuple[Path, int], int] = defaultdict(int)
    functions: dict[tuple[str, str], int] = defaultdict(int)
    for address, count in samples.items():
        place = files.place(frames.get(address, ()))
        if place is not None:
            counts[place] += count
        else:
            functions[address.symbol, Path(address.object).name or address.object] += count
    lines = [
        LineSamples(location=Location(path=path, span=Span.line(line - 1)), count=count, share=count / total)
        for (path, line), count in counts.items()
    ]
    lines.sort(key=lambda line: (-line.count, str(line.location.path), line.location.span))
    return Attribution(samples=total, lines=tuple(lines), outside=_outside(functions, total))


def _outside(functions: Mapping[tuple[str, str], int], total: int) -> tuple[tuple[str, float], ...]:
    named: dict[str, int] = defaultdict(int)
    for (symbol, name), count in functions.items():
        named[f"{symbol} ({name})" if symbol and count >= SMALLEST_SHARE * total else name] += count
    return tuple(sorted(((name, count / total) for name, count in named.items()), key=lambda item: (-item[1], item[0])))


# --- addr2line ----------------------------------------------------------------------------------------------


async def _frames(library: Path, offsets: Sequence[int]) -> Mapping[int, tuple[Frame, ...]] | Problem:
    """Frames of each place in `library`'s file, innermost first."""
    try:
        segments = load_segments(_head(library))
    except OSError as error:
        return Problem(code="no-lines", message=f"{library}: {error.strerror}", hint="save again to build it anew")
    virtual = {offset: address for offset in offsets if (address := to_virtual(segments, offset)) is not None}
    tool = process.which("addr2line") or process.which("llvm-addr2line")
    if tool is None:
        return _no_addr2line("is not installed")
    addresses = [hex(address) for address in virtual.values()]
    found: dict[int, tuple[Frame, ...]] = {}
    for start in range(0, len(addresses), _BATCH):
        done = await process.run(
            [tool, "-i", "-f", "-C", "-a", "-e", library, *addresses[start : start + _BATCH]],
            env={"DEBUGINFOD_URLS": ""},
            timeout_s=TIMEOUT_S,
        )
        if not done.ok:
            return _no_addr2line("took more than 30 s" if done.timed_out else f"failed: {done.stderr.strip():.200}")
        found.update(parse_frames(done.stdout))
    return {offset: found.get(address, ()) for offset, address in virtual.items()}


def _head(library: Path) -> bytes:
    """The beginning of the file, where linkers put the table of segments."""
    with library.open("rb") as file:
        return file.read(64 * 1024)


def parse_frames(output: str) -> dict[int, tuple[Frame, ...]]:
    """Frames by virtual address, innermost first, from `addr2line -i -f -C -a`.

    Each address stands on a line of its own; pairs of lines follow, a function and its `file:line`, the latter
    perhaps with ` (discriminator 3)`. `??` and `0` mean unknown.
    """
    found: dict[int, tuple[Frame, ...]] = {}
    address: int | None = None
    function: str | None = None
    for line in output.splitlines():
        if starts := _ADDRESS.fullmatch(line):
            address, function = int(starts[1], 16), None
            found[address] = ()
        elif address is None:
            continue
        elif function is None:
            function = line
        else:
            found[address] += (_frame(function, line),)
            function = None
    return found


def _frame(function: str, place: str) -> Frame:
    path, _, number = _DISCRIMINATOR.sub("", place).rpartition(":")
    line = int(number) if number.isascii() and number.isdigit() else 0
    return Frame(
        function="" if function == "??" else function,
        path="" if path == "??" else path,
        line=line or None,
    )


# --- ELF ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A part of the file that is loaded, `PT_LOAD`."""

    offset: int
    address: int
    size: int


def load_segments(data: bytes) -> tuple[Segment, ...]:
    """Loaded segments of a 64-bit ELF file of this machine's byte order; none where it is no such file.

    They are needed because an instruction's place in the file is its virtual address only by some linkers' habit:
    lld and mold place them apart. Layout: `Elf64_Ehdr` and `Elf64_Phdr` in elf(5).
    """
    if data[:5] != b"\x7fELF\x02":
        return ()
    try:
        (table,) = struct.unpack_from("=Q", data, 32)
        entry_size, entries = struct.unpack_from("=HH", data, 54)
        segments = []
        for index in range(entries):
            kind, _, offset, address, _, size = struct.unpack_from("=IIQQQQ", data, table + index * entry_size)
            if kind == _PT_LOAD:
                segments.append(Segment(offset=offset, address=address, size=size))
    except struct.error:
        return ()
    return tuple(segments)


def to_virtual(segments: Iterable[Segment], offset: int) -> int | None:
    """The virtual address, as debug information has it, of a place in the file."""
    for segment in segments:
        if segment.offset <= offset < segment.offset + segment.size:
            return offset - segment.offset + segment.address
    return None


def _no_addr2line(what: str) -> Problem:
    return Problem(
        code="no-addr2line",
        message=f"addr2line, which turns samples into lines, {what}",
        hint="install it: sudo apt install binutils",
    )
