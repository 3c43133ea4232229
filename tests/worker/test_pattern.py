"""Where elements are wrong, in words."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from kernel_lsp.worker.pattern import describe_pattern  # noqa: E402

pytestmark = pytest.mark.torch

Change = Callable[[torch.Tensor], None]


def words(change: Change, *shape: int) -> str:
    expected = torch.arange(1, 1 + torch.Size(shape).numel(), dtype=torch.float64).reshape(shape)
    got = expected.clone()
    change(got)
    wrong = (got != expected) | got.isnan()
    return describe_pattern(wrong, got, expected)


def put(index: object, value: float) -> Change:
    return lambda t: t.__setitem__(index, value)


def times(index: object, factor: float) -> Change:
    return lambda t: t.__setitem__(index, t[index] * factor)


def noise(index: object) -> Change:
    return lambda t: t.__setitem__(index, t[index] * (2 + 7 * torch.rand_like(t[index])))


CASES: list[tuple[Change, tuple[int, ...], str]] = [
    (noise((slice(None), slice(-3, None))), (8, 16), "only the last 3 columns"),
    (noise((slice(None), 0)), (8, 16), "only the first column"),
    (noise((slice(-1, None),)), (8, 16), "only the last row"),
    (noise(5), (8, 16), "only row 5"),
    (noise((slice(None), slice(None, None, 2))), (8, 16), "every 2nd column, from 0"),
    (noise(slice(256, None)), (300,), "elements from index 256"),
    (noise(slice(-3, None)), (300,), "only the last 3 elements"),
    (noise(slice(0, 4)), (300,), "only the first 4 elements"),
    (noise((..., slice(256, None))), (2, 3, 300), "every index of the last dimension from index 256 of 300"),
    (noise((2, 3)), (8, 16), "only the element at [2, 3]"),
    (times(..., 2.0), (8, 16), "all 128 elements, each 2 times the right value"),
    (put(..., float("nan")), (8, 16), "all 128 elements, each NaN"),
    (put(..., 0.0), (4,), "all 4 elements, each zero"),
    (put(..., 7.5), (4,), "all 4 elements, each 7.5"),
    (lambda t: t.add_(0.25), (8, 16), "all 128 elements, each off by +0.25"),
    (put(0, 9.0), (1,), "the only element"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[2])
def test_a_pattern_has_its_words(case: tuple[Change, tuple[int, ...], str]) -> None:
    change, shape, expected = case
    assert words(change, *shape) == expected


def test_the_upper_triangle() -> None:
    wrong = torch.ones(6, 6, dtype=torch.bool).triu(1)
    got = torch.rand(6, 6, dtype=torch.float64)
    assert describe_pattern(wrong, got, got + 1 + torch.rand(6, 6)).startswith("only the part above the diagonal")


@given(
    st.lists(st.integers(1, 5), min_size=0, max_size=4),
    st.integers(0, 2**20),
    st.sampled_from((0.0, float("nan"), float("inf"), 3.0)),
)
def test_there_are_words_for_every_set(shape: list[int], bits: int, value: float) -> None:
    count = torch.Size(shape).numel()
    mask = torch.tensor([bool(bits >> (i % 20) & 1) for i in range(count)]).reshape(shape)
    if not bool(mask.any()):
        mask = torch.ones_like(mask)
    expected = torch.ones(shape, dtype=torch.float64)
    got = torch.where(mask, torch.full_like(expected, value), expected)
    text = describe_pattern(mask, got, expected)
    assert text
    assert "\n" not in text
    if bool(mask.all()) and count > 1:
        assert text.startswith(f"all {count} elements")
