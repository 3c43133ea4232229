from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kernel_lsp.build.content import Source, closure, normal_form

CODE = 'int f(int n) {\n  const char* s = "// no comment";  // a comment\n  return n /* here */ + 1\'000;\n}\n'


def test_comments_and_spacing_within_lines_do_not_count() -> None:
    recommented = CODE.replace("// a comment", "// quite another").replace("/* here */", "/* there */")
    respaced = CODE.replace("  return n", "\treturn   n")
    assert normal_form(CODE) == normal_form(recommented) == normal_form(respaced)


def test_a_moved_line_counts_because_line_tables_hold_it() -> None:
    assert normal_form(CODE) != normal_form("\n" + CODE)


def test_a_block_comment_keeps_the_lines_below_it() -> None:
    assert normal_form("/* a\n b */ int x;\nint y;") == "\nint x;\nint y;"


def test_literals_are_left_alone() -> None:
    text = 'auto a = R"(/* kept   */)"; auto b = "two  blanks"; char c = \'"\'; int d; // gone'
    folded = normal_form(text)
    assert '"two' in folded
    assert "/* kept" in folded
    assert "gone" not in folded


def test_string_contents_count() -> None:
    assert normal_form('auto s = "a  b";') != normal_form('auto s = "a b";')


@given(st.text(alphabet="ab /*\n\"'\\R()x1.#<>", max_size=60))
def test_lines_keep_their_numbers(text: str) -> None:
    stripped = text.rstrip()
    assert normal_form(text).count("\n") <= stripped.count("\n")
    assert normal_form(stripped) == normal_form(stripped + "\n")


@given(st.text(max_size=80))
def test_any_text_has_a_normal_form(text: str) -> None:
    normal_form(text)


def test_headers_are_followed_and_count(tmp_path: Path) -> None:
    (tmp_path / "inner.h").write_text("int inner;\n")
    (tmp_path / "outer.h").write_text('#include "inner.h"\n')
    source = Source(path=tmp_path / "k.cpp", text='\n#include "outer.h"\nint k;\n')
    before = closure(source, ())
    assert [header.name for header in before.headers] == ["outer.h", "inner.h"]
    assert before.include_line((tmp_path / "inner.h").resolve()) == 1
    (tmp_path / "inner.h").write_text("int inner; // only a comment\n")
    assert closure(source, ()).digest == before.digest
    (tmp_path / "inner.h").write_text("int other;\n")
    assert closure(source, ()).digest != before.digest


def test_a_header_that_includes_itself_through_a_link_ends(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text('#include "b.h"\n#include "k.cpp"\n')
    (tmp_path / "b.h").symlink_to(tmp_path / "a.h")
    (tmp_path / "k.cpp").write_text("")
    found = closure(Source(path=tmp_path / "k.cpp", text='#include "b.h"\n'), ())
    assert len(found.headers) == 1


def test_headers_in_named_folders_are_local_too(tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "a.h").write_text("int a;\n")
    source = Source(path=tmp_path / "k.cpp", text="#include <a.h>\n")
    assert closure(source, ()).headers == ()
    assert [h.name for h in closure(source, (tmp_path / "include",)).headers] == ["a.h"]


def test_what_is_included_by_macro_is_said_to_be_unknown(tmp_path: Path) -> None:
    assert closure(Source(path=tmp_path / "k.cpp", text="#include HEADER\n"), ()).computed
    assert not closure(Source(path=tmp_path / "k.cpp", text="#include <vector>\n"), ()).computed


def test_torch_is_seen_through_a_local_header(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text("#include <torch/extension.h>\n")
    assert closure(Source(path=tmp_path / "k.cpp", text='#include "a.h"\n'), ()).uses_torch
    assert not closure(Source(path=tmp_path / "k.cpp", text="#include <vector>\n"), ()).uses_torch
