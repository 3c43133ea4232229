"""Carets stand under what they mean, whatever the line holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kernel_lsp.domain import Position, Span
from kernel_lsp.fronts.excerpt import excerpt, printable, source_line, width

ALPHABET = st.text(st.sampled_from("ab \t(é界\u0301\u2028\f\x1b[0m"), max_size=30)


def span(line: int, start: int, end: int) -> Span:
    return Span(start=Position(line=line, column=start), end=Position(line=line, column=end))


def test_a_plain_line() -> None:
    assert excerpt("int a;\nint b = c;\n", span(1, 8, 9)) == ("  |", "2 | int b = c;", "  |         ^")


def test_tabs_and_wide_characters_keep_the_carets_in_place() -> None:
    _, line, carets = excerpt("\tx = 界 + yy;\n", span(0, 11, 13))
    assert line == "1 |     x = 界 + yy;"
    # The wide character takes one place more in the terminal than in the string.
    assert carets == "  |              ^^"


def test_a_span_over_lines_is_underlined_to_the_end_of_its_first() -> None:
    spans = Span(start=Position(line=0, column=4), end=Position(line=2, column=1))
    assert excerpt("for (;;) {\n  f();\n}\n", spans)[2] == "  |     ^^^^^^"


def test_form_feeds_are_no_line_ends() -> None:
    assert source_line("a\fb\u2028c\n  d\n", 1) == "d"
    assert excerpt("a\fb\u2028c\n", span(1, 0, 1))[1] == "2 |"
    assert excerpt("a\n", span(5, 0, 1)) == ()


@given(ALPHABET, st.data())
def test_carets_begin_where_the_covered_text_begins(line: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(line)))
    end = data.draw(st.integers(start, len(line)))
    columns = span(0, len(line[:start].encode()), len(line[:end].encode()))
    shown = excerpt(line, columns)
    carets = shown[2].removeprefix("  | ")
    assert len(carets) - len(carets.lstrip(" ")) == width(printable(line[:start]))
    assert carets.count("^") == max(1, width(printable(line[start:end])))
    assert "\x1b" not in "".join(shown)
