from __future__ import annotations

import pytest

from kernel_lsp.domain import Access
from tests.source.reading import access, in_function, read, strides

NEST = "for (int i = 0; i < n; ++i) for (int j = 0; j < m; ++j) {{ {} }}"


def only(body: str, parameters: str = "const float* x, float* y, int* idx, int n, int m") -> Access:
    (one,) = in_function(NEST.format(body), parameters).accesses
    return one


@pytest.mark.parametrize(
    ("index", "by_j", "by_i"),
    [
        ("i * m + j", "1", "m"),
        ("j * n + i", "n", "1"),
        ("(i * m + j) * 4 + 2", "4", "4 * m"),
        ("i", "0", "1"),
        ("7", "0", "0"),
        ("(size_t)i * m + (j - 1)", "1", "m"),
        ("static_cast<int64_t>(i) * m + int64_t(j)", "1", "m"),
        ("n - 1 - j", "-1", "0"),
        ("j * j", "?", "0"),
        ("i / 2 + j", "1", "?"),
        ("i * j", "i", "j"),
        ("(i + j) * m", "m", "m"),
        ("i % 2", "0", "?"),
        ("std::min(i, n)", "0", "?"),
        ("j < 3 ? j : 0", "?", "0"),
        ("i << 2", "0", "4"),
        ("n * m", "0", "0"),
        ("j++", "?", "?"),
    ],
)
def test_strides_of_an_index(index: str, by_j: str, by_i: str) -> None:
    found = in_function(NEST.format(f"y[{index}] = 0;")).accesses[0]
    if "++" in index:
        assert by_j in strides(found).values()
        return
    assert (found.array, found.index, found.is_read, found.is_write) == ("y", index, False, True)
    assert strides(found) == {"j": by_j, "i": by_i}
    assert [variable for variable, _ in found.strides] == ["j", "i"]


def test_the_factor_of_one_variable_may_hold_another() -> None:
    assert strides(only("y[i * j] = 0;")) == {"j": "i", "i": "j"}


def test_locals_that_are_set_once_are_looked_through() -> None:
    found = in_function(
        """
for (int i = 0; i < n; ++i) {
  const float* row = x + i * m;
  int base = i * m, twice{2 * base};
  float* out = &y[base];
  auto flat = row + 3;
  for (int j = 0; j < m; ++j) { out[j] = row[j] + x[base + j] + x[twice] + flat[j]; }
}"""
    )
    by_array = {(a.array, a.index): strides(a) for a in found.accesses}
    assert by_array == {
        ("row", "j"): {"j": "1", "i": "m"},
        ("x", "base + j"): {"j": "1", "i": "m"},
        ("x", "twice"): {"j": "0", "i": "2 * m"},
        ("flat", "j"): {"j": "1", "i": "m"},
        ("out", "j"): {"j": "1", "i": "m"},
    }


@pytest.mark.parametrize("change", ["base += 1;", "base++;", "f(&base);", "base = j;"])
def test_locals_that_change_are_not(change: str) -> None:
    found = in_function(
        f"for (int i = 0; i < n; ++i) {{ int base = i * m; for (int j = 0; j < m; ++j) {{ y[base] = 0; {change} }} }}"
    )
    assert strides(access(found, "y", write=True)) == {"j": "?", "i": "?"}


def test_a_name_that_stays_keeps_its_name() -> None:
    found = in_function("const int stride = n * 2; for (int i = 0; i < n; ++i) y[i * stride] = 0;")
    assert strides(access(found, "y", write=True)) == {"i": "stride"}


def test_gathers_and_scatters_are_unknown_in_their_loop_only() -> None:
    found = in_function(NEST.format("y[idx[i] * m + j] = 0;"), "float* y, const int* idx, int n, int m")
    assert strides(access(found, "y", write=True)) == {"j": "1", "i": "?"}
    assert strides(access(found, "idx")) == {"j": "0", "i": "1"}


def test_an_index_array_that_is_written_in_the_loop_varies() -> None:
    found = in_function("for (int i = 0; i < n; ++i) { y[idx[0]] = 0; idx[0] = 3; }", "float* y, int* idx, int n")
    assert strides(access(found, "y", write=True)) == {"i": "?"}


