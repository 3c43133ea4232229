"""A folder of finished builds, addressed by content: no locks, atomic publication, the least recently used go first."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from kernel_lsp import wire
from kernel_lsp.domain import Problem

T = TypeVar("T")

_VALUE = "result.json"

_sessions: dict[Path, tempfile.TemporaryDirectory[str]] = {}
"""Temporary folders of this process, by the cache folder that could not be written."""

_ABANDONED_S = 6 * 3600.0
"""A private folder untouched for this long belongs to nobody: no compile takes that long."""

_IN_USE_S = 600.0
"""An entry used within this time is not removed: a worker may be about to load it."""

_TRIM_EVERY_S = 120.0


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    folder: Path
    value: T
    """What was published with it."""


class Cache:
    """Entries are folders named by a digest. Whoever finishes one first publishes it; a second, equal one is dropped.

    Where the folder cannot be written, work goes on in a temporary folder that ends with this process, and
    `problem` says so.
    """

    def __init__(self, root: Path, limit_gb: float) -> None:
        self.problem: Problem | None = None
        self._root = root
        self._limit_bytes = int(limit_gb * 1e9)
        self._trimmed = 0.0

    def recall(self, digest: str, kind: type[T]) -> Entry[T] | None:
        """The entry of `digest`, marked as used just now; a damaged one is removed."""
        for root in self._roots():
            folder = _place(root, digest)
            try:
                value: T = wire.loads(kind, (folder / _VALUE).read_bytes())
            except OSError:
                continue
            except (wire.WireError, UnicodeDecodeError):
                _remove(folder, root)
                continue
            with contextlib.suppress(OSError):
                os.utime(folder)
            return Entry(folder, value)
        return None

    @contextlib.contextmanager
    def private(self) -> Iterator[Path]:
        """A folder of one's own to work in, removed at the end unless it was published."""
        folder = self._new_folder()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def publish(self, folder: Path, digest: str, value: object) -> Path:
        """Move `folder`, with `value`, to its place as the entry of `digest` and return that place."""
        if self.problem is None:
            try:
                entry = _publish(folder, self._root, digest, value)
            except OSError as error:
                self._complain(error)
            else:
                self._trim_sometimes()
                return entry
        return _publish(folder, self._session_root(), digest, value)

    def trim(self) -> None:
        """Remove abandoned private folders, and entries beyond the limit, least recently used first."""
        now = time.time()
        for folder in _children(self._root / "private"):
            if now - _used(folder) > _ABANDONED_S:
                shutil.rmtree(folder, ignore_errors=True)
        entries = [entry for shelf in _children(self._root / "entries") for entry in _children(shelf)]
        sized = sorted((_used(entry), entry, _size(entry)) for entry in entries)
        excess = sum(size for _, _, size in sized) - self._limit_bytes
        for used, entry, size in sized:
            if excess <= 0 or abs(now - used) < _IN_USE_S:
                break
            if _remove(entry, self._root):
                excess -= size

    def _roots(self) -> tuple[Path, ...]:
        session = _sessions.get(self._root)
        return (self._root,) if session is None else (Path(session.name), self._root)

    def _session_root(self) -> Path:
        if self._root not in _sessions:
            _sessions[self._root] = tempfile.TemporaryDirectory(prefix="kernel-lsp-")
        return Path(_sessions[self._root].name)

    def _new_folder(self) -> Path:
        if self.problem is None:
            try:
                return _fresh(self._root)
            except OSError as error:
                self._complain(error)
        return _fresh(self._session_root())

    def _complain(self, error: OSError) -> None:
        self.problem = Problem(
            code="cache-not-writable",
            message=f"builds cannot be kept in {self._root}: {error.strerror or error}",
            hint='free space or permissions there, or name another folder in the setting "cache-dir"',
        )

    def _trim_sometimes(self) -> None:
        # A monotonic clock: a jump of the system's must not stop the trimming.
        now = time.monotonic()
        if now - self._trimmed > _TRIM_EVERY_S or self._trimmed == 0.0:
            self._trimmed = now
            self.trim()


def _place(root: Path, digest: str) -> Path:
    return root / "entries" / digest[:2] / digest


def _publish(folder: Path, root: Path, digest: str, value: object) -> Path:
    entry = _place(root, digest)
    entry.parent.mkdir(parents=True, exist_ok=True)
    if not folder.is_relative_to(root):
        folder = Path(shutil.copytree(folder, _fresh(root) / "entry", symlinks=True))
    (folder / _VALUE).write_text(wire.dumps(value), encoding="utf-8")
    try:
        folder.rename(entry)
    except OSError:
        # Somebody else was first with the same content.
        if not entry.is_dir():
            raise
    return entry


def _remove(entry: Path, root: Path) -> bool:
    try:
        # Renamed first, so that nobody finds half an entry.
        doomed = _fresh(root)
        entry.rename(doomed / entry.name)
    except OSError:
        return False
    shutil.rmtree(doomed, ignore_errors=True)
    return True


def _fresh(root: Path) -> Path:
    base = root / "private"
    base.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(dir=base))


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _used(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:
        return time.time()


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.lstat().st_size
    return total
