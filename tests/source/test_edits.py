from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kernel_lsp.domain import Position, Span, TextEdit
from kernel_lsp.source.edits import apply, difference, digest, overlap

TEXTS = st.text(alphabet=st.one_of(st.sampled_from("ab \n\r\f\u2028\u0085é😀"), st.characters()), max_size=60)


def edit(start: tuple[int, int], end: tuple[int, int], text: str) -> TextEdit:
    span = Span(start=Position(line=start[0], column=start[1]), end=Position(line=end[0], column=end[1]))
    return TextEdit(span=span, new_text=text)


@given(TEXTS, TEXTS)
@example("a\n", "a\r\n")
@example("a\r\n", "a\n")
@example("\r", "\r\n")
@example("\r\n\n", "\n\r\n")
@example("x\r\ny", "x\ry")
@example("\ud800", "\udfff")
def test_a_difference_leads_from_one_text_to_the_other(before: str, after: str) -> None:
    edits = difference(before, after)
    assert apply(before, edits) == after
    assert overlap(edits) is None
    assert bool(edits) == (before != after)


AROUND = st.lists(st.text(alphabet="abé", max_size=4), min_size=1, max_size=6)
WITHIN = st.lists(st.text(alphabet="xy😀", min_size=1, max_size=4), min_size=1, max_size=6)


@given(AROUND, WITHIN, WITHIN, AROUND)
def test_lines_around_a_change_are_left_alone(head: list[str], old: list[str], new: list[str], tail: list[str]) -> None:
    before, after = "\n".join([*head, *old, *tail]), "\n".join([*head, *new, *tail])
    for change in difference(before, after):
        assert change.span.start.line >= len(head) - 1
        assert change.span.end.line <= len(head) + len(old)


def test_two_places_far_apart_give_two_edits() -> None:
    lines = [f"line {number}\n" for number in range(200)]
    changed = [*lines]
    changed[3] = "line three\n"
    changed[150] = ""
    edits = difference("".join(lines), "".join(changed))
    assert [change.new_text for change in edits] == ["three", ""]
    assert edits[0].span == Span(start=Position(line=3, column=5), end=Position(line=3, column=6))


def test_edits_refer_to_the_text_before_any_of_them() -> None:
    edits = [edit((1, 0), (1, 1), "BB"), edit((0, 0), (0, 1), "A"), edit((0, 2), (0, 2), "!")]
    assert apply("a b\nb\n", edits) == "A !b\nBB\n"


def test_columns_count_bytes_and_stop_at_the_end_of_the_line() -> None:
    assert apply("é = 1\r\nx", [edit((0, 2), (0, 5), " <- ")]) == "é <- 1\r\nx"
    assert apply("é = 1\r\nx", [edit((0, 1_000_000), (0, 1_000_000), ";")]) == "é = 1;\r\nx"
    assert apply("a", [edit((7, 0), (7, 0), "\nb")]) == "a\nb"


def test_a_form_feed_ends_no_line() -> None:
    assert apply("a\f\u2028b\rc", [edit((1, 0), (1, 1), "d")]) == "a\f\u2028b\rd"


def test_insertions_at_one_point_keep_their_order() -> None:
    edits = [edit((0, 1), (0, 1), "1"), edit((0, 1), (0, 2), "X"), edit((0, 1), (0, 1), "2")]
    assert apply("abc", edits) == "a12Xc"


@pytest.mark.parametrize(
    "edits",
    [
        [edit((0, 0), (0, 2), ""), edit((0, 1), (0, 3), "")],
        [edit((0, 0), (1, 0), ""), edit((0, 3), (0, 3), "x")],
        [edit((0, 0), (0, 1), "a"), edit((0, 0), (0, 1), "b")],
    ],
)
def test_overlapping_edits_are_refused(edits: list[TextEdit]) -> None:
    assert overlap(edits) is not None
    with pytest.raises(ValueError, match="overlap"):
        apply("abcdef\nghi\n", edits)


def test_an_edit_within_a_character_is_refused() -> None:
    with pytest.raises(ValueError, match="decode"):
        apply("é", [edit((0, 1), (0, 1), "x")])


def test_the_digest_is_of_the_bytes() -> None:
    assert digest("a\n") != digest("a\r\n")
    assert digest("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
