"""What the rewrites make of code as people write it, and what they leave alone, with the reason."""

from __future__ import annotations

import pytest

from kernel_lsp.optimize.rewriting import Declined
from tests.optimize.reading import LIBRARY, rewritten

SUM = "void f(const float* x, float* y, int n, int m) {{\n{body}\n}}\n"


def text_of(skill: str, text: str, **parameters: int) -> str:
    result = rewritten(skill, text, parameters)
    assert not isinstance(result, Declined), result.reason
    return result


def reason_of(skill: str, text: str, **parameters: int) -> str:
    result = rewritten(skill, text, parameters)
    assert isinstance(result, Declined), result
    return result.reason


DISPATCHED = """#include <torch/extension.h>

torch::Tensor row_sums(torch::Tensor x) {
  auto out = torch::empty({x.size(0)}, x.options());
  const int64_t rows = x.size(0), cols = x.size(1);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "row_sums", [&] {
    const scalar_t* in = x.data_ptr<scalar_t>();
    scalar_t* result = out.data_ptr<scalar_t>();
    for (int64_t i = 0; i < rows; ++i) {
      scalar_t sum = 0;
      for (int64_t j = 0; j < cols; ++j) sum += in[i * cols + j];
      result[i] = sum;
    }
  });
  return out;
}
"""


def test_pragmas_take_the_operator_form_in_a_macros_arguments() -> None:
    text = text_of("simd-reduction", DISPATCHED)
    assert '_Pragma("omp simd reduction(+:sum)")\n      for (int64_t j' in text
    again = text_of("parallelise-outer-loop", text)
    assert '_Pragma("omp parallel for")\n    for (int64_t i' in again
    assert "parallel" in reason_of("parallelise-outer-loop", again)


def test_a_loop_that_is_a_whole_body_gets_braces_for_its_pragma() -> None:
    text = text_of(
        "simd-reduction",
        SUM.format(body="  for (int i = 0; i < n; ++i)\n    for (int j = 0; j < m; ++j) y[i * m + j] = x[j];"),
    )
    assert "    {\n    #pragma omp simd\n    for (int j = 0; j < m; ++j) y[i * m + j] = x[j];\n    }" in text


def test_a_recurrence_along_the_row_does_not_keep_rows_from_moving_out() -> None:
    body = "  for (int j = 1; j < m; ++j) for (int i = 0; i < n; ++i) y[i * m + j] = y[i * m + j - 1] + x[j];"
    text = text_of("interchange-loops", SUM.format(body=body))
    assert "for (int i = 0; i < n; ++i) for (int j = 1; j < m; ++j) y[i * m + j]" in text


def test_everything_else_stays_byte_for_byte() -> None:
    before = SUM.format(body="  /* é */\tint  odd ;\r\n  for (int i = 0; i < n; ++i) { y[i] = x[i]; } // end")
    after = text_of("parallelise-outer-loop", before)
    assert after.replace("#pragma omp parallel for\r\n  ", "") == before


def test_a_vector_loop_is_shared_out_together_with_its_pragma() -> None:
    text = text_of(
        "parallelise-outer-loop", SUM.format(body="  #pragma omp simd\n  for (int i = 0; i < n; ++i) y[i] = x[i];")
    )
    assert "  #pragma omp parallel for simd\n  for (int i" in text


def test_collapse_takes_two_perfectly_nested_loops() -> None:
    nest = SUM.format(body="  for (int i = 0; i < n; ++i)\n    for (int j = 0; j < m; ++j) y[i * m + j] = x[j];")
    assert "#pragma omp parallel for collapse(2)" in text_of("parallelise-outer-loop", nest, collapse=2)
    triangle = nest.replace("j < m", "j < i").replace("i * m", "i * n")
    assert "depends on `i`" in reason_of("parallelise-outer-loop", triangle, collapse=2)


def test_no_pragma_comes_between_collapsed_loops() -> None:
    body = (
        "  #pragma omp parallel for collapse(2)\n  for (int i = 0; i < n; ++i)\n"
        "    for (int j = 0; j < m; ++j) y[i * m + j] = x[j];"
    )
    assert "collapsed" in reason_of("simd-reduction", SUM.format(body=body))


