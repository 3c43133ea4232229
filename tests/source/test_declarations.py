from __future__ import annotations

import pytest

from kernel_lsp.domain import TypeKind
from tests.source.reading import read

K = TypeKind


@pytest.mark.parametrize(
    ("written", "kind", "is_const"),
    [
        ("torch::Tensor", K.TENSOR, False),
        ("at::Tensor &", K.TENSOR, False),
        ("const torch::Tensor&", K.TENSOR, True),
        ("Tensor&&", K.TENSOR, False),
        ("const at::Tensor *", K.OTHER, True),
        ("std::vector<at::Tensor>", K.TENSOR_LIST, False),
        ("const std::vector< torch::Tensor > &", K.TENSOR_LIST, True),
        ("at::TensorList", K.TENSOR_LIST, False),
        ("at::ArrayRef<at::Tensor>", K.TENSOR_LIST, False),
        ("c10::optional<at::Tensor>", K.OPTIONAL_TENSOR, False),
        ("const std::optional<torch::Tensor>&", K.OPTIONAL_TENSOR, True),
        ("std::optional<double>", K.OTHER, False),
        ("float*", K.POINTER, False),
        ("const float* __restrict__", K.POINTER, True),
        ("float const *", K.POINTER, True),
        ("float* const", K.POINTER, False),
        ("void*", K.POINTER, False),
        ("float**", K.OTHER, False),
        ("const char*", K.STRING, True),
        ("std::string", K.STRING, False),
        ("const std::string&", K.STRING, True),
        ("c10::string_view", K.STRING, False),
        ("int", K.INTEGER, False),
        ("int64_t", K.INTEGER, False),
        ("const std::size_t", K.INTEGER, True),
        ("unsigned long long", K.INTEGER, False),
        ("c10::SymInt", K.INTEGER, False),
        ("double", K.FLOAT, False),
        ("const float&", K.FLOAT, True),
        ("at::Scalar", K.FLOAT, False),
        ("bool", K.BOOL, False),
        ("at::IntArrayRef", K.INTEGER_LIST, False),
        ("std::vector<int64_t>", K.INTEGER_LIST, False),
        ("std::array<int, 3>", K.INTEGER_LIST, False),
        ("at::ScalarType", K.OTHER, False),
        ("scalar_t", K.OTHER, False),
        ("real", K.FLOAT, False),
        ("const real*", K.POINTER, True),
        ("Out", K.TENSOR_LIST, False),
    ],
)
def test_kinds_of_parameters(written: str, kind: TypeKind, is_const: bool) -> None:
    text = f"typedef float real;\nusing Out = std::vector<at::Tensor>;\nvoid f({written} p, {written}) {{}}\n"
    named, unnamed = read(text).functions[0].parameters
    assert (named.name, named.kind, named.is_const) == ("p", kind, is_const)
    assert (unnamed.name, unnamed.kind) == ("", kind)
    assert named.type == unnamed.type == " ".join(written.split())


@pytest.mark.parametrize(
    ("returns", "kind"),
    [
        ("torch::Tensor", K.TENSOR),
        ("void", K.VOID),
        ("std::tuple<at::Tensor, at::Tensor>", K.TENSOR_LIST),
        ("std::vector<torch::Tensor>", K.TENSOR_LIST),
        ("float", K.FLOAT),
        ("int64_t", K.INTEGER),
    ],
)
def test_kinds_of_results(returns: str, kind: TypeKind) -> None:
    (function,) = read(f"static inline {returns} f() {{ throw 1; }}").functions
    assert (function.returns, function.returns_kind, function.is_static) == (returns, kind, True)


def test_arrays_defaults_and_function_pointers() -> None:
    (function,) = read(
        "void f(float a[3], int n = 2 * 3, at::IntArrayRef s = {1, 2}, int (*g)(int) = nullptr) {}"
    ).functions
    assert [(p.name, p.kind, p.default) for p in function.parameters] == [
        ("a", K.POINTER, None),
        ("n", K.INTEGER, "2 * 3"),
        ("s", K.INTEGER_LIST, "{1, 2}"),
        ("", K.OTHER, "nullptr"),
    ]
