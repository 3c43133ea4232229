"""Text → syntax tree, re-parsing only what changed."""

from __future__ import annotations

import functools
import re
from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tree_sitter
import tree_sitter_cpp
import tree_sitter_cuda
from tree_sitter import Node, Parser, Tree

from kernel_lsp.domain import Language, Position, Span
from kernel_lsp.source.lines import LineIndex, encode

CUDA_SUFFIXES = frozenset({".cu", ".cuh"})
CPP_SUFFIXES = frozenset({".cpp", ".cc", ".cxx", ".c++", ".h", ".hh", ".hpp", ".hxx"})


class Memo:
    """What was worked out for parts of one text; the next version of it takes over what it asks for, and no more."""

    __slots__ = ("_earlier", "_used")

    def __init__(self, earlier: Memo | None = None) -> None:
        self._earlier: dict[Any, Any] = {} if earlier is None else earlier._used
        self._used: dict[Any, Any] = {}

    def __len__(self) -> int:
        return len(self._used)

    def get(self, key: Hashable) -> Any:
        """None where nothing is known."""
        value = self._used.get(key)
        if value is None and (value := self._earlier.get(key)) is not None:
            self._used[key] = value
        return value

    def put(self, key: Hashable, value: Any) -> None:
        self._used[key] = value


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ParsedSource:
    """One text with its syntax tree. Nodes of `tree` and spans refer to exactly this text."""

    path: Path
    text: str
    data: bytes
    """`text` in UTF-8. Read a node's text from here (`text_of`): the parser saw some macros blanked out."""
    language: Language
    tree: Tree
    lines: LineIndex
    memo: Memo = field(repr=False)
    _seen: bytes = field(repr=False)
    """What the parser saw; as long as `data`."""

    @property
    def root(self) -> Node:
        return self.tree.root_node

    def span(self, node: Node) -> Span:
        return self.lines.span(node.start_byte, node.end_byte)

    def position(self, offset: int) -> Position:
        """Of a byte offset in `data`."""
        return self.lines.position(offset)

    def offset(self, position: Position) -> int:
        """Byte offset in `data`; a column past the line's last byte means its end."""
        return self.lines.offset(position)

    def text_of(self, node: Node) -> str:
        return self.data[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def text_at(self, span: Span) -> str:
        return self.data[self.offset(span.start) : self.offset(span.end)].decode("utf-8", "replace")

    def node_at(self, span: Span) -> Node:
        """The smallest named node that covers `span`; of several with the same extent, the outermost."""
        start, end = self.offset(span.start), self.offset(span.end)
        node = self.root.named_descendant_for_byte_range(start, end) or self.root
        while (parent := node.parent) is not None and (parent.start_byte, parent.end_byte) == (start, end):
            node = parent
        return node


def parse(path: Path, text: str, previous: ParsedSource | None = None) -> ParsedSource:
    """The syntax tree of `text`; with `previous`, an earlier text of the same file, only what changed is parsed."""
    language = language_of(path)
    data = encode(text)
    seen = _blanked(data, language)
    lines = LineIndex(data)
    old: Tree | None = None
    memo = Memo()
    if previous is not None and previous.language is language:
        memo = Memo(previous.memo)
        old = _edited(previous, seen)
    parser = Parser(grammar(language))
    tree = parser.parse(seen) if old is None else parser.parse(seen, old)
    return ParsedSource(
        path=path, text=text, data=data, language=language, tree=tree, lines=lines, memo=memo, _seen=seen
    )


def language_of(path: Path) -> Language:
    return Language.CUDA if path.suffix.lower() in CUDA_SUFFIXES else Language.CPP


@functools.cache
def grammar(language: Language) -> tree_sitter.Language:
    if language is Language.CUDA:
        return tree_sitter.Language(tree_sitter_cuda.language())
    return tree_sitter.Language(tree_sitter_cpp.language())


_ATTRIBUTE_MACRO = re.compile(
    rb"""
    ^ [ \t]* (?: (?: static | inline | extern | constexpr | virtual | friend | template \s* <[^<>\n]*> ) [ \t]+ )*
    ( [A-Z] [A-Z0-9_]{2,} )
    (?= \s+ (?: [A-Za-z_] [\w:]* (?: <[^;{}()\n]*> )? [\s*&]+ )+ [A-Za-z_~] [\w:]* \s* \( )
    """,
    re.MULTILINE | re.VERBOSE,
)
"""`C10_EXPORT torch::Tensor f(`: a name in capitals before what is a whole declaration without it."""

_CUDA_WORD = re.compile(rb"\b__(?:host|device|forceinline|noinline)__\b(?!\s*\()")
"""In headers that serve both languages; only the CUDA grammar knows them."""


def _blanked(data: bytes, language: Language) -> bytes:
    """`data` with macros in the place of attributes turned to blanks, which the grammar cannot know to be such."""
    if language is Language.CPP:
        data = _CUDA_WORD.sub(_blank, data)
    return _ATTRIBUTE_MACRO.sub(_blank, data)


def _blank(match: re.Match[bytes]) -> bytes:
    whole = match.group()
    start, end = match.span(1) if match.re.groups else match.span()
    offset = match.start()
    return whole[: start - offset] + b" " * (end - start) + whole[end - offset :]


def _edited(previous: ParsedSource, new: bytes) -> Tree:
    """`previous`'s tree, told of the smallest edit that leads to `new`."""
    old = previous._seen
    tree = previous.tree.copy()
    if old == new:
        return tree
    start = _common_prefix(old, new)
    limit = min(len(old), len(new)) - start
    tail = _common_prefix(old[: len(old) - limit - 1 : -1], new[: len(new) - limit - 1 : -1]) if limit else 0
    old_end, new_end = len(old) - tail, len(new) - tail
    tree.edit(
        start_byte=start,
        old_end_byte=old_end,
        new_end_byte=new_end,
        start_point=_point(old, start),
        old_end_point=_point(old, old_end),
        new_end_point=_point(new, new_end),
    )
    return tree


def _common_prefix(a: bytes, b: bytes) -> int:
    """Length of the common beginning, by bisection: comparing slices runs at the speed of memory."""
    low, high = 0, min(len(a), len(b))
    if a[:high] == b[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _point(data: bytes, offset: int) -> tuple[int, int]:
    """Tree-sitter's own: its rows end at \\n only."""
    row_start = data.rfind(b"\n", 0, offset) + 1
    return data.count(b"\n", 0, offset), offset - row_start
