from __future__ import annotations

import ast
from pathlib import Path

import pytest

from kernel_lsp.domain import Parameter
from kernel_lsp.source.neighbours import is_reference
from kernel_lsp.source.pairing import read_unit, reference_skeleton
from tests.source.reading import KERNELS


def skeleton(text: str, entry: str | None = None) -> str:
    return reference_skeleton(read_unit(Path("kernels/op.cpp"), text, entry=entry))


def functions(source: str) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}


def names(source: str, function: str) -> list[str]:
    return [argument.arg for argument in functions(source)[function].args.args]


def test_a_tensor_function() -> None:
    source = skeleton(
        "torch::Tensor op(torch::Tensor x, torch::Tensor weight, c10::optional<torch::Tensor> bias, int64_t groups,"
        " double eps = 1e-5, bool affine = true) { return x; }"
    )
    assert names(source, "reference") == ["x", "weight", "bias", "groups", "eps", "affine"]
    assert "eps=1e-5, affine=True" in source
    assert "torch.randn(256, 256),  # x" in source
    assert "torch.randn(256),  # weight" in source
    assert set(functions(source)) == {"reference", "inputs"}


def test_outputs_of_a_void_function_are_left_to_the_kernel() -> None:
    source = skeleton("void op(const torch::Tensor& x, torch::Tensor& out) {}")
    assert names(source, "reference") == ["x"]


def test_sizes_of_a_c_function_are_read_off_the_inputs() -> None:
    source = skeleton(
        'extern "C" void op(const float* x, const int64_t* index, float* y, int rows, int cols, float in) {}'
    )
    assert names(source, "reference") == names(source, "arguments") == ["x", "index", "in_"]
    assert '"rows": x.size(0),' in source
    assert '"cols": x.size(1),' in source
    assert "torch.randint(0, 256, (256, 256)),  # index" in source


def test_one_size_is_the_number_of_elements() -> None:
    source = skeleton('extern "C" void op(const double* x, double* y, size_t n) {}')
    assert '"n": x.numel(),' in source
    assert "torch.randn(256, dtype=torch.float64),  # x" in source


@pytest.mark.parametrize("name", sorted(path.name for path in KERNELS.iterdir()))
def test_it_is_found_as_a_reference_and_runs(name: str) -> None:
    path = KERNELS / name
    source = reference_skeleton(read_unit(path, path.read_bytes().decode()))
    assert is_reference(source)
    assert {"reference", "inputs"} <= set(functions(source))
    assert compile(source, name, "exec")


def test_a_file_without_an_entry_has_a_skeleton_too() -> None:
    assert names(skeleton("static int f() { return 1; }"), "reference") == ["x"]


def test_parameters_keep_their_order() -> None:
    unit = read_unit(Path("op.cpp"), "torch::Tensor op(torch::Tensor b, torch::Tensor a) { return a; }")
    assert unit.entry is not None
    assert [p.name for p in unit.entry.parameters if isinstance(p, Parameter)] == ["b", "a"]
    assert names(reference_skeleton(unit), "reference") == ["b", "a"]
