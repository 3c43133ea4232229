from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kernel_lsp.domain import Language
from kernel_lsp.source.fingerprint import fingerprint, tokens
from tests.source.reading import kernel_texts


def same(a: str, b: str) -> bool:
    return fingerprint(a, Language.CPP) == fingerprint(b, Language.CPP)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("int f();", "int  f ( ) ; // comment"),
        ("int f();", "int/* what */f();\n\n"),
        ("a = b\n+ c;", "a = b + c;"),
        ("#define A 1\nint x;", "#define A 1 // one\nint x;"),
        ("#define A \\\n 1\nint x;", "#define A 1\nint x;"),
        ("#define A \\\r\n 1\r\nint x;\r\n", "#define A 1\nint x;\n"),
        ("  # define A 1\n", "#define A 1\n"),
        ("#include <a.h>\n", "#include   <a.h>  \n"),
        ('auto s = "a \\\nb";', 'auto s = "a b";'),
        ("int x; // ends \\\n here too\nint y;", "int x; int y;"),
        ("int x;\f\vint y;", "int x; int y;"),
        ("int x; /* open to the end", "int x;"),
    ],
)
def test_comments_and_white_space_do_not_count(a: str, b: str) -> None:
    assert same(a, b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("#define A 1\nint x;", "#define A 1 int x;"),
        ("#define F(x) x\n", "#define F (x) x\n"),
        ("int x;\n#define A\n", "int x;\n#define\nA\n"),
        ("#include <a b.h>\n", "#include <ab.h>\n"),
        ('f("a b");', 'f("a  b");'),
        ('f("// no comment");', 'f("");'),
        ("f('a');", "f('b');"),
        ('R"(a // b)"', 'R"(a)"'),
        ('R"x(a)" )x"', 'R"x(a)")x"'),
        ("a + +b;", "a ++b;"),
        ("a - -b;", "a--b;"),
        ("x = 1.5f;", "x = 1.5;"),
        ("x = 1 .5;", "x = 1.5;"),
        ("ab", "a b"),
        ("ab\\\ncd", "ab cd"),
        ("a < b", "a <= b"),
    ],
)
def test_what_means_something_counts(a: str, b: str) -> None:
    assert not same(a, b)


def test_the_language_counts() -> None:
    assert fingerprint("int x;", Language.CPP) != fingerprint("int x;", Language.CUDA)


@given(st.text(max_size=80))
@example("'")
@example('"')
@example("#")
@example("#include <")
@example("/*")
@example("\\\n")
@example('R"(')
def test_any_text_has_tokens(text: str) -> None:
    assert fingerprint(text, Language.CPP) == fingerprint(text, Language.CPP)
    assert all(tokens(text))


@pytest.mark.parametrize("name", sorted(kernel_texts()))
def test_a_comment_after_every_line_changes_nothing(name: str) -> None:
    text = kernel_texts()[name].replace("\r\n", "\n")
    commented = "\n".join(line if line.endswith("\\") else f"{line} // {n}" for n, line in enumerate(text.split("\n")))
    assert same(text, commented)
    assert same(text, text.replace("\n", "\r\n"))
    assert not same(text, "".join(text.rpartition("}")[::2]))
