"""The history survives what happens to files, and never destroys one."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

from kernel_lsp.domain import Attempt, Ceilings, Interval, Outcome
from kernel_lsp.store import Store


def attempt(number: int, fingerprint: str = "f") -> Attempt:
    return Attempt(
        number=number,
        parent="p",
        base="p",
        fingerprint=fingerprint,
        skill="tile-for-cache",
        parameters=(("tile", 32),),
        outcome=Outcome.FASTER,
        speedup=Interval(low=1.5, mid=2.0, high=2.5),
        detail="2.0× its parent",
    )


def test_attempts_survive_a_restart_and_keep_their_order(tmp_path: Path) -> None:
    for number in range(3):
        store = Store(tmp_path / "h.sqlite")
        store.memory("here").remember("kernel", attempt(number, f"f{number}"), f"text {number}")
        store.close()
    memory = Store(tmp_path / "h.sqlite").memory("here")
    assert [a.number for a in memory.attempts("kernel")] == [0, 1, 2]
    assert memory.source("kernel", "f1") == "text 1"


def test_another_context_shares_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "h.sqlite")
    store.memory("gcc 12").remember("kernel", attempt(0), "")
    assert store.memory("gcc 13").attempts("kernel") == ()


def test_ceilings_are_kept_by_device_and_threads(tmp_path: Path) -> None:
    ceilings = Ceilings(
        device="cpu", threads=2, dram_gbs=20.0, fp32_gflops=100.0, fp64_gflops=50.0, spread=0.1, measured_at="now"
    )
    store = Store(tmp_path / "h.sqlite")
    store.keep_ceilings(ceilings)
    assert store.ceilings("cpu", 2) == ceilings
    assert store.ceilings("cpu", 4) is None


def test_a_damaged_history_is_kept_aside(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    path.write_bytes(b"this is no database" * 100)
    store = Store(path)
    store.memory("x").remember("kernel", attempt(0), "")
    assert store.problem is not None and store.problem.code == "history-set-aside"
    (aside,) = tmp_path.glob("*.aside")
    assert aside.read_bytes().startswith(b"this is no database")
    assert Store(path).memory("x").attempts("kernel") == (attempt(0),)


def test_a_history_from_a_newer_version_is_kept_aside(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    db = sqlite3.connect(path)
    db.execute("pragma user_version = 99")
    db.close()
    assert Store(path).problem is not None
    (aside,) = tmp_path.glob("*.aside")
    assert sqlite3.connect(aside).execute("pragma user_version").fetchone() == (99,)


def test_a_history_that_cannot_be_written_lives_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file" / "h.sqlite")
    assert store.problem is not None and store.problem.code == "history-in-memory"
    store.memory("x").remember("kernel", attempt(0), "")
    assert len(store.memory("x").attempts("kernel")) == 1


def test_two_servers_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    Store(path).close()

    def write(worker: int) -> None:
        store = Store(path)
        for number in range(50):
            store.memory("x").remember("kernel", attempt(number, f"{worker}"), "")
        store.close()

    threads = [threading.Thread(target=write, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Store(path).memory("x").attempts("kernel")) == 100
