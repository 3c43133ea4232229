"""What a build depends on, by content: a source's tokens with their lines, and the local headers that it reaches."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

TOKENS = re.compile(
    r"""
    (?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)")
  | (?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+')
  | (?P<number>\.?\d(?:'?[\w.]|[eEpP][+-])*)
  | (?P<comment>//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z))
  | (?P<word>\w+)
  | (?P<newline>\r?\n)
  | (?P<space>[^\S\n]+)
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)

_INCLUDE = re.compile(r'^[^\S\n]*#[^\S\n]*include(?:_next)?[^\S\n]*(?:"([^"\n]+)"|<([^>\n]+)>|(\w))', re.MULTILINE)

_TORCH_HEADER = re.compile(r"^(?:torch|ATen|c10|caffe2|pybind11)/")

_MOST_HEADERS = 400
"""More local headers than this is a project's whole tree; the rest are left to the compiler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One translation unit: text that may differ from what is on disk, and the place that it stands for."""

    path: Path
    text: str

    @property
    def digest(self) -> str:
        return sha256(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Closure:
    """What a source reaches by `#include`, as far as it is local."""

    headers: tuple[Path, ...]
    """Local headers, each once, in the order first met."""
    lines: tuple[tuple[Path, int], ...]
    """For each of `headers`, the zero-based line of the source that leads to it."""
    uses_torch: bool
    """It or a local header includes one of torch's or pybind11's headers."""
    computed: bool
    """It or a local header has an `#include MACRO`: its dependencies cannot be read from the text."""
    digest: str
    """Over the normal forms of the source and of all `headers`."""

    def include_line(self, header: Path) -> int | None:
        return dict(self.lines).get(header)


def normal_form(text: str) -> str:
    """`text` without comments and with white space folded, line by line.

    Lines keep their numbers: debug information and the compiler's messages carry them. (Of a source itself, `bare`
    has taken the lines that hold no code before.)
    """
    lines = [""]
    gap = False
    for token in TOKENS.finditer(text):
        if token.lastgroup in ("comment", "space", "newline"):
            gap = True
            lines += [""] * token[0].count("\n")
        else:
            lines[-1] += (" " if gap and lines[-1] else "") + token[0]
            gap = False
    return "\n".join(lines).rstrip("\n")


def closure(source: Source, include_dirs: Sequence[Path]) -> Closure:
    """Follow `source`'s includes through its own folder and `include_dirs`, never through the system's."""
    hasher = hashlib.sha256(normal_form(source.text).encode(errors="surrogateescape"))
    found: dict[Path, int] = {}
    uses_torch = computed = False
    seen: set[Path] = {_resolved(source.path)}
    # Each entry: text, its folder, and the line of the source that leads there (None in the source itself).
    pending: list[tuple[str, Path, int | None]] = [(source.text, source.path.parent, None)]
    while pending:
        text, folder, origin = pending.pop()
        for line, name, is_computed in _includes(text):
            computed |= is_computed
            uses_torch |= bool(_TORCH_HEADER.match(name))
            header = _find(name, (folder, source.path.parent, *include_dirs))
            if header is None or header in seen or len(found) >= _MOST_HEADERS:
                continue
            seen.add(header)
            try:
                content = header.read_text(encoding="utf-8", errors="surrogateescape")
            except OSError:
                continue
            found[header] = line if origin is None else origin
            hasher.update(f"\0{header}\0{normal_form(content)}".encode(errors="surrogateescape"))
            pending.append((content, header.parent, found[header]))
    return Closure(
        headers=tuple(found),
        lines=tuple(found.items()),
        uses_torch=uses_torch,
        computed=computed,
        digest=hasher.hexdigest(),
    )


def sha256(*parts: str) -> str:
    """One digest over `parts`, each kept apart from the next."""
    hasher = hashlib.sha256()
    for part in parts:
        data = part.encode(errors="surrogateescape")
        hasher.update(len(data).to_bytes(8, "little") + data)
    return hasher.hexdigest()


def tree_digest(folder: Path) -> str:
    """Digest of all files below `folder`, by name and content."""
    files = sorted(
        path for path in folder.rglob("*") if path.is_file() and path.suffix in {".h", ".hpp", ".cpp", ".c", ""}
    )
    return sha256(*(part for path in files for part in (str(path.relative_to(folder)), path.read_text("utf-8"))))


@lru_cache(maxsize=1)
def own_digest() -> str:
    """Of this package's own code: what it stores is read back by the same code only."""
    return sha256(*(path.read_text("utf-8") for path in sorted(Path(__file__).parent.glob("*.py"))))


@lru_cache(maxsize=1)
def processor() -> str:
    """What `-march=native` means here, so that a cache shared by two machines never mixes them."""
    try:
        cpu = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return ""
    first = cpu.split("\n\n", 1)[0].splitlines()
    return sha256(
        *(line for line in first if line.startswith(("model", "flags", "cpu family", "Features", "CPU part")))
    )


def _includes(text: str) -> Iterator[tuple[int, str, bool]]:
    """Zero-based line and name of each include; the flag marks `#include MACRO`, whose name is empty."""
    for found in _INCLUDE.finditer(text):
        yield text.count("\n", 0, found.start(0)), found[1] or found[2] or "", found[3] is not None


def _find(name: str, folders: Iterable[Path]) -> Path | None:
    if not name:
        return None
    for folder in folders:
        candidate = folder / name
        try:
            if candidate.is_file():
                return candidate.resolve()
        except (OSError, ValueError):
            continue
    return None


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path
