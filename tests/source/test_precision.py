from __future__ import annotations

import pytest

from tests.source.reading import in_function, read

PARAMETERS = "const float* x, const double* w, float* y, float a, double alpha, int n"


def uses(statement: str, includes: str = "#include <cmath>\n") -> list[tuple[str, str]]:
    text = f"{includes}void f({PARAMETERS}) {{ for (int i = 0; i < n; ++i) {{ {statement} }} }}\n"
    return [(use.text, use.why) for use in read(text).doubles]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("y[i] = 0.1 * x[i];", [("0.1", "literal")]),
        ("y[i] *= 0.1;", [("0.1", "literal")]),
        ("y[i] = 0.5 * x[i] * x[i];", [("0.5", "literal")]),
        ("y[i] = 0.5 * x[i] * (1.0 + x[i]);", [("0.5", "literal"), ("1.0", "literal")]),
        ("y[i] = x[i] + 2.0 * 0.3;", [("2.0", "literal"), ("0.3", "literal")]),
        ("y[i] = x[i] * (1.0 / n);", [("1.0", "literal")]),
        ("y[i] = x[i] / 1e-3;", [("1e-3", "literal")]),
        ("y[i] = -0.1 + x[i];", [("-0.1", "literal")]),
        ("if (x[i] > 0.1) y[i] = 0;", [("0.1", "literal")]),
        ("y[i] = x[i] * M_PI;", [("M_PI", "literal")]),
        ("y[i] = exp(x[i]);", [("exp", "function")]),
        ("y[i] = 1.f / sqrt(x[i] + a);", [("sqrt", "function")]),
        ("y[i] = std::pow(x[i], 2);", [("std::pow", "function")]),
        ("y[i] = x[i] / std::sqrt(n);", [("std::sqrt", "function")]),
        ("y[i] = std::max(0.1 * x[i], alpha);", [("0.1", "literal"), ("alpha", "variable")]),
        ("y[i] = (double)x[i] * x[i];", [("(double)", "cast")]),
        ("y[i] = static_cast<double>(x[i]);", [("static_cast<double>", "cast")]),
        ("y[i] = alpha * x[i];", [("alpha", "variable")]),
        ("double s = x[i]; y[i] = s;", [("s", "variable")]),
        ("auto v = 0.1 * x[i]; y[i] = v;", [("0.1", "literal")]),
    ],
)
def test_doubles_that_creep_in(statement: str, expected: list[tuple[str, str]]) -> None:
    assert uses(statement) == expected


@pytest.mark.parametrize(
    "statement",
    [
        "y[i] = 0.5f * x[i];",
        "y[i] = 0.1;",
        "float h = 1.0, k = 0.1; y[i] = h * k;",
        "y[i] = std::exp(x[i]) + std::pow(x[i], 2.f) + expf(a);",
        "y[i] = fabs(x[i]) + std::abs(x[i]);",
        "y[i] = 2 * x[i] + n;",
        "y[i] = (float)0.1 * x[i];",
        "y[i] = static_cast<float>(0.1) * x[i] + float(0.1);",
        "y[i] = x[i] * 2.0;",  # done in float: 2.0 is exact and the result is a float
        "y[i] *= 0.5;",
        "y[i] = x[i] > 0.0 ? x[i] : 0.0;",
        "y[i] = x[i] > 0.5 ? x[i] : 0.1;",
        "y[i] = w[i] * 0.1 + exp(w[i]);",
        "double d = w[i] * 0.1; d += 2.0;",
        "y[i] = i * 0.1;",
        "y[i] = std::max(x[i], 0.f) + std::numeric_limits<float>::max() + INFINITY;",
        "unknown_t u = g(); y[i] = u * 0.1;",
    ],
)
def test_no_false_alarms(statement: str) -> None:
    assert uses(statement) == []


def test_constants_of_a_sum_kept_in_double_are_meant() -> None:
    assert uses("double s = 0; s += 0.1 * x[i];") == [("s", "variable")]


@pytest.mark.parametrize(
    "includes", ["#include <torch/extension.h>\n", "#include <math.h>\n", "#include <cmath>\nusing namespace std;\n"]
)
def test_where_the_c_functions_are_overloaded_for_float(includes: str) -> None:
    assert uses("y[i] = exp(x[i]);", includes) == []
    assert uses("y[i] = exp(0.1 * x[i]);", includes) == [("0.1", "literal")]


def test_macros_constants_and_returns_of_the_file() -> None:
    found = read(
        """
#define SCALE 0.1
#define COUNT 4
constexpr double kBeta = 0.3;
constexpr float kGamma = 0.3f;
static float helper(float z) { return 0.1 * z; }
static float exact(float z) { return 0.5 * z; }
void f(const float* x, float* y, int n) {
  for (int i = 0; i < n; ++i) y[i] = SCALE * x[i] + COUNT * kGamma;
  for (int i = 0; i < n; ++i) y[i] = kBeta * helper(x[i]);
}"""
    )
    assert [(u.text, u.why, u.loop) for u in found.doubles] == [
        ("0.1", "literal", None),
        ("SCALE", "literal", 0),
        ("kBeta", "variable", 1),
    ]


def test_a_variable_is_told_once_for_each_loop() -> None:
    found = in_function(
        "double s = 0; for (int i = 0; i < n; ++i) { s += x[i]; s += x[i + 1]; } for (int i = 0; i < n; ++i) s += x[i];"
    )
    assert [(u.text, u.why, u.loop) for u in found.doubles] == [("s", "variable", 0), ("s", "variable", 1)]


def test_a_function_of_the_file_hides_the_librarys() -> None:
    own = "#include <cmath>\nstatic float exp(float x) { return x; }\n"
    assert uses("y[i] = exp(x[i]);", own) == []
    assert uses("y[i] = std::exp(0.1 * x[i]);", own) == [("0.1", "literal")]
