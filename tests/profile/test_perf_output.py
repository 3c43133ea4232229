from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kernel_lsp.profile.perf_output import Address, parse_counters, parse_script

FIXTURES = Path(__file__).parent / "fixtures"

MAPPED = """\
    0/0     PERF_RECORD_MMAP2 7/7: [0x7000(0x1000) @ 0x2000 fe:00 26 0]: r-xp /lib/a.so
"""


def script() -> str:
    return (FIXTURES / "script.txt").read_text(encoding="utf-8")


def test_every_sample_is_counted_once() -> None:
    sample_lines = [line for line in script().splitlines() if line and line[0].isdigit()]
    assert sum(parse_script(script()).values()) == len(sample_lines) == 252


def test_addresses_are_places_in_the_file() -> None:
    addresses = parse_script(script())
    kernel = {a.offset: n for a, n in addresses.items() if a.object == "/home/ada/my kernels (old)/k.so"}
    assert set(kernel) == {0x11A4, 0x11AE, 0x11B2, 0x11CA}
    assert max(kernel, key=lambda offset: kernel[offset] if offset else 0) == 0x11B2
    assert {a.symbol for a in addresses if a.offset in kernel} == {"colsum._omp_fn.0"}


def test_a_missing_symbol_is_empty() -> None:
    assert {a.symbol for a in parse_script(script()) if "libgomp" in a.object} == {""}


def test_symbols_with_spaces_and_brackets() -> None:
    line = "7/8   7010 at::f(float const*, std::vector<int>) (/lib/a.so)\n"
    assert parse_script(MAPPED + line) == {
        Address(object="/lib/a.so", offset=0x2010, symbol="at::f(float const*, std::vector<int>)"): 1
    }


def test_a_later_mapping_replaces_an_earlier_one() -> None:
    later = MAPPED.replace("/lib/a.so", "/lib/b.so").replace("@ 0x2000", "@ 0x5000")
    assert list(parse_script(MAPPED + later + "7/7 7010 f (/lib/b.so)\n")) == [
        Address(object="/lib/b.so", offset=0x5010, symbol="f")
    ]


def test_mappings_of_another_process_do_not_count() -> None:
    assert list(parse_script(MAPPED + "9/9 7010 f (/lib/c.so)\n")) == [
        Address(object="/lib/c.so", offset=None, symbol="f")
    ]


def test_a_build_id_in_place_of_the_inode() -> None:
    mapped = MAPPED.replace("fe:00 26 0", "<0123456789abcdef0123456789abcdef01234567>")
    assert list(parse_script(mapped + "7/7 7010 f (/lib/a.so)\n")) == [
        Address(object="/lib/a.so", offset=0x2010, symbol="f")
    ]


@given(st.integers(min_value=0, max_value=3000))
def test_output_cut_off_anywhere_keeps_what_is_before(cut: int) -> None:
    whole = parse_script(script())
    for address, count in parse_script(script()[:-cut] if cut else script()).items():
        # Only the line that was cut may read as another place.
        assert count <= whole.get(address, 0) or count == 1


@given(st.text() | st.text(alphabet="0123456789abcdef/ ()[]@:x-\nPERF_RECORD_MMAP2"))
def test_reading_samples_never_raises(text: str) -> None:
    parse_script(text)


def test_unsupported_counters_are_absent() -> None:
    counters = parse_counters((FIXTURES / "stat.txt").read_text(encoding="utf-8"), calls=1)
    assert {counter.name for counter in counters} == {"task-clock"}


def test_counters_are_per_call() -> None:
    text = '{"counter-value" : "3000.000000", "unit" : "", "event" : "cycles:u", "pcnt-running" : 100.00}'
    (counter,) = parse_counters(text, calls=10)
    assert (counter.name, counter.value, counter.unit) == ("cycles", 300.0, "per call")
    assert parse_counters(text, calls=0) == ()


def test_counters_of_two_kinds_of_cores_are_added() -> None:
    text = "\n".join(
        f'{{"counter-value" : "{value}", "unit" : "", "event" : "{event}", "pcnt-running" : 50.00}}'
        for event, value in (("cpu_core/cycles/u", "10.0"), ("cpu_atom/cycles/u", "5.0"))
    )
    assert [(c.name, c.value) for c in parse_counters(text, calls=1)] == [("cycles", 15.0)]


def test_a_counter_that_hardly_ran_is_absent() -> None:
    text = '{"counter-value" : "10.0", "unit" : "", "event" : "cycles", "pcnt-running" : 0.10}'
    assert parse_counters(text, calls=1) == ()


def test_not_counted_is_absent() -> None:
    text = '{"counter-value" : "<not counted>", "unit" : "", "event" : "cycles", "pcnt-running" : 100.00}'
    assert parse_counters(text, calls=1) == ()


@given(st.text() | st.lists(st.sampled_from(list('{}[]":,0aenucvtpr-<>.')), max_size=60).map("".join), st.integers())
def test_reading_counters_never_raises(text: str, calls: int) -> None:
    parse_counters(text, calls)


@given(st.sampled_from(["nan", "inf", "-1", "1e400", "<not supported>", "", "null"]))
def test_a_value_that_is_no_count_is_absent(value: str) -> None:
    text = f'{{"counter-value" : "{value}", "event" : "cycles", "pcnt-running" : 100.0}}'
    assert parse_counters(text, calls=1) == ()
