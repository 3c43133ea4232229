from __future__ import annotations

import pytest

from kernel_lsp.domain import Loop
from tests.source.reading import in_function, kernel_texts, parsed, read


def bounds(loop: Loop) -> tuple[str | None, ...]:
    return (loop.variable, loop.lower, loop.upper, loop.step)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("for (int i = 0; i < n; i++)", ("i", "0", "n", "1")),
        ("for (int i = 0; i < n; ++i)", ("i", "0", "n", "1")),
        ("for (size_t i = m; i < n * 2; i += 4)", ("i", "m", "n * 2", "4")),
        ("for (int i = 0; i <= n; i += m)", ("i", "0", "(n) + 1", "m")),
        ("for (int i = -1; i <= 1; i++)", ("i", "-1", "2", "1")),
        ("for (int i = 0; n > i; i = i + 2)", ("i", "0", "n", "2")),
        ("for (auto i = 0, end = n; i != end; ++i)", ("i", "0", "end", "1")),
        ("for (int64_t i = threadIdx.x; i < n; i += blockDim.x)", ("i", "threadIdx.x", "n", "blockDim.x")),
        ("for (const auto i : c10::irange(n))", ("i", "0", "n", "1")),
        ("for (const auto i : c10::irange(m, n))", ("i", "m", "n", "1")),
        ("for (int i = n - 1; i >= 0; i--)", (None, None, None, None)),
        ("for (int i = 0; i < n; i -= 1)", (None, None, None, None)),
        ("for (int i = 1; i < n; i *= 2)", (None, None, None, None)),
        ("for (int i = 0; i < n && y[i]; ++i)", (None, None, None, None)),
        ("for (int i = 0; i < i * n; ++i)", (None, None, None, None)),
        ("for (;;)", (None, None, None, None)),
        ("for (float v : values)", (None, None, None, None)),
        ("while (n > 0)", (None, None, None, None)),
    ],
)
def test_headers(header: str, expected: tuple[str | None, ...]) -> None:
    (loop,) = in_function(f"{header} {{ y[0] = 1; }}").loops
    assert bounds(loop) == expected


def test_a_body_that_moves_the_variable_makes_the_loop_uncountable() -> None:
    (loop,) = in_function("for (int i = 0; i < n; ++i) { if (x[i] < 0) i += 2; }").loops
    assert loop.variable is None
    assert "i" in (loop.declares or ())


def test_do_and_nested_loops() -> None:
    found = in_function("do { for (int j = 0; j < m; ++j) y[j] = 0; } while (--n);")
    outer, inner = found.loops
    assert (inner.parent, inner.is_innermost, outer.is_innermost) == (outer.id, True, False)
    assert outer.span.contains(inner.span)
    assert "n" in (outer.assigns or ())


def test_header_and_body_spans() -> None:
    text = "void f(float* y, int n) {\n  for (int i = 0; i < n; ++i) /* why */\n    y[i] = 0;\n}\n"
    source = parsed(text)
    (loop,) = read(text).loops
    assert source.text_at(loop.header_span) == "for (int i = 0; i < n; ++i)"
    assert source.text_at(loop.body_span) == "y[i] = 0;"
    assert source.text_at(loop.span).endswith("y[i] = 0;")


@pytest.mark.parametrize(
    ("before", "parallel", "simd"),
    [
        ("#pragma omp parallel for", (True, True), (False, False)),
        ("#pragma omp parallel for simd collapse(2) schedule(static)", (True, True), (True, True)),
        ("#pragma omp simd reduction(+:s)", (False, False), (True, False)),
        ("#pragma omp parallel for \\\n  num_threads(4)", (True, True), (False, False)),
        ("#pragma omp for", (True, True), (False, False)),
        ("# pragma  omp taskloop", (True, True), (False, False)),
        ("#pragma omp parallel for // fast", (True, True), (False, False)),
        ("#pragma omp parallel for\n// a comment between", (True, True), (False, False)),
        ("#pragma GCC ivdep", (False, False), (False, False)),
        ("#pragma omp barrier\nn = 2;", (False, False), (False, False)),
    ],
)
def test_directives_for_loops(before: str, parallel: tuple[bool, bool], simd: tuple[bool, bool]) -> None:
    found = in_function(f"\n{before}\nfor (int i = 0; i < n; ++i)\n  for (int j = 0; j < m; ++j) y[i * m + j] = 0;\n")
    assert tuple(loop.is_parallel for loop in found.loops) == parallel
    assert tuple(loop.is_simd for loop in found.loops) == simd