@pytest.mark.parametrize(
    ("expression", "array", "index", "by_j"),
    [
        ("*(y + i * m + j) = 0", "y", "i * m + j", "1"),
        ("*y = 0", "y", "0", "0"),
        ("*(y + j) = 0", "y", "j", "1"),
        ("(y + i * m)[j] = 0", "(y + i * m)", "j", "1"),
        ("(*(y + j)) = 0", "y", "j", "1"),
        ("y[i * m + j]++", "y", "i * m + j", "1"),
    ],
)
def test_pointers_and_subscripts(expression: str, array: str, index: str, by_j: str) -> None:
    found = only(f"{expression};")
    assert (found.array, found.index, strides(found)["j"]) == (array, index, by_j)
    assert found.is_write


def test_a_pointer_that_walks_has_no_known_stride() -> None:
    found = in_function("float* p = y; for (int i = 0; i < n; ++i) *p++ = x[i];")
    walking = next(a for a in found.accesses if a.is_write)
    assert strides(walking) == {"i": "?"}


def test_native_arrays_move_by_their_extents() -> None:
    found = in_function(NEST.format("float t[4][8][N]; t[i][j][2] = x[0];"))
    assert strides(access(found, "t", write=True)) == {"j": "N", "i": "8 * N"}
    assert access(found, "t", write=True).index == "i][j][2"


def test_accessors_move_by_the_tensors_strides() -> None:
    found = read(
        """
void f(torch::Tensor x) {
  auto a = x.accessor<float, 3>();
  torch::TensorAccessor<float, 2> b = x.accessor<float, 2>();
  for (int i = 0; i < 8; ++i) {
    auto row = a[i];
    for (int j = 0; j < 8; ++j) { row[j][2] = a[j][0][i] + b[i][j]; }
  }
}"""
    )
    assert strides(access(found, "row", write=True)) == {"j": "a.stride(1)", "i": "a.stride(0)"}
    assert strides(access(found, "a")) == {"j": "a.stride(0)", "i": "1"}
    assert strides(access(found, "b")) == {"j": "1", "i": "b.stride(0)"}


def test_tensors_and_maps_are_no_arrays() -> None:
    found = read(
        "void f(const torch::Tensor& x, std::map<int, float> m) { for (int i = 0; i < 3; ++i) g(x[i], m[i]); }"
    )
    assert found.accesses == ()


def test_vectors_and_vectors_of_vectors() -> None:
    found = read(
        "void f(std::vector<float>& v, std::vector<std::vector<float>>& w, int n) {"
        " for (int i = 0; i < n; ++i) for (int j = 0; j < n; ++j) w[i][j] = v[j]; }"
    )
    assert strides(access(found, "w", write=True)) == {"j": "1", "i": "?"}
    assert strides(access(found, "v")) == {"j": "1", "i": "0"}


def test_tiles_move_along_with_the_loop_that_starts_them() -> None:
    found = in_function(
        "for (int jj = 0; jj < n; jj += 16) for (int i = 0; i < n; ++i) "
        "for (int j = jj; j < jj + 16; ++j) y[i * n + j] = 0;"
    )
    assert strides(access(found, "y", write=True)) == {"j": "1", "i": "n", "jj": "1"}


def test_reads_writes_and_addresses() -> None:
    found = in_function(
        "for (int i = 0; i < n; ++i) { y[i] += x[i]; y[i + 1]--; float* p = &y[i]; g(x[2 * i]); if (x[3 * i]) {} }"
    )
    assert [(a.index, a.is_read, a.is_write) for a in found.accesses] == [
        ("i", True, False),
        ("i", True, True),
        ("i + 1", True, True),
        ("2 * i", True, False),
        ("3 * i", True, False),
    ]


def test_members_and_shadows() -> None:
    found = read(
        """
struct P { float* data; int n; };
void f(P p, float* a, int n) {
  int i = 5;
  for (int i = 0; i < n; ++i) { p.data[i * p.n] = 0; }
  a[i] = 1;
  { float* a = p.data; a[i] = 2; }
}"""
    )
    first = access(found, "p.data", write=True)
    assert strides(first) == {"i": "p.n"}
    assert [a.loop for a in found.accesses] == [0, None, None]


def test_accesses_in_conditional_text_are_seen() -> None:
    found = in_function("for (int i = 0; i < n; ++i) {\n#ifdef FAST\n y[i] = 0;\n#else\n y[2 * i] = 0;\n#endif\n}")
    assert [strides(a)["i"] for a in found.accesses] == ["1", "2"]
