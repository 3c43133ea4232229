from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_lsp import process
from kernel_lsp.domain import Problem
from kernel_lsp.profile.lines import (
    Frame,
    Segment,
    UserFiles,
    attribute,
    load_segments,
    parse_frames,
    resolve,
    to_virtual,
)
from kernel_lsp.profile.perf_output import Address
from tests.profile.kernels import COLUMN_SUMS, extern_c_unit

FIXTURES = Path(__file__).parent / "fixtures"
KERNEL = Path("/home/ada/kernels/k.cpp")
HEADER = Path("/home/ada/kernels/h.h")


def frames() -> dict[int, tuple[Frame, ...]]:
    return parse_frames((FIXTURES / "addr2line.txt").read_text(encoding="utf-8"))


def at(offset: int, symbol: str = "f", library: str = "/k.so") -> Address:
    return Address(object=library, offset=offset, symbol=symbol)


def test_frames_by_address() -> None:
    assert frames()[0x11A4] == (Frame(function="colsum._omp_fn.0", path=str(KERNEL), line=7),)


def test_inlined_frames_come_innermost_first() -> None:
    assert [(frame.path, frame.line) for frame in frames()[0x11AA]] == [(str(HEADER), 2), (str(KERNEL), 8)]


def test_unknown_is_unknown_and_not_line_zero() -> None:
    assert frames()[0x1040] == (Frame(function="", path="", line=None),)


@given(st.text() | st.text(alphabet="0x12af?: ()\n"))
def test_reading_frames_never_raises(text: str) -> None:
    parse_frames(text)


def test_what_is_inlined_into_the_kernel_is_the_kernels() -> None:
    files = UserFiles(KERNEL, [HEADER])
    assert files.place(frames()[0x11AA]) == (KERNEL, 8)


def test_a_header_of_the_users_keeps_what_was_not_inlined() -> None:
    files = UserFiles(KERNEL, [HEADER])
    assert files.place(frames()[0x11AA][:1]) == (HEADER, 2)


def test_a_header_of_the_worlds_is_passed_over() -> None:
    files = UserFiles(KERNEL)
    stl = Frame(function="std::max", path="/usr/include/c++/12/bits/stl_algobase.h", line=9)
    assert files.place((stl, Frame(function="k", path=str(KERNEL), line=4))) == (KERNEL, 4)
    assert files.place((stl,)) is None
    assert files.place(()) is None


def test_paths_are_compared_by_what_they_lead_to(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "k.cpp").touch()
    (tmp_path / "link").symlink_to(real)
    files = UserFiles(tmp_path / "link" / "k.cpp")
    assert files.find(f"{real}/../real/k.cpp", 3) == (tmp_path / "link" / "k.cpp", 3)
    assert files.find("", 1) is None


def test_the_users_files_are_the_kernel_its_siblings_and_their_local_headers(tmp_path: Path) -> None:
    unit = extern_c_unit(tmp_path / "k.cpp", COLUMN_SUMS)
    files = UserFiles.of(unit, ("-O3",))
    assert files.find(str(tmp_path / "k.cpp"), 1) == (tmp_path / "k.cpp", 1)
    assert files.find(str(tmp_path / "square.h"), 2) == (tmp_path / "square.h", 2)
    assert files.find(str(tmp_path / "other.h"), 1) is None


def test_shares_are_of_all_samples() -> None:
    samples = {at(0x11A4): 60, at(0x11AA): 20, at(0, "expf", "/lib/libm.so.6"): 15, at(0, "", "/lib/libgomp.so.1"): 5}
    found = attribute(
        samples, {at(0x11A4): frames()[0x11A4], at(0x11AA): frames()[0x11AA]}, UserFiles(KERNEL, [HEADER])
    )
    assert found.samples == 100
    assert [(line.location.span.start.line, line.count, line.share) for line in found.lines] == [
        (6, 60, 0.6),
        (7, 20, 0.2),
    ]
    assert found.outside == (("expf (libm.so.6)", 0.15), ("libgomp.so.1", 0.05))


