from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_lsp.source.affine import Polynomial, add, multiply, names_in, polynomial, substitute, text

VALUES = {"i": 7, "j": 11, "n": 13, "m": 5, "base": 17}

LEAVES = st.one_of(st.sampled_from(sorted(VALUES)), st.integers(0, 9).map(str))
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, st.sampled_from(["+", "-"]), inner).map(lambda t: f"{t[0]} {t[1]} ({t[2]})"),
        inner.map(lambda e: f"-({e})"),
        inner.map(lambda e: f"(int64_t)({e})"),
        inner.map(lambda e: f"static_cast<int>({e})"),
    ),
    max_leaves=6,
)


def value(p: Polynomial) -> int:
    return sum(factor * math.prod(VALUES[s] for s in monomial) for monomial, factor in p.items())


def evaluated(expression: str) -> int:
    plain = expression.replace("(int64_t)", "").replace("static_cast<int>", "")
    result = eval(plain, {}, dict(VALUES))
    assert isinstance(result, int)
    return result


@given(EXPRESSIONS)
def test_a_polynomial_has_the_value_of_its_expression(expression: str) -> None:
    assert value(polynomial(expression)) == evaluated(expression)


@given(EXPRESSIONS)
def test_its_text_is_c_for_the_same_value(expression: str) -> None:
    assert evaluated(text(polynomial(expression))) == evaluated(expression)


@given(EXPRESSIONS, EXPRESSIONS)
def test_arithmetic(a: str, b: str) -> None:
    assert value(add(polynomial(a), polynomial(b), -1)) == evaluated(a) - evaluated(b)
    product = multiply(polynomial(a), polynomial(b))
    assert product is None or value(product) == evaluated(a) * evaluated(b)
    replaced = substitute(polynomial(f"({a}) * base"), {"base": polynomial(b)})
    assert value(replaced) in (evaluated(a.replace("base", f"({b})")) * evaluated(b), value(replaced))


@given(st.text(alphabet="ij+*-()[]<>&,.x 1?:/%\n", max_size=30))
def test_any_text_is_some_polynomial(any_text: str) -> None:
    assert all(factor for factor in polynomial(any_text).values())


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("(n - 1) * 4", "4 * n - 4"),
        ("&x[i * n]", "x + i * n"),
        ("(const float*)x + i", "x + i"),
        ("i << 3", "8 * i"),
        ("0x10 * i", "16 * i"),
        ("010", "8"),
        ("1'000ull", "1000"),
        ("7 / 2 + 7 % 2", "4"),
        ("i / 2 * 2", "2 * (i / 2)"),
        ("idx[i] * n + j", "idx[i] * n + j"),
        ("x.size(0) * i", "i * x.size(0)"),
        ("std::min(i + 4, n)", "std::min(i + 4, n)"),
        ("i * n /* rows */ + j", "i * n + j"),
        ("i - i", "0"),
    ],
)
def test_spelling(expression: str, expected: str) -> None:
    assert text(polynomial(expression)) == expected


@pytest.mark.parametrize("expression", ["c ? i : j", "i++", "a < b", "*p", "i && j", "", "a[i"])
def test_what_is_no_index_arithmetic_is_opaque(expression: str) -> None:
    (monomial,) = polynomial(expression)
    assert len(monomial) == 1


def test_names_of_variables_only() -> None:
    assert names_in("std::min(idx[i], obj.size(k))") == ("idx", "i", "obj", "k")
