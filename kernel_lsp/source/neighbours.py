"""The files around a kernel: headers it includes, other sources of its extension, the Torch reference beside it."""

from __future__ import annotations

import ast
import functools
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kernel_lsp.source.bindings import Binding, bindings
from kernel_lsp.source.declarations import Declarations, declarations
from kernel_lsp.source.parse import ParsedSource, parse

SOURCE_SUFFIXES = frozenset({".cpp", ".cc", ".cxx", ".c++", ".cu"})
MAX_FILES = 400
"""Of a folder; beyond this it is no folder of one extension, and reading it would take longer than a keystroke."""
MAX_BYTES = 2_000_000
SETUP_LEVELS = 3
"""How far up a `setup.py` is looked for."""


# --- reading ------------------------------------------------------------------------------------------------


def read_text(path: Path) -> str | None:
    """None where there is no such file, or none that can be source text."""
    try:
        if path.stat().st_size > MAX_BYTES:
            return None
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A source of the extension, as far as pairing looks at it."""

    path: Path
    parsed: ParsedSource
    found: Declarations
    bindings: tuple[Binding, ...]

    @property
    def defined(self) -> set[str]:
        """Unqualified names of the functions that other files can call."""
        return {
            definition.function.name
            for definition in self.found.definitions
            if not definition.function.is_static and not definition.in_class
        }

    def declared(self) -> set[str]:
        """Names of functions that it, or a header of its folder that it includes, declares and does not define."""
        names = set(self.found.prototypes)
        for header in local_headers(self.path, self.found.includes):
            if (text := read_text(header)) is not None:
                names |= declarations(parse(header, text)).prototypes
        return names - self.defined

    def needed(self) -> set[str]:
        """Those of `declared` whose names it uses."""
        text = self.parsed.text
        return {
            name
            for name in self.declared()
            # A prototype in the file itself mentions the name once without using it.
            if len(re.findall(rf"\b{re.escape(name)}\b", text)) > (name in self.found.prototypes)
        }


@functools.lru_cache(maxsize=64)
def source_file(path: Path, text: str) -> SourceFile:
    parsed = parse(path, text)
    found = declarations(parsed)
    return SourceFile(path=path, parsed=parsed, found=found, bindings=bindings(parsed, found))


# --- headers ------------------------------------------------------------------------------------------------


def local_headers(path: Path, includes: Iterable[str]) -> tuple[Path, ...]:
    """Headers reached from `path` through `#include "…"` that exist, each once; a header may include itself."""
    seen: dict[str, Path] = {}
    queue = list(_existing(path, includes))
    while queue:
        header = queue.pop(0)
        real = os.path.realpath(header)
        if real in seen:
            continue
        seen[real] = header
        text = read_text(header)
        if text is not None:
            queue += _existing(header, _INCLUDE.findall(text))
    return tuple(seen.values())


_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*(\"[^\"\r\n]+\")", re.MULTILINE)


def _existing(path: Path, includes: Iterable[str]) -> Iterator[Path]:
    for include in includes:
        if include.startswith('"'):
            header = Path(os.path.normpath(path.parent / include.strip('"')))
            if header.is_file():
                yield header


# --- other sources ------------------------------------------------------------------------------------------


def siblings(source: SourceFile) -> tuple[SourceFile, ...]:
    """Other sources that `source` cannot be bound or linked without.

    First the file that binds one of its functions to Python, where it does not do so itself; then whatever defines a
    function that one of them uses. What several files define is left open: no one can tell which is meant.
    """
    pool = _pool(source.path)
    members = [source]
    if not any(binding.has_schema for binding in source.bindings):
        binder = next((other for text, other in pool if _BLOCK.search(text) and _binds(other(), source)), None)
        if binder is not None and not _clash(binder(), source):
            members.append(binder())
    for member in members:
        for name in sorted(member.needed() - set().union(*(m.defined for m in members))):
            mentions = re.compile(rf"\b{re.escape(name)}\s*\(")
            definers = [
                file
                for text, other in pool
                if mentions.search(text) and name in (file := other()).defined and not _clash(file, source)
            ]
            if len(definers) == 1 and all(definers[0].path != m.path for m in members):
                members.append(definers[0])
    return tuple(members[1:])


_BLOCK = re.compile(r"\b(?:PYBIND11_MODULE|(?:STABLE_)?TORCH_LIBRARY(?:_FRAGMENT)?)\s*\(")


def _binds(other: SourceFile, source: SourceFile) -> bool:
    """`other` binds a function of `source`, or declares the schema of an operator that `source` implements."""
    implemented = {binding.python_name for binding in source.bindings}
    return any(
        (binding.target is not None and binding.target.rpartition("::")[2] in source.defined)
        or (binding.has_schema and binding.python_name in implemented)
        for binding in other.bindings
    )


def _clash(other: SourceFile, source: SourceFile) -> bool:
    """Both define the same function: two versions of one kernel in a folder, not two parts of one extension."""
    return bool(_linked(other) & _linked(source))


def _linked(source: SourceFile) -> set[tuple[str, int]]:
    return {
        (definition.function.qualified_name, len(definition.function.parameters))
        for definition in source.found.definitions
        if not (definition.function.is_static or definition.function.is_template or definition.in_class)
    }


def _pool(path: Path) -> list[tuple[str, Callable[[], SourceFile]]]:
    """Text of each source that may belong to the extension of `path`, and how to get it parsed: those that a
    `setup.py` lists with it, else those of its folder.
    """
    listed = _listed_with(path)
    if listed is None:
        try:
            listed = sorted(itertools.islice(path.parent.iterdir(), MAX_FILES))
        except OSError:
            listed = []
    own = os.path.realpath(path)
    return [
        (text, functools.partial(source_file, other, text))
        for other in listed
        if other.suffix.lower() in SOURCE_SUFFIXES
        and os.path.realpath(other) != own
        and (text := read_text(other)) is not None
    ]


def _listed_with(path: Path) -> list[Path] | None:
    own = os.path.realpath(path)
    for folder in [path.parent, *path.parent.parents][: SETUP_LEVELS + 1]:
        text = read_text(folder / "setup.py")
        if text is None:
            continue
        for sources in setup_sources(text, folder):
            if any(os.path.realpath(source) == own for source in sources):
                return [Path(os.path.normpath(source)) for source in sources]
    return None


def setup_sources(text: str, folder: Path) -> list[list[Path]]:
    """The `sources` of each extension that a `setup.py` in `folder` builds, read without running it."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []
    constants = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found: list[list[Path]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            listed = next((keyword.value for keyword in node.keywords if keyword.arg == "sources"), None)
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if listed is None and name.endswith("Extension") and len(node.args) > 1:
                listed = node.args[1]
            if listed is not None and (paths := list(_paths(listed, constants, folder))):
                found.append(paths)
    return found


def _paths(node: ast.expr, constants: dict[str, ast.expr], folder: Path, depth: int = 0) -> Iterator[Path]:
    if depth > 8:
        return
    match node:
        case ast.Constant(value=str(text)):
            yield folder / text
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            for element in elements:
                yield from _paths(element, constants, folder, depth + 1)
        case ast.Name(id=name) if name in constants:
            yield from _paths(constants[name], constants, folder, depth + 1)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from _paths(left, constants, folder, depth + 1)
            yield from _paths(right, constants, folder, depth + 1)
        case ast.Call(func=ast.Attribute(attr="join"), args=parts):
            # os.path.join(here, "csrc", "a.cpp"): what is no literal is taken for the folder itself.
            names = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
            if names:
                yield folder.joinpath(*names)
        case ast.Call(func=ast.Attribute(attr="glob") | ast.Name(id="glob"), args=[pattern, *_]):
            for path in _paths(pattern, constants, folder, depth + 1):
                relative = os.path.relpath(path, folder)
                if not relative.startswith(".."):
                    yield from sorted(folder.glob(relative))


# --- the reference ------------------------------------------------------------------------------------------

_REFERENCE = re.compile(
    r"^(?:class\s+Model\b|(?:async\s+)?def\s+reference\b|(?:Model|reference)\s*(?::[^=\n]*)?=(?!=)"
    r"|from\s+\S+\s+import\b.*\b(?:Model|reference)\b|import\b.*\bas\s+reference\b)",
    re.MULTILINE,
)


def reference_names(path: Path) -> tuple[Path, ...]:
    """Where a reference is looked for, first choice first."""
    stem = path.stem
    names = (f"{stem}.py", f"{stem}_ref.py", f"{stem}_reference.py", "reference.py")
    return tuple(path.with_name(name) for name in names)


def is_reference(text: str) -> bool:
    """It defines `Model` or `reference` at its top level, by the look of its lines: it may hold a syntax error."""
    return _REFERENCE.search(text) is not None


def local_modules(path: Path) -> Iterator[Path]:
    """Python files beside `path` that it imports, directly or through one another."""
    seen = {os.path.realpath(path)}
    queue = [path]
    while queue:
        text = read_text(queue.pop())
        for name in _IMPORT.findall(text or ""):
            module = path.parent / (name.lstrip(".").split(".")[0] + ".py")
            real = os.path.realpath(module)
            if real not in seen and module.is_file():
                seen.add(real)
                queue.append(module)
                yield module


_IMPORT = re.compile(r"^[ \t]*(?:from|import)[ \t]+(\.?[A-Za-z_][\w.]*)", re.MULTILINE)
