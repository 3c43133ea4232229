"""Independence of iterations: what is proved, what is refused and why, and that no proof is wrong."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_lsp.optimize.dependence import Dependence, at_least
from tests.optimize.reading import carried, code_of, loop_over

INDEPENDENT = {
    "row major": ("i", "for (int i = 0; i < n; ++i) for (int j = 0; j < m; ++j) y[i * m + j] = x[i * m + j];"),
    "column of a row-major matrix": (
        "j",
        "for (int j = 0; j < m; ++j) for (int i = 0; i < n; ++i) y[i * m + j] = x[i * m + j];",
    ),
    "three dimensions": (
        "c",
        "for (int c = 0; c < n; ++c) for (int h = 0; h < m; ++h) for (int w = 0; w < k; ++w) "
        "y[(c * m + h) * k + w] = x[w];",
    ),
    "row pointers": (
        "i",
        "for (int i = 0; i < n; ++i) { const float* in = x + i * m; float* out = &y[i * m]; "
        "for (int j = 0; j < m; ++j) out[j] = in[j]; }",
    ),
    "a local sum": (
        "i",
        "for (int i = 0; i < n; ++i) { float s = 0; for (int j = 0; j < m; ++j) s += x[i * m + j]; y[i] = s; }",
    ),
    "its own element, read and written": ("i", "for (int i = 0; i < n; ++i) { y[i] = 0; y[i] += x[i]; }"),
    "interior of a row": (
        "i",
        "for (int i = 0; i < n; ++i) for (int j = 1; j < m - 1; ++j) y[i * m + j] = x[i * m + j - 1];",
    ),
    "a triangle": ("i", "for (int i = 0; i < n; ++i) for (int j = 0; j < i; ++j) y[i * n + j] = x[j];"),
    "blocks": (
        "b",
        "for (int b = 0; b < n; b += 16) { const int e = b + 16 < n ? b + 16 : n; "
        "for (int i = b; i < e; ++i) y[i] = x[i]; }",
    ),
    "blocks by std::min": (
        "b",
        "for (int b = 0; b < n; b += 16) for (int i = b; i < std::min(b + 16, n); ++i) y[i] = x[i];",
    ),
    "an inclusive end": ("i", "for (int i = 0; i <= n - 1; i++) y[2 * i + 1] = x[2 * i];"),
    "casts": (
        "i",
        "for (size_t i = 0; i < n; ++i) y[static_cast<int64_t>(i) * 2] = x[(int)i];",
    ),
    "a local array": ("i", "for (int i = 0; i < n; ++i) { float t[4]; t[0] = x[i]; t[1] = t[0]; y[i] = t[1]; }"),
    "pure functions": ("i", "for (int i = 0; i < n; ++i) y[i] = std::exp(std::max(x[i], 0.0f)) + square(x[i]);"),
    "continue": ("i", "for (int i = 0; i < n; ++i) { if (x[i] < 0) continue; y[i] = x[i]; }"),
    "a break of an inner loop": (
        "i",
        "for (int i = 0; i < n; ++i) { for (int j = 0; j < m; ++j) { if (x[j] > 1) break; y[i] = x[j]; } }",
    ),
}

CARRIED = {
    "a sum": ("i", "float s = 0; for (int i = 0; i < n; ++i) s += x[i];", "`s` (line 4) is carried"),
    "the element before": ("i", "for (int i = 1; i < n; ++i) y[i] = y[i - 1] + x[i];", "may be the same element"),
    "the same element": ("i", "for (int i = 0; i < n; ++i) y[0] = x[i];", "may write the same `y[0]`"),
    "overlapping rows": (
        "i",
        "for (int i = 0; i < n; ++i) for (int j = 0; j < m + 1; ++j) y[i * m + j] = x[j];",
        "may write the same",
    ),
    "an index from memory": ("i", "for (int i = 0; i < n; ++i) y[index[i]] = x[i];", "may write the same"),
    "a remainder": ("i", "for (int i = 0; i < n; ++i) y[i % m] = x[i];", "may write the same"),
    "another name for the array": (
        "i",
        "float* z = y + 1; for (int i = 0; i < n; ++i) y[i] = z[i];",
        "may be the same element",
    ),
    "two writable pointers": (
        "i",
        "for (int i = 0; i < n; ++i) y[i] = other[n - 1 - i];",
        "`y` and `other` may be one array",
    ),
    "a pointer that moves": ("i", "for (int i = 0; i < n; ++i) *y++ = x[i];", ""),
    "break": ("i", "for (int i = 0; i < n; ++i) { if (x[i] < 0) break; y[i] = x[i]; }", "`break` ends the loop early"),
    "return": ("i", "for (int i = 0; i < n; ++i) { if (x[i] < 0) return; y[i] = x[i]; }", "`return` on line 4"),
    "goto": ("i", "for (int i = 0; i < n; ++i) { if (x[i] < 0) goto end; y[i] = 0; } end: ;", "`goto` on line 4"),
    "throw": ("i", "for (int i = 0; i < n; ++i) { if (x[i] < 0) throw 1; y[i] = 0; }", "`throw` on line 4"),
    "an unknown function": ("i", "for (int i = 0; i < n; ++i) y[i] = lookup(x[i]);", "calls `lookup`"),
    "a function with a memory": ("i", "for (int i = 0; i < n; ++i) y[i] = count(x[i]);", "calls `count`, which"),
    "a macro": ("i", "for (int i = 0; i < n; ++i) CHECK_AND_STORE(y, i, x);", "calls `CHECK_AND_STORE`"),
    "a directive": (
        "i",
        "for (int i = 0; i < n; ++i) {\n#ifdef DEBUG\n y[0] = 1;\n#endif\n y[i] = x[i]; }",
        "preprocessor directive",
    ),
    "a while loop": ("i", "for (int i = 0; i < n; ++i) { int j = 0; while (x[j] > 0) ++j; y[i] = j; }", "plain range"),
    "a lambda": ("i", "for (int i = 0; i < n; ++i) { auto f = [&] { y[0] = 1; }; f(); y[i] = 0; }", "lambda"),
    "a global": ("i", "for (int i = 0; i < n; ++i) { ++calls; y[i] = 0; }", "`calls`"),
    "an inner variable from outside": (
        "i",
        "int t; for (int i = 0; i < n; ++i) { t = i; y[i] = x[t]; }",
        "`t` (line 4) is carried",
    ),
}

FRAME = """static int calls;
static float square(float v) {{ return v * v; }} static float count(float v) {{ ++calls; return v; }}
void kernel(const float* x, float* y, float* other, const int* index, int n, int m, int k) {{
{body}
}}
"""


@pytest.mark.parametrize("name", INDEPENDENT)
def test_independent(name: str) -> None:
    variable, body = INDEPENDENT[name]
    assert carried(FRAME.format(body=body), variable) is None


@pytest.mark.parametrize("name", CARRIED)
def test_refused_with_the_reason(name: str) -> None:
    variable, body, reason = CARRIED[name]
    found = carried(FRAME.format(body=body), variable)
    assert found is not None
    assert reason in found


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("int i; for (i = 0; i < n; ++i) y[i] = 0;", "declared outside"),
        ("for (int i = 0, j = 0; i < n; ++i) y[i] = 0;", "more than one variable"),
        ("for (int i = 0; i < n; i *= 2) y[i] = 0;", "not plain"),
        ("for (int i = n; i > 0; --i) y[i] = 0;", "not plain"),
        ("for (int i = 0; i < n; ++i) { y[i] = 0; i += 1; }", "changed in the loop's body"),
        ("for (;;) y[0] = 0;", "no start, end or step"),
    ],
)
def test_loops_that_are_not_counted(header: str, reason: str) -> None:
    code = code_of(FRAME.format(body=header))
    found = code.loop(code.loops()[0])
    assert isinstance(found, str)
    assert reason in found


def test_read_only_tensors_and_fresh_results_do_not_meet() -> None:
    text = """
    torch::Tensor f(torch::Tensor x) {
      auto in = x.contiguous();
      auto out = torch::empty_like(in);
      const float* a = in.data_ptr<float>();
      float* b = out.data_ptr<float>();
      for (int64_t i = 1; i < n; ++i) b[i] = a[i - 1];
    }"""
    assert carried(text, "i") is None


def test_a_view_of_a_tensor_is_the_tensor() -> None:
    text = """
    void f(torch::Tensor x) {
      auto flat = x.view({-1});
      float* a = x.data_ptr<float>();
      const float* b = flat.data_ptr<float>();
      for (int64_t i = 1; i < n; ++i) a[i] = b[i];
    }"""
    assert carried(text, "i") is not None


def test_accessors_differ_by_any_index() -> None:
    text = "void f() { for (int i = 0; i < n; ++i) for (int j = 0; j < m; ++j) out[i][j] = in[j][i]; }"
    assert "not known which memory" in (carried(text, "i") or "")
    declared = "void f(float in[4][4], float out[4][4]) {" + text.partition("{")[2]
    assert carried(declared.replace("float in", "const float in"), "i") is None


@pytest.mark.parametrize(
    ("statement", "operator"),
    [
        ("s += x[i];", "+"),
        ("s -= x[i];", "+"),
        ("s = s + x[i];", "+"),
        ("s = x[i] + s;", "+"),
        ("s *= x[i];", "*"),
        ("s = std::max(s, x[i]);", "max"),
        ("s = fminf(x[i], s);", "min"),
        ("s = x[i] > s ? x[i] : s;", "max"),
        ("s = s < x[i] ? s : x[i];", "min"),
        ("if (x[i] > s) s = x[i];", "max"),
        ("if (s > x[i]) { s = x[i]; }", "min"),
        ("if (x[i] > 0) s += x[i];", "+"),
    ],
)
def test_reductions(statement: str, operator: str) -> None:
    code = code_of(FRAME.format(body=f"float s = 0; for (int i = 0; i < n; ++i) {{ {statement} }}"))
    found = Dependence(code).reductions(loop_over(code, "i"))
    assert not isinstance(found, str)
    assert [reduction.operator for reduction in found] == [operator]


@pytest.mark.parametrize(
    "statement",
    [
        "s = x[i] - s;",
        "s = s / x[i];",
        "s += s * x[i];",
        "s += x[i]; y[i] = s;",
        "if (x[i] > s) { s = x[i]; best = i; }",
        "s = x[i] > 0 ? x[i] : s;",
        "s = std::max(s, s + x[i]);",
        "if (x[i] > s) s = x[i]; else s = 0;",
    ],
)
def test_no_reductions(statement: str) -> None:
    code = code_of(FRAME.format(body=f"int best; float s = 0; for (int i = 0; i < n; ++i) {{ {statement} }}"))
    assert isinstance(Dependence(code).reductions(loop_over(code, "i")), str)


small = st.integers(0, 7)


@settings(max_examples=300, deadline=None)
@given(
    n=st.integers(1, 5),
    m=st.integers(1, 5),
    write=st.tuples(small, small, small),
    read=st.tuples(small, small, small),
    step=st.integers(1, 3),
)
def test_a_proof_is_never_wrong(
    n: int, m: int, write: tuple[int, int, int], read: tuple[int, int, int], step: int
) -> None:
    """Whatever is called independent has no two iterations that meet, found by running through all of them."""

    def index(factors: tuple[int, int, int]) -> str:
        return f"{factors[0]} * i + {factors[1]} * j + {factors[2]}"

    text = (
        f"void f(float* y) {{ for (int i = 0; i < {n}; i += {step}) for (int j = 0; j < {m}; ++j) "
        f"y[{index(write)}] = y[{index(read)}]; }}"
    )
    if carried(text, "i") is not None:
        return

    def elements(i: int, factors: tuple[int, int, int]) -> set[int]:
        return {factors[0] * i + factors[1] * j + factors[2] for j in range(m)}

    for first, second in itertools.permutations(range(0, n, step), 2):
        written = elements(first, write)
        assert not written & (elements(second, write) | elements(second, read))


@given(st.dictionaries(st.sampled_from(["", "a", "b", "ab"]), st.integers(-4, 4), max_size=4), st.integers(-3, 3))
def test_at_least_is_sufficient(terms: dict[str, int], bound: int) -> None:
    value = {tuple(name): factor for name, factor in terms.items() if factor}
    if at_least(value, bound, positive={"a"}):
        for a, b in itertools.product(range(1, 5), range(5)):
            total = sum(f * (a if "a" in name else 1) * (b if "b" in name else 1) for name, f in terms.items())
            assert total >= bound
