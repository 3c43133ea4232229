from __future__ import annotations

from pathlib import Path

import pytest

from kernel_lsp.build.blame import users_own
from kernel_lsp.domain import CompilerMessage, Location, Severity, Span

from .conftest import unit_of

PATH = Path("/w/k.cpp")
TEXT = """\
#include <torch/extension.h>
torch::Tensor f(torch::Tensor x) {
  const int64_t rows = x.size(0);
  auto total = x.sum()
  return total;
}
"""


def error(text: str, line: int = 3, path: Path = PATH) -> CompilerMessage:
    return CompilerMessage(severity=Severity.ERROR, text=text, location=Location(path=path, span=Span.line(line)))


def test_a_slip_in_the_grammar_is_the_users() -> None:
    assert users_own([error("expected ‘,’ or ‘;’ before ‘return’")], unit_of(PATH, TEXT))


def test_the_same_words_where_the_grammar_sees_nothing_are_doubtful() -> None:
    whole = TEXT.replace("x.sum()\n", "x.sum();\n")
    assert not users_own([error("expected ‘,’ or ‘;’ before ‘return’")], unit_of(PATH, whole))


def test_a_macro_of_torchs_on_the_line_is_doubtful() -> None:
    text = TEXT.replace("auto total", "C10_UNUSED auto total")
    assert not users_own([error("expected ‘;’ before ‘return’")], unit_of(PATH, text))


@pytest.mark.parametrize(
    "text",
    [
        "‘rws’ was not declared in this scope; did you mean ‘rows’?",
        "redeclaration of ‘const int64_t rows’",
        "assignment of read-only location ‘* p’",
        "invalid conversion from ‘const float*’ to ‘float*’",
    ],
)
def test_mistakes_that_no_header_could_mend(text: str) -> None:
    assert users_own([error(text)], unit_of(PATH, TEXT))


@pytest.mark.parametrize(
    "text",
    [
        "‘softmax’ is not a member of ‘at’",
        "‘class at::Tensor’ has no member named ‘softmax’",
        "‘softmax’ was not declared in this scope",
        "‘memcpy’ was not declared in this scope; did you mean ‘wmemcpy’?",
        "‘TORCH_X’ was not declared in this scope; did you mean ‘rows’?",
        "no match for ‘operator*’ (operand types are ‘at::Tensor’ and ‘double’)",
        "invalid conversion from ‘c10::ScalarType’ to ‘int’",
    ],
)
def test_what_the_thin_layer_may_lack_is_doubtful(text: str) -> None:
    assert not users_own([error(text)], unit_of(PATH, TEXT))


def test_the_first_error_decides_and_only_sure_ones_are_shown() -> None:
    unit = unit_of(PATH, TEXT)
    sure, doubtful = error("redeclaration of ‘int x’"), error("‘softmax’ is not a member of ‘at’")
    assert users_own([sure, doubtful], unit) == (sure,)
    assert users_own([doubtful, sure], unit) == ()
    assert users_own([], unit) == ()


def test_with_torchs_namespace_opened_a_name_may_be_torchs() -> None:
    unit = unit_of(PATH, TEXT.replace("torch::Tensor f", "using namespace at;\ntorch::Tensor f"))
    assert not users_own([error("‘rws’ was not declared in this scope; did you mean ‘rows’?")], unit)


def test_an_error_elsewhere_is_doubtful() -> None:
    assert not users_own([error("redeclaration of ‘int x’", path=Path("/w/other.h"))], unit_of(PATH, TEXT))