def test_vectors_and_tiles_move_their_sums_to_registers_first() -> None:
    body = """  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      y[i * n + j] = 0;
      for (int k = 0; k < n; ++k) y[i * n + j] += x[i * n + k] * x[k * n + j];
    }
  }"""
    assert "#pragma omp simd reduction(+:y_value)" in text_of("simd-reduction", SUM.format(body=body))
    assert "float y_value[6][16];" in text_of("tile-for-cache", SUM.format(body=body))


def test_a_function_that_a_loop_calls_is_not_parallelised_itself() -> None:
    text = text_of(
        "parallelise-outer-loop",
        "static float total(const float* x, int n) {\n  float s = 0;\n"
        "  for (int i = 0; i < n; ++i) s += x[i];\n  return s;\n}\n"
        + SUM.format(body="  for (int i = 0; i < n; ++i) y[i] = total(x + i * m, m);"),
    )
    assert text.count("#pragma") == 1
    assert "#pragma omp parallel for\n  for (int i = 0; i < n; ++i) y[i]" in text


def test_guards_that_are_the_same_for_a_block_stay_outside_it() -> None:
    body = """  for (int j = 0; j < m; ++j) {
    float s = 0;
    for (int i = 0; i < n; ++i) {
      if (i % 2 == 0) continue;
      if (x[i * m + j] < 0) continue;
      s += x[i * m + j];
    }
    y[j] = s;
  }"""
    text = text_of("interchange-loops", SUM.format(body=body), block=64)
    inner = text[text.index("for (int i") :]
    assert inner.index("if (i % 2 == 0) continue;") < inner.index("for (int j") < inner.index("if (x[i * m + j] < 0)")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "  for (int j = 0; j < m; ++j) { float s = 0; for (int i = 0; i < n; ++i) { if (x[i * m + j] < 0) break; "
            "s += x[i * m + j]; } y[j] = s; }",
            "`break`",
        ),
        ("  float s = 0;\n  for (int j = 0; j < m; ++j) for (int i = 0; i < n; ++i) s += x[i * m + j] * s;", "carried"),
        ("  for (int j = 0; j < m; ++j) for (int i = 0; i < j; ++i) y[0] += x[i * m + j];", "y[0]"),
        ("  for (int i = 0; i < n; ++i) for (int j = 0; j < m; ++j) y[i * m + j] = x[i * m + j];", "walk along memory"),
        (
            "  for (int j = 0; j < m; ++j) { float s = 0; for (int i = 0; i < n; ++i) { if (x[j] < 0) goto out; "
            "s += x[i * m + j]; } y[j] = s; }\n  out: ;",
            "`goto`",
        ),
        (
            "  for (int j = 0; j < m; ++j) { float s = 0; for (int i = 0; i < n; ++i) ACCUMULATE(s, x[i * m + j]); "
            "y[j] = s; }",
            "",
        ),
    ],
)
def test_interchange_declines(body: str, reason: str) -> None:
    assert reason in reason_of("interchange-loops", SUM.format(body=body))


def test_a_macros_definition_is_no_code() -> None:
    text = (
        "#define SUM(s, x, n) for (int i = 0; i < n; ++i) s += x[i];\nvoid f(float* y) { float s = 0; SUM(s, y, 3) }\n"
    )
    for skill in LIBRARY.skills:
        assert isinstance(rewritten(skill.name, text), Declined), skill.name


def test_an_accumulator_that_may_be_read_otherwise_stays_in_memory() -> None:
    body = "  for (int i = 1; i < n; ++i) {\n    for (int j = 0; j < m; ++j) y[i] += x[j] * y[j];\n  }"
    assert "`y[j]` may be `y[i]`" in reason_of("accumulate-in-register", SUM.format(body=body))


def test_a_writable_pointer_may_be_the_accumulators_array() -> None:
    text = "void f(float* x, float* y, int n) { for (int i = 0; i < n; ++i) { y[0] += x[i]; } }"
    assert "may be" in reason_of("accumulate-in-register", text)
    assert "y_value += x[i]" in text_of("accumulate-in-register", text.replace("float* x", "const float* x"))


def test_integer_divisions_are_not_hoisted() -> None:
    text = "void f(float* y, int n, int m, int k) { for (int i = 0; i < n; ++i) { y[i] = m / k; } }"
    assert "nothing costly" in reason_of("hoist-invariant", text)


