from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_lsp.build.toolchain import Toolchain, discover
from kernel_lsp.domain import Ceilings, Problem
from kernel_lsp.profile import ceilings
from kernel_lsp.profile.caches import last_level, read_caches
from kernel_lsp.settings import Settings


def describe(root: Path, cpu: int, index: int, **fields: object) -> None:
    folder = root / f"cpu{cpu}" / "cache" / f"index{index}"
    folder.mkdir(parents=True)
    for name, value in fields.items():
        (folder / name).write_text(f"{value}\n", encoding="utf-8")


def test_each_cache_is_counted_once(tmp_path: Path) -> None:
    for cpu in range(4):
        describe(tmp_path, cpu, 0, level=1, type="Data", size="32K", ways_of_associativity=8, shared_cpu_list=cpu)
        describe(tmp_path, cpu, 1, level=1, type="Instruction", size="32K", shared_cpu_list=cpu)
        describe(
            tmp_path, cpu, 2, level=3, type="Unified", size="16M", shared_cpu_list=f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}"
        )
    found = read_caches(tmp_path)
    assert len(found) == 6
    assert found[0].ways == 8
    assert sum(cache.size for cache in last_level(found)) == 32 * 2**20


def test_a_machine_that_does_not_say(tmp_path: Path) -> None:
    describe(tmp_path, 0, 0, level="?", size="much")
    assert read_caches(tmp_path) == ()
    assert last_level(()) == ()


def test_arrays_exceed_the_cache_and_fit_the_memory() -> None:
    assert ceilings.array_bytes(32 * 2**20, 64 * 2**30) == 128 * 2**20
    assert ceilings.array_bytes(0, 64 * 2**30) == ceilings.SMALLEST_ARRAY
    assert ceilings.array_bytes(2**30, 64 * 2**30) == ceilings.LARGEST_ARRAY
    assert 3 * ceilings.array_bytes(2**30, 2**30) <= 2**30 / 4


def test_names_of_processors() -> None:
    intel = (
        "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) Platinum 8480C\n\nprocessor\t: 1\n"
    )
    assert ceilings.cpu_name(intel) == "Intel(R) Xeon(R) Platinum 8480C"
    arm = "processor\t: 0\nBogoMIPS\t: 2000.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n"
    assert ceilings.cpu_name(arm) == "CPU implementer 0x41, CPU part 0xd4f"
    assert ceilings.cpu_name("") == ""


def test_rates() -> None:
    assert ceilings.parse("triad 20.5 21\nfp32 200\nfp64 100\n") == ((20.5, 21.0), (200.0,), (100.0,))


@pytest.mark.parametrize(
    "output",
    ["", "triad 1\nfp32 2\n", "triad\nfp32 1\nfp64 1\n", "triad x\nfp32 1\nfp64 1\n", "triad 0\nfp32 1\nfp64 inf\n"],
)
def test_output_without_all_rates_is_no_answer(output: str) -> None:
    assert ceilings.parse(output) is None


@given(st.text())
def test_reading_rates_never_raises(output: str) -> None:
    ceilings.parse(output)
    ceilings.cpu_name(output)


def test_spread() -> None:
    assert ceilings.spread([1, 2, 3]) == 0
    assert ceilings.spread([10] * 8) == 0
    assert ceilings.spread([8, 9, 10, 11, 12]) == pytest.approx(0.3)


@pytest.mark.compiler
async def test_this_machine() -> None:
    toolchain = await discover(Settings())
    assert isinstance(toolchain, Toolchain)
    found = await ceilings.measure(toolchain)
    assert isinstance(found, Ceilings)
    assert found.device == ceilings.device_name() != ""
    assert found.threads >= 1
    # Physics, not this machine: any processor of this century, and none yet built.
    assert 0.1 < found.dram_gbs < 20_000
    assert 0.1 < found.fp64_gflops < 1e6
    assert found.fp32_gflops > 0.9 * found.fp64_gflops


@pytest.mark.compiler
async def test_a_compiler_that_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toolchain = await discover(Settings())
    assert isinstance(toolchain, Toolchain)
    broken = tmp_path / "ceilings.cpp"
    broken.write_text("int main( {", encoding="utf-8")
    monkeypatch.setattr(ceilings, "SOURCE", broken)
    found = await ceilings.measure(toolchain)
    assert isinstance(found, Problem)
    assert found.code == "no-ceilings"
