from __future__ import annotations

import pytest

from tests.source.reading import in_function, read


def test_names_and_receivers() -> None:
    found = in_function(
        "std::exp(x[0]); for (int i = 0; i < n; ++i) { t[i][0].item<float>(); dot<scalar_t, 4>(x, y); ns::g<T>(i); "
        "a.b().c(); ::f(1); float(2); static_cast<int>(3); scalar_t(4); }"
    )
    assert [(c.name, c.receiver, c.loop) for c in found.calls] == [
        ("std::exp", None, None),
        ("item", "t[i][0]", 0),
        ("dot", None, 0),
        ("ns::g", None, 0),
        ("c", "a.b()", 0),
        ("b", "a", 0),
        ("::f", None, 0),
    ]
    assert {c.function for c in found.calls} == {"f"}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("x[j] / std::sqrt(var + eps)", [("std::sqrt(var + eps)", "std::sqrt")]),
        ("x[j] * (a / b)", [("a / b", "/")]),
        ("x[j] * (1.f / std::sqrt(y[i] / n))", []),
        ("std::sqrt(a / b) * x[j]", [("std::sqrt(a / b)", "std::sqrt")]),
        ("x[i] / n", [("x[i] / n", "/")]),
        ("x[j % m] * (i % m)", [("i % m", "%")]),
        ("x[j] / a", []),
        ("expf(x[j]) + std::pow(x[j], a)", []),
        ("x[j] / 2 + 3.f / 4.f", []),
        ("x[j] + rand() / a", []),
        ("x[j] * std::floor(a)", []),
        ("x[t.size(0) / m]", [("t.size(0) / m", "/")]),
    ],
)
def test_invariant_work(expression: str, expected: list[tuple[str, str]]) -> None:
    found = in_function(
        f"for (int i = 0; i < n; ++i) {{ for (int j = 0; j < m; ++j) {{ y[i] = {expression}; }} }}",
        "const float* x, float* y, torch::Tensor t, float a, float b, float var, float eps, int n, int m",
    )
    assert [(item.text, item.operation) for item in found.invariants if item.loop == 1] == expected


def test_work_on_what_the_loop_changes_is_not_invariant() -> None:
    found = in_function(
        "float s = 1; for (int i = 0; i < n; ++i) { y[i] = a / s; s = s * 2; float q = x[i]; y[i] = a / q; }",
        "const float* x, float* y, float a, int n",
    )
    assert found.invariants == ()


def test_outside_of_loops_nothing_is_invariant() -> None:
    assert in_function("y[0] = x[0] / n;").invariants == ()


def test_includes_and_functions() -> None:
    found = read(
        """#include <torch/extension.h>
#if 1
#  include "local.h"
#endif
namespace a::b { namespace { int hidden() { return 1; } } inline namespace v1 { double shown(void) { return 1; } } }
struct S { float area() const { return 1; } };
template <class T> static T twice(T x) { return x + x; }
extern "C" int one(float* x) { return 0; }
extern "C" { void two(const float* __restrict__ x, size_t n) {} }
auto trailing(int i) -> std::vector<float> { return {}; }
const float* pointer(float* const* rows) { return rows[0]; }
"""
    )
    assert found.includes == ("<torch/extension.h>", '"local.h"')
    by_name = {f.name: f for f in found.functions}
    assert [f.qualified_name for f in found.functions] == [
        "a::b::hidden",
        "a::b::v1::shown",
        "S::area",
        "twice",
        "one",
        "two",
        "trailing",
        "pointer",
    ]
    assert by_name["hidden"].is_static
    assert (by_name["shown"].returns, by_name["shown"].parameters) == ("double", ())
    assert (by_name["twice"].is_template, by_name["twice"].is_static, by_name["twice"].returns) == (True, True, "T")
    assert by_name["one"].is_extern_c
    assert by_name["two"].is_extern_c
    assert by_name["trailing"].returns == "std::vector<float>"
    assert by_name["pointer"].returns == "const float*"


@pytest.mark.parametrize(
    "text",
    [
        "CHECK(x)\nint y;",
        "void f() { CHECK_INPUT(x)\n int y = 0; LOOP(i, n) { y++; } }",
        'TORCH_LIBRARY(ns, m) { m.def("f", &f); }',
        "C10_EXPORT torch::Tensor f() { return {}; }",
    ],
)
def test_macros_are_no_syntax_errors(text: str) -> None:
    assert read(text).syntax_errors == ()


@pytest.mark.parametrize(
    ("text", "line"), [("void f() { int x = ; }", 0), ("int a;\nvoid f( { }\n", 1), ("int a;\nint b = (1 + 2;\n", 1)]
)
def test_syntax_errors(text: str, line: int) -> None:
    errors = read(text).syntax_errors
    assert errors
    assert errors[0].start.line == line
