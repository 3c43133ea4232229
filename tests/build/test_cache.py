from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kernel_lsp.build.cache import Cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    text: str


def publish(cache: Cache, digest: str, content: str = "x") -> Path:
    with cache.private() as folder:
        (folder / "file").write_text(content)
        return cache.publish(folder, digest, Note(text=content))


def test_what_was_published_is_recalled(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 1)
    entry = publish(cache, "abcd")
    known = Cache(tmp_path, 1).recall("abcd", Note)
    assert known is not None
    assert (known.folder, known.value.text, (entry / "file").read_text()) == (entry, "x", "x")
    assert cache.recall("abce", Note) is None
    assert not list((tmp_path / "private").iterdir())


def test_the_first_of_two_equal_entries_stays(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 1)
    assert publish(cache, "abcd", "first") == publish(cache, "abcd", "second")
    known = cache.recall("abcd", Note)
    assert known is not None
    assert known.value.text == "first"


def test_many_writers_of_one_entry_never_show_half_of_it(tmp_path: Path) -> None:
    def work(number: int) -> str:
        cache = Cache(tmp_path, 1)
        publish(cache, f"ab{number % 3}", str(number))
        known = cache.recall(f"ab{number % 3}", Note)
        assert known is not None
        assert (known.folder / "file").read_text() == known.value.text
        return known.value.text

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(60)))
    assert len(set(results)) == 3
    assert not list((tmp_path / "private").iterdir())


def test_a_damaged_entry_is_removed_and_made_again(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 1)
    entry = publish(cache, "abcd")
    (entry / "result.json").write_text("{")
    assert cache.recall("abcd", Note) is None
    assert not entry.exists()
    publish(cache, "abcd", "again")
    known = cache.recall("abcd", Note)
    assert known is not None
    assert known.value.text == "again"


def test_an_unwritable_folder_is_said_once_and_replaced(tmp_path: Path) -> None:
    obstacle = tmp_path / "file"
    obstacle.write_text("")
    cache = Cache(obstacle / "builds", 1)
    entry = publish(cache, "abcd")
    assert cache.problem is not None
    assert cache.problem.code == "cache-not-writable"
    assert (entry / "file").read_text() == "x"
    assert cache.recall("abcd", Note) is not None


def test_the_least_recently_used_go_first_and_those_in_use_stay(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 5000 / 1e9)
    now = time.time()
    for age, digest in ((4000, "aa1"), (3000, "bb2"), (2000, "cc3"), (0, "dd4")):
        entry = publish(cache, digest, "x" * 1000)
        os.utime(entry, (now - age, now - age))
    cache.trim()
    kept = {digest for digest in ("aa1", "bb2", "cc3", "dd4") if cache.recall(digest, Note)}
    assert kept == {"cc3", "dd4"}
    small = Cache(tmp_path, 1 / 1e9)
    small.trim()
    assert small.recall("dd4", Note) is not None


def test_what_a_killed_build_left_is_removed_later(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 1)
    left, fresh = tmp_path / "private" / "left", tmp_path / "private" / "fresh"
    left.mkdir(parents=True)
    fresh.mkdir()
    os.utime(left, (0, 0))
    cache.trim()
    assert not left.exists()
    assert fresh.exists()


def test_a_clock_that_jumps_back_removes_nothing_in_use(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 1 / 1e9)
    entry = publish(cache, "abcd")
    ahead = time.time() + 60
    os.utime(entry, (ahead, ahead))
    cache.trim()
    assert cache.recall("abcd", Note) is not None
