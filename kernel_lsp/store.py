"""SQLite history: what was tried on each kernel, its verdicts, and the device's measured ceilings.

Several servers may share one file: every write is one short transaction, and a writer waits for another. A file
that cannot be read is kept aside under a new name, never destroyed, and a fresh one begun.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from kernel_lsp import wire
from kernel_lsp.domain import Attempt, Ceilings, Problem, Timing, Verdict

SCHEMA_VERSION = 1
BUSY_SECONDS = 5.0

_SCHEMA = """
create table if not exists attempts (
  kernel text not null, fingerprint text not null, number integer not null,
  attempt text not null, source text not null, at text not null
);
create index if not exists attempts_of on attempts (kernel);
create table if not exists verdicts (
  path text not null, digest text not null, verdict text not null, timing text, at text not null
);
create index if not exists verdicts_of on verdicts (path);
create table if not exists ceilings (device text not null, threads integer not null, ceilings text not null,
  primary key (device, threads));
"""


class Store:
    """One history file.

    Where the file cannot be opened or made (a read-only or full disk), the history lives in memory until the
    server ends, and `problem` says so.
    """

    def __init__(self, path: Path | None) -> None:
        self.problem: Problem | None = None
        self._db = self._open(path)

    def close(self) -> None:
        self._db.close()

    def memory(self, context: str) -> StoredMemory:
        """Attempts under one `context`: reference, compiler, flags and device, on which outcomes depend."""
        return StoredMemory(store=self, context=context)

    def attempts(self, kernel: str) -> tuple[tuple[Attempt, str], ...]:
        """Every attempt on `kernel` with the text it tried, in the order made."""
        rows = self._read("select attempt, source from attempts where kernel = ? order by rowid", kernel)
        found: list[tuple[Attempt, str]] = []
        for attempt, source in rows:
            # A row that a newer version wrote in another shape is left alone.
            with contextlib.suppress(wire.WireError):
                found.append((wire.loads(Attempt, attempt), str(source)))
        return tuple(found)

    def remember(self, kernel: str, attempt: Attempt, source: str) -> None:
        self._write(
            "insert into attempts values (?, ?, ?, ?, ?, ?)",
            kernel,
            attempt.fingerprint,
            attempt.number,
            wire.dumps(attempt),
            source,
            now(),
        )

    def record(self, path: Path, digest: str, verdict: Verdict, timing: Timing | None) -> None:
        self._write(
            "insert into verdicts values (?, ?, ?, ?, ?)",
            str(path),
            digest,
            wire.dumps(verdict),
            None if timing is None else wire.dumps(timing),
            now(),
        )

    def ceilings(self, device: str, threads: int) -> Ceilings | None:
        rows = self._read("select ceilings from ceilings where device = ? and threads = ?", device, threads)
        with contextlib.suppress(wire.WireError):
            for (text,) in rows:
                return wire.loads(Ceilings, text)
        return None

    def keep_ceilings(self, ceilings: Ceilings) -> None:
        self._write(
            "insert or replace into ceilings values (?, ?, ?)",
            ceilings.device,
            ceilings.threads,
            wire.dumps(ceilings),
        )

    def _open(self, path: Path | None) -> sqlite3.Connection:
        if path is None:
            return _connect(":memory:")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                return _connect(str(path))
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError:
                aside = _set_aside(path)
                self.problem = Problem(
                    code="history-set-aside",
                    message=f"the history in {path} could not be read and was kept as {aside.name}",
                    hint="nothing to do; a fresh history was begun",
                )
                return _connect(str(path))
        except (OSError, sqlite3.Error) as error:
            self.problem = Problem(
                code="history-in-memory",
                message=f"the history in {path} cannot be written: {error}",
                hint="free some space or set `cache_dir`; until then nothing is remembered after the server ends",
            )
            return _connect(":memory:")

    def _read(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.Error:
            return []

    def _write(self, query: str, *values: object) -> None:
        # History is a help, never a condition: a full disk or a lock held too long loses a line, not a check.
        with contextlib.suppress(sqlite3.Error), self._db:
            self._db.execute(query, values)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMemory:
    """The `Memory` of a search, kept in the store."""

    store: Store
    context: str

    def attempts(self, kernel: str) -> tuple[Attempt, ...]:
        return tuple(attempt for attempt, _ in self.store.attempts(self._key(kernel)))

    def remember(self, kernel: str, attempt: Attempt, text: str) -> None:
        self.store.remember(self._key(kernel), attempt, text)

    def source(self, kernel: str, fingerprint: str) -> str | None:
        """The text that was tried under `fingerprint`."""
        found: Iterator[str] = (
            text for attempt, text in self.store.attempts(self._key(kernel)) if attempt.fingerprint == fingerprint
        )
        return next(found, None)

    def _key(self, kernel: str) -> str:
        return hashlib.sha256(f"{self.context}\0{kernel}".encode()).hexdigest()


def now() -> str:
    """The time as it is stored: ISO 8601, UTC, seconds."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _connect(name: str) -> sqlite3.Connection:
    db = sqlite3.connect(name, timeout=BUSY_SECONDS, check_same_thread=False)
    try:
        (version,) = db.execute("pragma user_version").fetchone()
        if version > SCHEMA_VERSION:
            raise sqlite3.DatabaseError(f"written by a newer kernel-lsp (schema {version})")
        db.execute("pragma journal_mode = wal")
        db.executescript(_SCHEMA)
        db.execute(f"pragma user_version = {SCHEMA_VERSION}")
    except BaseException:
        db.close()
        raise
    return db


def _set_aside(path: Path) -> Path:
    stamp = now().replace(":", "")
    aside = path.with_name(f"{path.name}.{stamp}.aside")
    path.rename(aside)
    for suffix in ("-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    return aside
