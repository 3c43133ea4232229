"""Which value each parameter gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from kernel_lsp.domain import Role  # noqa: E402
from kernel_lsp.worker import reference as ref  # noqa: E402
from kernel_lsp.worker.binding import Bound, Unbound, _literal, _Missing, bind, pointee_of  # noqa: E402
from tests.worker.kernels import function  # noqa: E402

pytestmark = pytest.mark.torch

PLAIN = """
import torch
ROWS, COLS = 4, 6
EPS = 1e-5
def reference(x, y):
    return x + y
def inputs():
    return torch.randn(ROWS, COLS), torch.randn(ROWS, COLS)
"""


def bound(folder: Path, text: str, signature: str, *, changes_inputs: bool = False) -> tuple[Bound, ...]:
    path = folder / "reference.py"
    path.write_text(text)
    instance = ref.instantiate(ref.run(ref.read(path)), 1)
    inputs = ref.make_inputs(instance, 1)
    result: Any = instance.call(ref.cloned(inputs))
    outputs = [] if changes_inputs else list(ref.as_inputs(result))
    return bind(
        function(signature), instance, inputs, outputs, source=folder / "kernel.cpp", changes_inputs=changes_inputs
    )


def sources(*arguments: Any, **options: Any) -> list[str]:
    return [b.argument.source for b in bound(*arguments, **options)]


CASES = {
    "names in any order": (
        "void f(int cols, const float* y, const float* x, float* out, int rows)",
        ["constant COLS", "input y", "input x", "output 0", "constant ROWS"],
    ),
    "names of C++ that say nothing": (
        "void f(const float* a, const float* b, float* c, int n, int m)",
        ["input x", "input y", "output 0", "constant ROWS", "constant COLS"],
    ),
    "inputs that are not const": (
        "void f(float* a, float* b, float* c, int rows, int cols)",
        ["input x", "input y", "output 0", "constant ROWS", "constant COLS"],
    ),
    "the output first, by its name": (
        "void f(float* out, float* a, float* b, int rows, int cols)",
        ["output 0", "input x", "input y", "constant ROWS", "constant COLS"],
    ),
    "trailing underscores and capitals": (
        "torch::Tensor f(torch::Tensor X_, torch::Tensor Y, double eps)",
        ["input x", "input y", "constant EPS"],
    ),
    "defaults": (
        "torch::Tensor f(torch::Tensor x, torch::Tensor y, double alpha = 1e-3f, int blocks = 32)",
        ["input x", "input y", "default 1e-3f", "default 32"],
    ),
    "a status is no result": (
        "int f(const float* x, const float* y, float* out, int rows, int cols)",
        ["input x", "input y", "output 0", "constant ROWS", "constant COLS"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_arguments_are_matched(tmp_path: Path, case: str) -> None:
    signature, expected = CASES[case]
    assert sources(tmp_path, PLAIN, signature) == expected


ALL = "const float* x, const float* y, float* out, int rows, int cols"
REFUSED = {
    "unmatched": (f"void f({ALL}, int blocks)", "unmatched-argument"),
    "scratch": (f"void f({ALL}, float* tmp)", "unmatched-argument"),
    "type": ("void f(const double* x, const float* y, float* out)", "wrong-type"),
    "no result": ("void f(const float* x, const float* y)", "no-output"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_matched_is_refused_with_the_choices(tmp_path: Path, case: str) -> None:
    signature, code = REFUSED[case]
    with pytest.raises(Unbound) as refused:
        bound(tmp_path, PLAIN, signature)
    problem = refused.value.problem
    assert problem.code == code
    assert problem.hint
    assert problem.location is not None
    if case == "unmatched":
        assert "`blocks`" in problem.message
        assert "`ROWS`" in problem.message
        assert "arguments(" in problem.hint


def test_the_files_own_arguments_come_first(tmp_path: Path) -> None:
    text = PLAIN + "def arguments(x, y):\n    return {'rows': 2 * x.shape[0], 'tmp': torch.empty(3)}\n"
    found = bound(tmp_path, text, "void f(const float* x, const float* y, float* out, float* tmp, int rows)")
    assert [b.argument.role for b in found] == [Role.INPUT, Role.INPUT, Role.OUTPUT, Role.SCALAR, Role.SCALAR]
    assert found[-1].value == 8


MODEL = """
import torch
N = 3
class Model(torch.nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.first = torch.nn.Linear(features, hidden)
        self.norm = torch.nn.BatchNorm1d(hidden)
        self.conv = torch.nn.Conv2d(1, 1, 3, stride=2)
        self.gain = torch.nn.Parameter(torch.ones(hidden))
    def forward(self, x):
        return self.norm(self.first(x)) * self.gain
def get_inputs():
    return [torch.randn(N, 5)]
def get_init_inputs():
    return [5, 7]
"""


def test_state_is_found_under_its_names(tmp_path: Path) -> None:
    signature = (
        "torch::Tensor f(torch::Tensor x, torch::Tensor first_weight, torch::Tensor running_mean, "
        "torch::Tensor gain, int hidden, double norm_eps, int conv_stride, int n)"
    )
    found = bound(tmp_path, MODEL, signature)
    assert [b.argument.source for b in found] == [
        "input x", "model.first_weight", "model.running_mean", "model.gain", "model.hidden", "model.norm_eps",
        "model.conv_stride", "constant N",
    ]  # fmt: skip
    assert found[1].value.shape == (7, 5)
    assert found[4].value == 7
    assert found[5].value == 1e-5
    assert found[6].value == 2


def test_a_name_that_several_parts_share_is_not_guessed(tmp_path: Path) -> None:
    with pytest.raises(Unbound):
        bound(tmp_path, MODEL, "torch::Tensor f(torch::Tensor x, torch::Tensor weight)")


def test_in_place_needs_no_output(tmp_path: Path) -> None:
    text = PLAIN.replace("return x + y", "x.add_(y)")
    found = bound(tmp_path, text, "void f(float* x, const float* y, int rows, int cols)", changes_inputs=True)
    assert [b.argument.role for b in found] == [Role.INPUT, Role.INPUT, Role.SCALAR, Role.SCALAR]


@given(st.integers(-(2**40), 2**40), st.sampled_from(("", "u", "L", "ull")))
def test_integers_as_cpp_writes_them(value: int, suffix: str) -> None:
    assert _literal(f"{value}{suffix}") == value


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(("", "f", "F", "L")))
def test_floats_as_cpp_writes_them(value: float, suffix: str) -> None:
    assert _literal(f"{value!r}{suffix}") == value


@given(st.text(max_size=20))
def test_any_other_default_is_no_literal_and_no_error(text: str) -> None:
    value = _literal(text)
    assert value is None or value is _Missing or isinstance(value, (bool, int, float, str))


def test_pointees() -> None:
    assert pointee_of("const float *__restrict__") == "float"
    assert pointee_of("unsigned int*") == "unsigned"
    assert pointee_of("std::int64_t const* const") == "int64_t"
    assert pointee_of("long long int *") == "long long"