def test_a_reciprocal_of_an_integer_is_a_float() -> None:
    body = "  for (int i = 0; i < n; ++i) {\n    y[i] = x[i] / m;\n  }"
    assert "const float inverse_m = 1.0f / m;" in text_of("hoist-invariant", SUM.format(body=body))
    assert "nothing" in reason_of("hoist-invariant", SUM.format(body=body), reciprocal=0)


def test_what_the_loop_may_write_is_not_hoisted() -> None:
    body = "  for (int i = 0; i < n; ++i) {\n    y[i] = x[i] / std::sqrt(y[0]);\n  }"
    assert "nothing costly" in reason_of("hoist-invariant", SUM.format(body=body))


def test_doubles_stay_with_double_data() -> None:
    loop = "for (int i = 0; i < n; ++i) y[i] = 0.5 * exp(x[i]);"
    text = f"#include <cmath>\nvoid f(const double* x, double* y, int n) {{ {loop} }}"
    assert "no double" in reason_of("float-literals", text)
    assert "not in float" in reason_of("vectorise-exp", text)


def test_a_generic_exp_keeps_the_librarys_for_double() -> None:
    text = text_of("vectorise-exp", DISPATCHED.replace("sum += in[i * cols + j]", "sum += std::exp(in[i * cols + j])"))
    assert "inline double vector_exp(double x) { return std::exp(x); }" in text
    assert "sum += vector_exp(in[i * cols + j]);" in text
    assert '_Pragma("omp simd reduction(+:sum)")' in text
    again = rewritten("vectorise-exp", text)
    assert isinstance(again, Declined)


def test_a_files_own_exp_is_left_alone() -> None:
    text = "static float exp(float x) { return x; }\n" + SUM.format(
        body="  for (int i = 0; i < n; ++i) y[i] = exp(x[i]);"
    )
    assert "call none of" in reason_of("vectorise-exp", text)


def test_a_written_accessor_of_a_parameter_is_kept() -> None:
    text = """void f(torch::Tensor y) {
  auto a = y.accessor<float, 2>();
  for (int i = 0; i < 3; ++i) a[i][0] = 1;
}
"""
    assert "may not be contiguous" in reason_of("index-raw-pointers", text)
    assert "not a whole index" in reason_of("index-raw-pointers", text.replace("a[i][0] = 1", "use(a[i])"))


def test_no_name_is_taken_twice() -> None:
    loop = "for (int i = 0; i < n; ++i) {\n    for (int j = 0; j < m; ++j) y[i] += x[j];\n  }"
    body = f"  int y_value = 0;\n  {loop}"
    assert "float y_value_ = y[i];" in text_of("accumulate-in-register", SUM.format(body=body))


def test_comments_are_kept() -> None:
    body = """  for (int j = 0; j < m; ++j) {
    // the sum so far
    float s = 0;  // of column j
    for (int i = 0; i < n; ++i) {
      s += x[i * m + j];  // one element
      // nothing else
    }
    /* now
       done */
    y[j] = s;
    // and on
  }"""
    text = text_of("interchange-loops", SUM.format(body=body))
    for comment in ("// the sum so far", "// of column j", "// one element", "// nothing else", "now", "// and on"):
        assert text.count(comment) == 1, comment


def test_what_omp_atomic_guards_is_left_alone() -> None:
    body = """  for (int j = 0; j < m; ++j) {
    for (int i = 0; i < n; ++i) {
      #pragma omp atomic
      y[i * m + j] += x[i];
    }
  }"""
    for skill in ("interchange-loops", "parallelise-outer-loop", "simd-reduction", "accumulate-in-register"):
        assert isinstance(rewritten(skill, SUM.format(body=body)), Declined), skill


def test_two_pointers_to_one_tensor_are_not_restricted() -> None:
    text = """#include <torch/extension.h>
void f(torch::Tensor x) {
  const float* a = x.data_ptr<float>();
  float* b = x.data_ptr<float>();
  for (int i = 0; i < 3; ++i) b[i] = a[i];
}
"""
    assert "could overlap" in reason_of("restrict-pointers", text)
    other = text.replace("torch::Tensor x)", "torch::Tensor x, torch::Tensor y)").replace("b = x.", "b = y.")
    assert "float* __restrict__ b = y.data_ptr<float>();" in text_of("restrict-pointers", other)
