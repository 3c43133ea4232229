from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_lsp.profile.cachegrind import LineCount, geometry, in_user_files, parse
from kernel_lsp.profile.caches import Cache
from kernel_lsp.profile.lines import UserFiles

RECORDED = (Path(__file__).parent / "fixtures" / "cachegrind.txt").read_text(encoding="utf-8")
KERNEL = "/home/ada/kernels/mm.cpp"


def test_counts_by_line() -> None:
    counts = {(count.path, count.line): count for count in parse(RECORDED)}
    assert counts[KERNEL, 5] == LineCount(
        path=KERNEL,
        line=5,
        instructions=72224773,
        reads=21169152,
        writes=66049,
        d1_misses=16857601 + 65536,
        ll_misses=0,
    )


def test_functions_on_one_line_are_added_up() -> None:
    text = "events: Ir Dr D1mr DLmr Dw D1mw DLmw\nfl=a\nfn=f\n3 1 2 0 0 0 0 0\nfn=g\n3 10 20 0 0 0 0 0\n"
    (count,) = parse(text)
    assert (count.instructions, count.reads) == (11, 22)


def test_counts_left_out_at_the_end_are_zero() -> None:
    (count,) = parse("events: Ir Dr D1mr\nfl=a\nfn=f\n3 7\n")
    assert (count.instructions, count.reads) == (7, 0)


def test_a_line_that_is_not_known_is_left_out() -> None:
    assert parse("events: Ir\nfl=???\nfn=f\n0 7\n") == ()


def test_only_the_users_files() -> None:
    lines = in_user_files(parse(RECORDED), UserFiles(Path(KERNEL)))
    assert [line.location.span.start.line for line in lines] == [4, 6, 3, 5]
    assert {str(line.location.path) for line in lines} == {KERNEL}


@given(st.text() | st.text(alphabet="fln=events: IrDw0123456789-\n"))
def test_reading_counts_never_raises(text: str) -> None:
    parse(text)
    parse(f"events: Ir Dr\nfl=a\n{text}")


def cache(level: int, size: int, ways: int | None, line: int | None = 64) -> Cache:
    return Cache(level=level, size=size, ways=ways, line=line, shared_by="0")


def test_the_machines_own_caches_are_simulated() -> None:
    caches = (cache(1, 32 * 1024, 8), cache(2, 512 * 1024, 8), cache(3, 32 * 2**20, 16))
    assert geometry(caches) == ("--D1=32768,8,64", "--LL=33554432,16,64")


@pytest.mark.parametrize("ways", [12, 15, 20])
def test_sets_are_a_power_of_two(ways: int) -> None:
    (_, last) = geometry((cache(1, 48 * 1024, 12), cache(3, 300 * 2**20, ways)))
    size, _, line = (int(number) for number in last.removeprefix("--LL=").split(","))
    sets = size // (ways * line)
    assert sets & (sets - 1) == 0
    assert size <= 300 * 2**20 < 2 * size


def test_a_cache_that_is_not_described_is_left_to_cachegrind() -> None:
    assert geometry(()) == ()
    assert geometry((cache(1, 32 * 1024, None),)) == ()
