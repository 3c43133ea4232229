from __future__ import annotations

import pytest

from tests.source.reading import in_function, read


def found(
    body: str, before: str = "float s = 0, t = 0; int k = 0; double d = 0;"
) -> list[tuple[str, str, bool, str | None]]:
    parameters = "const float* x, const int* v, float* y, int n, int m, float& by_ref"
    features = in_function(f"{before} for (int i = 0; i < n; ++i) {{ {body} }}", parameters)
    return [(r.target, r.operator, r.through_memory, r.type) for r in features.reductions]


@pytest.mark.parametrize(
    ("statement", "operator"),
    [
        ("s += x[i];", "+"),
        ("s -= x[i];", "-"),
        ("s *= x[i];", "*"),
        ("s = s + x[i];", "+"),
        ("s = x[i] + s;", "+"),
        ("s = s + x[i] + 1.f - t;", "+"),
        ("s = (s - x[i]);", "-"),
        ("s = x[i] * s;", "*"),
        ("s = std::max(s, x[i]);", "max"),
        ("s = std::max<float>(x[i] * 2, s);", "max"),
        ("s = fmaxf(s, x[i]);", "max"),
        ("s = std::fmin(s, x[i]);", "min"),
        ("s = MAX(s, x[i]);", "max"),
        ("s = x[i] > s ? x[i] : s;", "max"),
        ("s = s > x[i] ? x[i] : s;", "min"),
        ("s = (x[i] < s) ? x[i] : s;", "min"),
        ("if (x[i] > s) s = x[i];", "max"),
        ("if (s < x[i]) { s = x[i]; k = i; }", "max"),
        ("if (x[i] <= s) { s = x[i]; }", "min"),
        ("s = std::fma(x[i], t, s);", "+"),
        ("s = fmaf(x[i], x[i], s);", "+"),
        ("if (x[i] > 0) s += x[i];", "+"),
    ],
)
def test_forms(statement: str, operator: str) -> None:
    assert found(statement) == [("s", operator, False, "float")]


@pytest.mark.parametrize(
    "statement",
    [
        "s = x[i];",
        "s = x[i] - s;",
        "s += s * x[i];",
        "s = s * t + x[i];",
        "s = s + x[i] * s;",
        "s = std::max(t, x[i]);",
        "s = std::max(s, s * x[i]);",
        "float u = 0; u += x[i];",
        "y[i] += x[i];",
        "y[i * m] = y[i * m] + 1;",
        "k += 1;",
        "k += m;",
        "if (x[i] > t) s = x[i];",
        "if (x[i] > s) s = x[i]; else s = 0;",
        "if (x[i] > s) t = x[i];",
        "y[v[i]] += 1;",
    ],
)
def test_what_is_no_reduction(statement: str) -> None:
    assert found(statement) == []


def test_integers_and_doubles_are_reduced_too() -> None:
    assert found("k += v[i]; d += x[i];") == [("k", "+", False, "int"), ("d", "+", False, "double")]


@pytest.mark.parametrize("target", ["y[0]", "*y", "y[m * 3]", "*(y + m)"])
def test_through_memory(target: str) -> None:
    assert found(f"{target} += x[i];") == [(target, "+", True, "float")]


def test_references_to_elements_are_memory() -> None:
    assert found("acc += x[i];", "float& acc = y[3];") == [("acc", "+", True, "float")]


def test_fields() -> None:
    features = read(
        "struct Box { float area; }; void f(Box b, const float* x, int n) "
        "{ for (int i = 0; i < n; ++i) { b.area += x[i]; Box c; c.area += x[i]; } }"
    )
    assert [(r.target, r.type) for r in features.reductions] == [("b.area", "float")]


def test_the_loop_is_the_innermost_around_the_statement() -> None:
    features = in_function(
        "float total = 0; for (int i = 0; i < n; ++i) { float s = 0; for (int j = 0; j < m; ++j) s += x[i * m + j];"
        " total += s; for (int j = 0; j < m; ++j) y[j] += s; }"
    )
    assert [(r.target, r.loop) for r in features.reductions] == [("s", 1), ("total", 0)]


def test_element_types_follow_templates_dispatch_and_aliases() -> None:
    features = read(
        """
using real = float;
template <typename T> void g(const T* x, real* y, torch::Tensor t, int n) {
  T a = 0; real b = 0; auto c = 0.0f; auto e = t.data_ptr<scalar_t>(); auto z = t.accessor<at::Half, 2>();
  for (int i = 0; i < n; ++i) { a += x[i]; b += y[i]; c += 1.f; e[0] += 1; z[0][1] += x[i]; }
}"""
    )
    assert [(r.target, r.type) for r in features.reductions] == [
        ("a", "T"),
        ("b", "float"),
        ("c", "float"),
        ("e[0]", "scalar_t"),
        ("z[0][1]", "at::Half"),
    ]
