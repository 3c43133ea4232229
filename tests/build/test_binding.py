from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kernel_lsp.build.binding import binding_source
from kernel_lsp.build.content import Source
from kernel_lsp.domain import Problem

from .conftest import unit_of

PATH = Path("/w/k.cpp")


def bound(text: str) -> str:
    unit = unit_of(PATH, "#include <torch/extension.h>\n" + text)
    source = binding_source(unit)
    assert isinstance(source, Source), source
    return source.text


def test_the_entry_is_declared_and_bound_in_a_unit_of_its_own() -> None:
    text = bound("using torch::Tensor;\nTensor f(const Tensor& x, int64_t n = 3, float s = 1.5f) { return x; }\n")
    assert "torch::Tensor f(const torch::Tensor&, int64_t, float);" in text
    assert 'pybind11::arg("n") = 3, pybind11::arg("s") = 1.5f' in text
    assert "return x" not in text


def test_namespaces_are_opened() -> None:
    text = bound("namespace a { namespace b {\nat::Tensor f(at::Tensor x) { return x; }\n}}\n")
    assert "namespace a { namespace b { at::Tensor f(at::Tensor); } }" in text
    assert "&::a::b::f" in text


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("static torch::Tensor f(torch::Tensor x) { return x; }\n", "no-linkage"),
        ("struct Options {};\ntorch::Tensor f(torch::Tensor x, Options o) { return x; }\n", "unbindable-type"),
    ],
)
def test_what_cannot_be_bound_is_a_problem_on_the_entry(text: str, code: str) -> None:
    unit = unit_of(PATH, "#include <torch/extension.h>\n" + text)
    found = binding_source(unit)
    assert isinstance(found, Problem)
    assert found.code == code
    assert found.location is not None
    assert unit.entry is not None
    assert found.location.span == unit.entry.name_span


def test_without_an_entry_nothing_is_bound() -> None:
    assert binding_source(replace(unit_of(PATH, "int x;\n"), entry=None)) is None
