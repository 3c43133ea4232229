"""The files that the editor holds open, byte for byte, and what is known of each.

pygls keeps documents of its own, but splits their lines at form feeds and U+2028 too, so that an edit in a file
with one of these lands on the wrong line; these are kept instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from lsprotocol import types

from kernel_lsp.domain import Finding, KernelUnit
from kernel_lsp.fronts.lsp.known import Known
from kernel_lsp.fronts.lsp.positions import Encoding, TextIndex
from kernel_lsp.source.edits import digest
from kernel_lsp.source.lines import decode, encode

Change: TypeAlias = types.TextDocumentContentChangeEvent


class Snapshot:
    """One version of a document's text. Everything worked out from it is worked out once."""

    def __init__(self, data: bytes, encoding: Encoding) -> None:
        self.data = data
        self.index = TextIndex(data, encoding)

    @cached_property
    def text(self) -> str:
        return decode(self.data)

    @cached_property
    def digest(self) -> str:
        return digest(self.text)


class Document:
    """An open file with its jobs and results."""

    def __init__(self, *, uri: str, path: Path, version: int, text: str, encoding: Encoding) -> None:
        self.uri = uri
        self.path = path
        self.version = version
        self.is_open = True
        self._encoding = encoding
        self.now = Snapshot(encode(text), encoding)
        self.saved_digest: str | None = None
        """Of the text that the disk holds, as far as the client told; None until it is known."""
        self.is_kernel = False
        """Somebody means it to be judged, as far as its text was last read."""
        self.static: tuple[str, tuple[Finding, ...]] | None = None
        """Findings from the text alone, and the digest of that text."""
        self.read: KernelUnit | None = None
        """The kernel as last read; it may hold a text that has changed since."""
        self.known: Known | None = None
        """The newest results; they may belong to a text that has changed since."""
        self.treatable: tuple[tuple[Finding, ...], frozenset[str]] | None = None
        """Findings, and the codes of those that a skill can do something about."""
        self.reading_cost_s = 0.0
        self.pause: asyncio.TimerHandle | None = None
        """Ends when the text is read again after typing."""
        self.check: asyncio.Task[None] | None = None
        self.checking: str | None = None
        """Digest of the text that `check` is about."""
        self.optimization: asyncio.Task[None] | None = None
        self.optimizing: str | None = None
        """Digest of the text that `optimization` is about; None until it has begun."""

    @property
    def text(self) -> str:
        return self.now.text

    @property
    def digest(self) -> str:
        return self.now.digest

    @property
    def shown(self) -> Known | None:
        """The results, as long as they belong to exactly this text."""
        return self.known if self.known is not None and self.known.unit.digest == self.digest else None

    @property
    def static_findings(self) -> tuple[Finding, ...] | None:
        """From exactly this text; None until it was read."""
        return self.static[1] if self.static is not None and self.static[0] == self.digest else None

    @property
    def unit(self) -> KernelUnit | None:
        """The kernel in exactly this text; None until it was read."""
        if (known := self.shown) is not None:
            return known.unit
        return self.read if self.read is not None and self.read.digest == self.digest else None

    def change(self, version: int, changes: Sequence[Change]) -> None:
        data = self.now.data
        for change in changes:
            new = encode(change.text)
            if isinstance(change, types.TextDocumentContentChangePartial):
                index = TextIndex(data, self._encoding)
                start, end = index.offset(change.range.start), index.offset(change.range.end)
                data = data[:start] + new + data[max(start, end) :]
            else:
                data = new
        self.version = version
        self._become(data)

    def saved(self, text: str) -> None:
        """The client wrote `text` to the disk; where an edit was lost on the way, this mends it."""
        self._become(encode(text))
        self.saved_digest = self.digest

    def _become(self, data: bytes) -> None:
        if data != self.now.data:
            self.now = Snapshot(data, self._encoding)
