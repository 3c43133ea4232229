from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kernel_lsp.build.dispatch import placed_back, spelled_out
from kernel_lsp.domain import CompilerMessage, Location, Severity, Span

USE = 'AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "f", [&] {\n  g<scalar_t>();\n});'


def test_the_lambda_leaves_the_macro() -> None:
    text, changes = spelled_out(USE)
    assert text == (
        "::kernel_lsp::dispatch<::at::ScalarType::Double, ::at::ScalarType::Float>"
        '(x.scalar_type(), "f", [&]<typename scalar_t>() {\n  g<scalar_t>();\n});'
    )
    assert len(changes) == 2


def test_further_types_go_into_the_list_and_lines_stay() -> None:
    use = 'AT_DISPATCH_ALL_TYPES_AND2(\n  at::kHalf, at::ScalarType::BFloat16,\n  t, "f", ([=]() { }));'
    assert spelled_out(use) == (use, ())
    use = use.replace("([=]() { })", "[=]() { }")
    text, _ = spelled_out(use)
    assert "::at::ScalarType::Float, at::kHalf, at::ScalarType::BFloat16>(" in text
    assert "[=]<typename scalar_t>() { }" in text
    assert [line.count("t, ") for line in text.split("\n")][2] == 1
    assert text.count("\n") == use.count("\n")


def test_indices_have_their_own_name() -> None:
    text, _ = spelled_out('AT_DISPATCH_INDEX_TYPES(t, "f", [&] { index_t i; });')
    assert "<typename index_t>" in text


def test_nested_uses_are_both_spelled_out() -> None:
    inner = 'AT_DISPATCH_INTEGRAL_TYPES(b, "g", [&] { h(); });'
    text, changes = spelled_out(f'AT_DISPATCH_FLOATING_TYPES(a, "f", [&] {{ {inner} }});')
    assert len(changes) == 4
    assert "AT_DISPATCH" not in text


def test_what_has_another_form_stays() -> None:
    for use in (
        '#define F(...) AT_DISPATCH_FLOATING_TYPES(t, "f", [&] { __VA_ARGS__ })',
        '#define F(...) \\\n  AT_DISPATCH_FLOATING_TYPES(t, "f", [&] { __VA_ARGS__ })',
        'AT_DISPATCH_FLOATING_TYPES(t, "f", run);',
        'AT_DISPATCH_FLOATING_TYPES(t, "f", [&] -> int { return 1; });',
        'AT_DISPATCH_SWITCH(t, "f", AT_DISPATCH_CASE(at::kFloat, [&] { }));',
        '// AT_DISPATCH_FLOATING_TYPES(t, "f", [&] { });',
        'AT_DISPATCH_FLOATING_TYPES(t, "f", [&] {',
    ):
        assert spelled_out(use) == (use, ())


def test_columns_of_messages_are_those_of_the_users_text() -> None:
    text, changes = spelled_out(USE)
    column = text.index("(x.scalar") + 1
    message = CompilerMessage(
        severity=Severity.WARNING,
        text="",
        location=Location(path=Path("k.cpp"), span=Span.line(0, column, column + 1)),
    )
    location = placed_back(message, USE, changes).location
    assert location is not None
    assert USE[location.span.start.column] == "x"


@given(st.lists(st.sampled_from([*USE.split(" "), USE, "(", ")", "{", "}", "[", "]", ",", "\n", '"', "//", "/*"])))
def test_any_text_keeps_its_lines(parts: list[str]) -> None:
    text = " ".join(parts)
    changed, changes = spelled_out(text)
    assert changed.count("\n") == text.count("\n")
    assert (changed == text) == (not changes)
