from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kernel_lsp.build.remarks import parse

FILE = Path("/work/v.cpp")

GCC = """\
/work/v.cpp:4:21: optimized: loop vectorized using 32 byte vectors
/work/v.cpp:4:21: optimized:  loop versioned for vectorization because of possible aliasing
/work/v.cpp:4:21: optimized: loop vectorized using 16 byte vectors
/work/v.cpp:18:39: missed: couldn't vectorize loop
/work/v.cpp:18:39: missed: not vectorized: control flow in loop.
/work/v.cpp:17:21: missed: couldn't vectorize loop
/work/v.cpp:17:43: missed: not vectorized: no vectype for stmt: _10 = *_9;
 scalar_type: float
/work/v.cpp:14:21: missed: couldn't vectorize loop
/usr/include/c++/12/cmath:223:26: missed: statement clobbers memory: _37 = __builtin_expf (_4);
/work/v.cpp:22:23: missed: couldn't vectorize loop
/work/v.cpp:24:39: missed: not vectorized: not suitable for strided load _17 = *_16;
/work/v.cpp:23:25: missed: couldn't vectorize loop
/work/v.cpp:24:18: missed: not vectorized: complicated access pattern.
/work/v.cpp:30:1: missed: couldn't vectorize loop
/usr/include/x.h:1:1: missed: couldn't vectorize loop
/work/v.cpp:30:1: optimized: loop vectorized using 64 byte vectors
"""


def test_one_remark_per_loop_line_with_the_compilers_reason() -> None:
    found = {r.location.span.start.line + 1: (r.vectorized, r.said) for r in parse(GCC, [FILE])}
    assert found == {
        4: (True, "32-byte vectors"),
        14: (False, "calls expf, which has no vector form here"),
        17: (False, "no vectype for stmt"),
        18: (False, "control flow in loop"),
        22: (False, "not suitable for strided load (line 24)"),
        23: (False, "complicated access pattern (line 24)"),
        30: (True, "64-byte vectors"),
    }


def test_a_telling_reason_is_preferred_to_a_vague_one() -> None:
    text = """\
/work/v.cpp:3:1: missed: couldn't vectorize loop
/work/v.cpp:3:1: missed: not vectorized: control flow in loop.
/work/v.cpp:3:1: missed: couldn't vectorize loop
/work/v.cpp:3:1: missed: not vectorized: complicated access pattern.
"""
    (remark,) = parse(text, [FILE])
    assert remark.reason == "complicated access pattern"


def test_other_files_are_left_out() -> None:
    assert parse(GCC, [Path("/work/other.cpp")]) == ()


@given(st.text(max_size=200) | st.lists(st.sampled_from(GCC.splitlines())).map("\n".join))
def test_any_text_is_read(text: str) -> None:
    for remark in parse(text, [FILE]):
        assert remark.location.path == FILE
        assert remark.reason
