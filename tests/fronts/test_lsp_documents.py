"""Text as the client edits it: exact in every encoding, for every character and every line end."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types

from kernel_lsp.domain import Position, Span
from kernel_lsp.fronts.lsp.documents import Document
from kernel_lsp.fronts.lsp.positions import Encoding, TextIndex
from kernel_lsp.source.lines import LineIndex, encode

ENCODINGS = tuple(Encoding)
TEXT = st.text(st.sampled_from("ab;\n\r\t\f\v\u2028\u0085éµ漢😋{"), max_size=60)
"""Characters of one to four bytes and of one and two UTF-16 units; three line ends, and four things that are none."""

CODECS = {Encoding.Utf8: "utf-8", Encoding.Utf16: "utf-16-le", Encoding.Utf32: "utf-32-le"}
WIDTH = {Encoding.Utf8: 1, Encoding.Utf16: 2, Encoding.Utf32: 4}


def lines_of(text: str) -> list[str]:
    """The lines with their ends, by the protocol's own definition, written without regular expressions."""
    lines, line, at = [], "", 0
    while at < len(text):
        end = 2 if text[at : at + 2] == "\r\n" else 1 if text[at] in "\r\n" else 0
        line += text[at : at + max(end, 1)]
        at += max(end, 1)
        if end:
            lines.append(line)
            line = ""
    return [*lines, line]


def client_position(text: str, index: int, encoding: Encoding) -> types.Position:
    """Where a client says that character `index` is; never between \\r and \\n."""
    before = 0
    for number, line in enumerate(lines_of(text)):
        if index < before + len(line) or number == len(lines_of(text)) - 1:
            units = len(line[: index - before].encode(CODECS[encoding])) // WIDTH[encoding]
            return types.Position(line=number, character=units)
        before += len(line)
    raise AssertionError


def splits_line_end(text: str, index: int) -> bool:
    return text[max(0, index - 1) : index + 1] == "\r\n"


def document(text: str, encoding: Encoding) -> Document:
    return Document(uri="file:///k.cpp", path=Path("/k.cpp"), version=1, text=text, encoding=encoding)


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(data=st.data())
def test_an_incremental_edit_lands_where_the_client_meant_it(encoding: Encoding, data: st.DataObject) -> None:
    text, new = data.draw(TEXT), data.draw(TEXT)
    places = [index for index in range(len(text) + 1) if not splits_line_end(text, index)]
    start, end = sorted((data.draw(st.sampled_from(places)), data.draw(st.sampled_from(places))))
    edited = document(text, encoding)
    change = types.TextDocumentContentChangePartial(
        range=types.Range(start=client_position(text, start, encoding), end=client_position(text, end, encoding)),
        text=new,
    )
    edited.change(2, [change])
    assert edited.text == text[:start] + new + text[end:]
    assert edited.version == 2


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(text=TEXT)
def test_every_byte_position_converts_to_the_client_and_back(encoding: Encoding, text: str) -> None:
    index, lines = TextIndex(encode(text), encoding), LineIndex(encode(text))
    for character in range(len(text) + 1):
        if splits_line_end(text, character):
            continue
        position = lines.position(len(encode(text[:character])))
        assert index.to_client(position) == client_position(text, character, encoding)
        assert index.from_client(index.to_client(position)) == position


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(text=TEXT, line=st.integers(0, 80), column=st.integers(0, 300))
def test_positions_out_of_bounds_mean_the_nearest_end(encoding: Encoding, text: str, line: int, column: int) -> None:
    index = TextIndex(encode(text), encoding)
    found = index.to_client(Position(line=line, column=column))
    lines = lines_of(text)
    assert found.line <= len(lines) - 1
    assert found.character <= len(lines[found.line].rstrip("\r\n").encode(CODECS[encoding])) // WIDTH[encoding]
    back = index.from_client(types.Position(line=line, character=column))
    assert 0 <= index.offset(types.Position(line=line, character=column)) <= len(encode(text))
    assert back.line <= len(lines) - 1


def test_a_position_within_a_surrogate_pair_means_its_beginning() -> None:
    index = TextIndex("😋x".encode(), Encoding.Utf16)
    assert index.from_client(types.Position(line=0, character=1)) == Position(line=0, column=0)
    assert index.from_client(types.Position(line=0, character=2)) == Position(line=0, column=4)


def test_a_span_to_the_end_of_its_line_stays_in_its_line() -> None:
    index = TextIndex("float µ; // 😋\r\nint y;\r\n".encode(), Encoding.Utf16)
    assert index.to_range(Span.line(0)).end == types.Position(line=0, character=14)


def test_results_are_shown_for_exactly_their_text_and_again_when_it_comes_back() -> None:
    edited = document("int a;\n", Encoding.Utf8)
    before = edited.digest
    here = types.Range(start=types.Position(line=0, character=4), end=types.Position(line=0, character=5))
    edited.change(2, [types.TextDocumentContentChangePartial(range=here, text="b")])
    assert edited.digest != before
    edited.change(3, [types.TextDocumentContentChangePartial(range=here, text="a")])
    assert edited.digest == before


def test_a_full_change_and_a_save_with_other_text_replace_all() -> None:
    edited = document("int a;\n", Encoding.Utf8)
    edited.change(2, [types.TextDocumentContentChangeWholeDocument(text="int b;\n")])
    assert edited.text == "int b;\n"
    edited.saved("int c;\n")
    assert (edited.text, edited.saved_digest) == ("int c;\n", edited.digest)