def test_small_functions_are_counted_under_their_library() -> None:
    samples = {at(0, "big", "/lib/libpython.so"): 990} | {at(i, f"f{i}", "/lib/libpython.so"): 1 for i in range(10)}
    assert attribute(samples, {}, UserFiles(KERNEL)).outside == (("big (libpython.so)", 0.99), ("libpython.so", 0.01))


@given(st.dictionaries(st.integers(0, 9), st.integers(1, 1000), min_size=1), st.sets(st.integers(0, 9)))
def test_no_sample_is_lost_or_counted_twice(counts: dict[int, int], known: set[int]) -> None:
    samples = {at(offset): count for offset, count in counts.items()}
    place = {at(offset): (Frame(function="f", path=str(KERNEL), line=offset + 1),) for offset in known}
    found = attribute(samples, place, UserFiles(KERNEL))
    assert sum(line.count for line in found.lines) == sum(n for offset, n in counts.items() if offset in known)
    assert sum(line.share for line in found.lines) + sum(share for _, share in found.outside) == pytest.approx(1)


def test_no_samples_at_all() -> None:
    assert attribute({}, {}, UserFiles(KERNEL)).lines == ()


def elf(*segments: tuple[int, int, int, int]) -> bytes:
    """A 64-bit header with (type, offset, address, size) of each segment."""
    head = (
        b"\x7fELF\x02\x01\x01"
        + bytes(9)
        + struct.pack("=HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, len(segments), 0, 0, 0)
    )
    return head + b"".join(
        struct.pack("=IIQQQQQQ", kind, 5, off, addr, addr, size, size, 4096) for kind, off, addr, size in segments
    )


def test_a_linker_that_places_segments_apart() -> None:
    segments = load_segments(elf((1, 0, 0, 0x500), (1, 0x500, 0x1500, 0x300), (6, 0x40, 0x40, 0x200)))
    assert segments == (
        Segment(offset=0, address=0, size=0x500),
        Segment(offset=0x500, address=0x1500, size=0x300),
    )
    assert to_virtual(segments, 0x510) == 0x1510
    assert to_virtual(segments, 0x900) is None


@given(st.binary() | st.binary(max_size=80).map(lambda data: elf((1, 0, 0, 9))[:64] + data))
def test_reading_a_library_never_raises(data: bytes) -> None:
    load_segments(data)


async def test_a_library_that_is_gone(tmp_path: Path) -> None:
    library = tmp_path / "k.so"
    found = await resolve({at(1, library=str(library)): 5}, library, UserFiles(KERNEL))
    assert isinstance(found, Problem)
    assert found.code == "no-lines"


async def test_no_addr2line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "k.so"
    library.write_bytes(elf((1, 0, 0, 0x500)))
    monkeypatch.setattr(process, "which", lambda name: None)
    found = await resolve({at(1, library=str(library)): 5}, library, UserFiles(KERNEL))
    assert isinstance(found, Problem)
    assert "binutils" in found.hint


@pytest.mark.compiler
@pytest.mark.parametrize("linker", ["bfd", "gold", "lld", "mold"])
async def test_lines_are_right_whatever_the_linker(tmp_path: Path, linker: str) -> None:
    if shutil.which("mold" if linker == "mold" else f"ld.{linker}") is None:
        pytest.skip(f"no {linker}")
    source, library = tmp_path / "k.cpp", tmp_path / "k.so"
    source.write_text('extern "C" int marked(int x) {\n  return x * 3;\n}\n', encoding="utf-8")
    command = ["g++", "-O1", "-g1", "-shared", "-fPIC", f"-fuse-ld={linker}", source, "-o", library]
    assert (await process.run(command)).ok
    symbols = (await process.run(["nm", library])).stdout
    address = next(int(line.split()[0], 16) for line in symbols.splitlines() if line.endswith(" marked"))
    segment = next(s for s in load_segments(library.read_bytes()) if s.address <= address < s.address + s.size)
    offset = address - segment.address + segment.offset
    found = await resolve({at(offset, library=str(library)): 9}, library, UserFiles(source))
    assert not isinstance(found, Problem)
    assert [line.location.span.start.line for line in found.lines] in ([0], [1])
