from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_lsp.source.directives import directives


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("// kernel-lsp: reference=a.py", (("reference", "a.py"),)),
        ("  //kernel-lsp:entry = forward  ", (("entry", "forward"),)),
        ("/// kernel-lsp: entry=f out=zero\r\n// kernel-lsp: sources=a.cpp,b.cpp\r\n",
         (("entry", "f"), ("out", "zero"), ("sources", "a.cpp,b.cpp"))),
        ("/* kernel-lsp: reference=a.py */", (("reference", "a.py"),)),
        ("/*\n * kernel-lsp: reference=a.py\n */", (("reference", "a.py"),)),
        ('// kernel-lsp: reference="my refs/é a.py"', (("reference", "my refs/é a.py"),)),
        ("int x; // see kernel-lsp: reference=a.py", ()),
        ("// kernel-lsp reference=a.py", ()),
        ("// about kernel-lsp: reference=a.py", ()),
        ("// kernel-lsp: nothing here", ()),
        ("", ()),
    ],
)  # fmt: skip
def test_directives(text: str, expected: tuple[tuple[str, str], ...]) -> None:
    assert directives(text) == expected


@given(st.text())
def test_any_text(text: str) -> None:
    assert isinstance(directives(text), tuple)
