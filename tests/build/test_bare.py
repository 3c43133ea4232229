from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from kernel_lsp.build.bare import bare
from kernel_lsp.build.content import TOKENS, normal_form

CODE = "// what it does\n\nint f(int n) {  // a comment\n  /* more\n     of it */\n  return n;\n\n}\n"


def test_lines_without_code_go_and_the_rest_know_theirs() -> None:
    found = bare(CODE)
    assert [line.rstrip() for line in found.text.splitlines()] == ["int f(int n) {", "  return n;", "}"]
    assert found.lines == (2, 5, 7)
    assert [found.line(n) for n in (0, 1, 2, 9)] == [2, 5, 7, 7]
    assert [found.number(line) for line in (0, 2, 3, 5, 6)] == [0, 0, 1, 1, 2]


def test_only_code_counts() -> None:
    moved = CODE.replace("{  // a comment", "{\n// another\n\n").replace("more", "nothing")
    assert normal_form(bare(moved).text) == normal_form(bare(CODE).text)


def test_columns_are_kept_in_bytes() -> None:
    found = bare("int a; /* größe */ int b;\n")
    assert found.text.index("int b") == len("int a; /* größe */ ".encode())


def test_a_literal_keeps_its_blank_lines() -> None:
    text = 'auto s = R"(a\n\n  // b\n)";\n\nint x;\n'
    assert bare(text).text == 'auto s = R"(a\n\n  // b\n)";\nint x;\n'
    assert bare(text).lines == (0, 1, 2, 3, 5)


def test_a_directive_ends_where_it_ended() -> None:
    assert bare("#define A 1 \\\n\nint x;\n").text == "#define A 1 \\\n\nint x;\n"
    assert bare("#define A /* one\ntwo */ 2\nint x;\n").text.split() == ["#define", "A", "2", "int", "x;"]
    assert bare("#define A /* one\ntwo */ 2\nint x;\n").text.count("\n") == 2
    assert bare("#define A /* one\ntwo */ 2\nint x;\n").lines == (0, 2)


def test_where_the_program_asks_for_its_lines_they_stay() -> None:
    text = "\n// note\nvoid f(int n) { assert(n > 0); }\n"
    assert bare(text).lines == (0, 1, 2)
    assert "note" not in bare(text).text


@given(st.text(alphabet="ab /*\n\"'\\R()x1.#<>;é", max_size=60))
@example("#/*\n")
@example("a\\\n\nb")
def test_no_code_is_lost_and_every_line_is_one_of_the_source(text: str) -> None:
    found = bare(text)
    kept = [t[0] for t in TOKENS.finditer(text) if t.lastgroup not in ("comment", "space", "newline")]
    assert "".join("".join(kept).split()) == "".join(found.text.split())
    assert list(found.lines) == sorted(set(found.lines))
    assert len(found.lines) == found.text.count("\n")
    assert all(0 <= line <= text.count("\n") for line in found.lines)