def test_a_parallel_region_covers_its_block_and_no_more() -> None:
    found = in_function(
        """
#pragma omp parallel
{
  int t = 0;
#pragma omp for nowait
  for (int i = 0; i < n; ++i) y[i] = 0;
}
for (int i = 0; i < n; ++i) y[i] = 1;
"""
    )
    assert [loop.is_parallel for loop in found.loops] == [True, False]


@pytest.mark.parametrize("call", ["at::parallel_for", "torch::parallel_for", "parallel_for"])
def test_parallel_for_lambdas(call: str) -> None:
    found = in_function(
        f"""{call}(0, n, 1, [&](int64_t begin, int64_t end) {{
  for (int64_t i = begin; i < end; ++i) for (int j = 0; j < m; ++j) y[i * m + j] = 0;
}});
for (int i = 0; i < n; ++i) y[i] = 0;"""
    )
    assert [loop.is_parallel for loop in found.loops] == [True, True, False]


def test_loops_within_dispatch_macros_are_loops_of_the_function() -> None:
    found = read(kernel_texts()["softmax_extension.cpp"])
    backward = [loop for loop in found.loops if loop.function == "softmax_backward"]
    assert [(loop.variable, loop.upper, loop.parent) for loop in backward] == [
        ("i", "rows", None),
        ("j", "cols", backward[0].id),
        ("j", "cols", backward[0].id),
    ]
    assert [loop.id for loop in found.loops] == list(range(len(found.loops)))


def test_what_a_loop_declares_and_assigns() -> None:
    found = in_function(
        """
int k = 0; float total = 0, *p = y; std::vector<float> kept;
for (int i = 0; i < n; ++i) {
  float row = 0;
  for (int j = 0; j < m; ++j) { row += x[j]; k++; }
  total = total + row;
  p += 1;
  y[i] = row;
  kept.push_back(row);
}"""
    )
    outer, inner = found.loops
    assert set(outer.declares or ()) == {"i", "row", "j"}
    assert set(outer.assigns or ()) == {"k", "total", "p", "kept"}
    assert set(inner.declares or ()) == {"j"}
    assert set(inner.assigns or ()) == {"row", "k"}


def test_counters_from_outside_are_shared_between_steps() -> None:
    found = in_function("int i, j; for (i = 0; i < n; i++) for (j = 0; j < m; j++) y[i * m + j] = 0;")
    outer, inner = found.loops
    assert (outer.variable, inner.variable) == ("i", "j")
    assert outer.assigns == ("j",)
    assert inner.assigns == ()


def test_functions_of_the_file_that_write_through_references() -> None:
    found = read(
        """
void bump(float& a, const float& b) { a += b; }
void f(const float* x, int n) {
  float s = 0, t = 1, u = 2;
  for (int i = 0; i < n; ++i) { bump(s, t); std::swap(t, u); scanf("%f", &u); }
}
"""
    )
    assert set(found.loops[0].assigns or ()) == {"s", "t", "u"}


def test_device_code_is_parallel() -> None:
    found = read(kernel_texts()["reduce.cu"], "reduce.cu")
    assert [loop.is_parallel for loop in found.loops] == [True, True, True]
    assert next(f for f in found.functions if f.name == "row_sum_kernel").is_global
