"""Rewrites on offer: shown as a diff, applied only to the very text they were made for, never lost."""

from __future__ import annotations

import difflib
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lsprotocol import types

from kernel_lsp.domain import Finished, Offer
from kernel_lsp.fronts import words
from kernel_lsp.fronts.lsp.client import Client
from kernel_lsp.fronts.lsp.documents import Document
from kernel_lsp.fronts.lsp.positions import TextIndex
from kernel_lsp.fronts.lsp.uris import to_path
from kernel_lsp.source.edits import digest
from kernel_lsp.source.lines import encode


class Home(Protocol):
    def document(self, uri: str) -> Document | None: ...

    def cache_dir(self, path: Path) -> Path: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    id: str
    uri: str
    path: Path
    before: str
    """The text that the offer was made for."""
    offer: Offer


class Offers:
    """At most one for a file; a newer one takes its place."""

    def __init__(self, client: Client, home: Home) -> None:
        self._client = client
        self._home = home
        self._pending: dict[str, Pending] = {}

    async def present(self, document: Document, finished: Finished) -> None:
        """Show the diff and ask; without an offer, say why there is none."""
        sentence = words.finished_sentence(finished)
        if finished.offer is None:
            self._client.say(sentence)
            return
        pending = Pending(
            id=uuid.uuid4().hex,
            uri=document.uri,
            path=document.path,
            before=finished.unit.text,
            offer=finished.offer,
        )
        self._pending = {other.id: other for other in self._pending.values() if other.uri != pending.uri}
        self._pending[pending.id] = pending
        if self._client.shows_offers:
            self._client.offer(
                {
                    "id": pending.id,
                    "uri": pending.uri,
                    "version": document.version if document.digest == finished.unit.digest else None,
                    "message": sentence,
                    "newText": pending.offer.new_text,
                }
            )
            return
        await self._ask(pending, sentence)

    async def apply(self, id: str) -> None:
        pending = self._pending.get(id)
        if pending is None:
            self._client.warn(words.offer_gone())
            return
        name = pending.path.name
        document = self._home.document(pending.uri)
        text = document.text if document is not None else _on_disk(pending.uri)
        if text is None or digest(text) != pending.offer.unit_digest:
            self._client.warn(words.offer_stale(name, str(self._keep(pending))))
            return
        index = TextIndex(encode(text), self._client.encoding)
        edits = [
            types.TextEdit(range=index.to_range(edit.span), new_text=edit.new_text) for edit in pending.offer.edits
        ]
        version = None if document is None else document.version
        edit = self._client.edit_of(pending.uri, version, edits)
        refusal = await self._client.apply(edit, words.offer_sentence(pending.offer))
        if refusal is not None:
            self._client.warn(words.offer_refused(name, refusal, str(self._keep(pending))))
            return
        self._pending.pop(id, None)

    async def _ask(self, pending: Pending, sentence: str) -> None:
        """For clients that cannot show a diff by themselves."""
        options = (words.APPLY, words.SHOW_DIFF, words.DISCARD)
        while (picked := await self._client.choose(f"{pending.path.name}: {sentence}", options)) == words.SHOW_DIFF:
            await self._client.open(self._write(pending, ".diff", _diff(pending)))
        if picked == words.APPLY:
            await self.apply(pending.id)
        elif picked == words.DISCARD:
            self._pending.pop(pending.id, None)

    def _keep(self, pending: Pending) -> Path:
        """The rewrite's text in a file of its own."""
        return self._write(pending, pending.path.suffix, pending.offer.new_text)

    def _write(self, pending: Pending, suffix: str, text: str) -> Path:
        folder = self._home.cache_dir(pending.path) / "offers"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{pending.path.stem}-{digest(pending.offer.new_text)[:8]}{suffix}"
        path.write_bytes(encode(text))
        return path


def _diff(pending: Pending) -> str:
    name = pending.path.name
    before, after = pending.before.splitlines(keepends=True), pending.offer.new_text.splitlines(keepends=True)
    lines = difflib.unified_diff(before, after, f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _on_disk(uri: str) -> str | None:
    path = to_path(uri)
    try:
        return None if path is None else path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
