"""The tolerance: honest arithmetic passes whatever its order, dishonest answers fail however small they are."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from kernel_lsp.worker.judge import Expected, compare, tolerances  # noqa: E402

pytestmark = pytest.mark.torch

seeds = st.integers(0, 2**31)
lengths = st.sampled_from((1, 7, 256, 4096, 65536))
scales = st.sampled_from((1e-6, 1.0, 1e6))


def drawn(seed: int, *shape: int, kind: str = "normal") -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if kind == "uniform":
        return torch.rand(*shape, generator=generator)
    return torch.randn(*shape, generator=generator)


def sequential(x: torch.Tensor) -> torch.Tensor:
    """Row sums one term after the other, in x's type."""
    return x.cumsum(1)[:, -1] if x.dtype is torch.float64 else _sequential(x)


def _sequential(x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(x.shape[0], dtype=x.dtype)
    for column in x.t().contiguous():
        total = total + column
    return total


def of_sum(x: torch.Tensor) -> Expected:
    return Expected(native=x.sum(1), wide=x.double().sum(1), longest_sum=x.shape[1])


def of_product(a: torch.Tensor, b: torch.Tensor) -> Expected:
    return Expected(native=a @ b, wide=a.double() @ b.double(), longest_sum=a.shape[1])


@given(seed=seeds, length=st.sampled_from((1, 7, 256, 4096)), kind=st.sampled_from(("normal", "uniform")), scale=scales)
@settings(max_examples=25, deadline=None)
def test_a_sequential_sum_is_right(seed: int, length: int, kind: str, scale: float) -> None:
    x = drawn(seed, 64, length, kind=kind) * scale
    assert compare(of_sum(x), sequential(x)).right


@pytest.mark.parametrize("kind", ["normal", "uniform"])
def test_a_long_sequential_sum_is_right(kind: str) -> None:
    x = drawn(5, 64, 65536, kind=kind)
    assert compare(of_sum(x), sequential(x)).right


@given(seed=seeds, length=lengths, blocks=st.sampled_from((2, 8, 64)))
@settings(max_examples=25, deadline=None)
def test_a_reordered_sum_is_right(seed: int, length: int, blocks: int) -> None:
    x = drawn(seed, 32, length)
    order = torch.randperm(length, generator=torch.Generator().manual_seed(seed))
    parts = torch.stack([part.sum(1) for part in x[:, order].chunk(blocks, dim=1)])
    assert compare(of_sum(x), parts.sum(0)).right


@given(seed=seeds, length=lengths, scale=scales)
@settings(max_examples=25, deadline=None)
def test_zeros_a_constant_and_the_mean_are_wrong(seed: int, length: int, scale: float) -> None:
    """Also where the truth is small, or is a mean that barely moves."""
    x = drawn(seed, 64, length, kind="uniform") * scale
    expected = Expected(native=x.mean(1), wide=x.double().mean(1), longest_sum=length)
    assert not compare(expected, torch.zeros(64)).right
    assert not compare(expected, torch.full((64,), 0.5 * scale)).right
    assert not compare(expected, expected.native.mean().expand(64)).right


@given(seed=seeds, element=st.integers(0, 63), share=st.sampled_from((1e-3, -1e-3, 0.5)))
@settings(max_examples=25, deadline=None)
def test_one_element_off_is_wrong(seed: int, element: int, share: float) -> None:
    x = drawn(seed, 64, 256)
    got = x.sum(1)
    got[element] += share * float(got.std())
    comparison = compare(of_sum(x), got)
    assert not comparison.right
    assert comparison.worst is not None
    assert comparison.worst.index == (element,)
    assert comparison.statistics is not None
    assert comparison.statistics.wrong == 1


def tf32(x: torch.Tensor) -> torch.Tensor:
    bits = x.contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


NARROW = {
    "TF32": tf32,
    "half": lambda x: x.half().float(),
    "bfloat16": lambda x: x.bfloat16().float(),
}


@pytest.mark.parametrize("length", [16, 256, 4096])
@pytest.mark.parametrize("narrow", NARROW)
def test_a_product_of_narrower_operands_is_wrong_and_named(narrow: str, length: int) -> None:
    a, b = drawn(1, 48, length), drawn(2, length, 48)
    comparison = compare(of_product(a, b), NARROW[narrow](a) @ NARROW[narrow](b))
    assert not comparison.right
    assert ("bfloat16" if narrow == "bfloat16" else "half or TF32") in comparison.explanation


@pytest.mark.parametrize("length", [16, 256, 4096])
def test_a_plain_loop_of_products_is_right(length: int) -> None:
    a, b = drawn(1, 24, length), drawn(2, length, 24)
    got = torch.zeros(24, 24)
    for k in range(length):
        got = got + a[:, k : k + 1] * b[k : k + 1]
    assert compare(of_product(a, b), got).right


@given(seed=seeds)
@settings(max_examples=25, deadline=None)
def test_an_element_beside_a_pole_excuses_no_other(seed: int) -> None:
    x = drawn(seed, 4096)
    x[0] = 1e-12
    expected = Expected(native=1 / x**2, wide=1 / x.double() ** 2, longest_sum=1)
    got = (1 / x) * (1 / x)
    assert compare(expected, got).right
    smallest = int(got.argmin())
    got[smallest] *= 1.001
    assert not compare(expected, got).right


def test_a_softmax_of_large_numbers_may_flush_what_is_almost_nothing() -> None:
    x = drawn(3, 64, 256) * 1e3
    wide = torch.softmax(x.double(), 1)
    e = torch.exp(x - x.amax(1, keepdim=True))
    got = e / e.sum(1, keepdim=True)
    got[got < 1.2e-38] = 0
    assert compare(Expected(native=torch.softmax(x, 1), wide=wide, longest_sum=256), got).right


def test_rounding_at_a_threshold_is_no_error() -> None:
    """Sums that a ReLU cuts at zero: which side a rounding error falls on is nobody's fault."""
    x = drawn(4, 4096, 300)
    expected = Expected(native=x.sum(1).relu(), wide=x.double().sum(1).relu(), longest_sum=300)
    assert compare(expected, sequential(x).relu()).right


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_outputs_summed_in_float32_are_right_and_in_half_wrong(dtype: torch.dtype) -> None:
    x = drawn(6, 64, 4096, kind="uniform").to(dtype)
    expected = Expected(native=x.sum(1), wide=x.double().sum(1), longest_sum=4096)
    assert compare(expected, sequential(x.float()).to(dtype)).right
    assert not compare(expected, sequential(x)).right


def test_float64_is_held_to_float64() -> None:
    x = drawn(7, 64, 1000).double()
    expected = Expected(native=x.sum(1), wide=x.sum(1), longest_sum=1000)
    assert compare(expected, x.flip(1).sum(1)).right
    comparison = compare(expected, x.float().sum(1).double())
    assert not comparison.right
    assert "precision of float32" in comparison.explanation


def test_without_float64_the_general_tolerance_holds() -> None:
    x = drawn(8, 64, 1000)
    expected = Expected(native=x.sum(1), wide=None, longest_sum=1000)
    assert compare(expected, sequential(x)).right
    assert not compare(expected, torch.zeros(64)).right


SPECIAL = (0.0, 1.0, math.inf, -math.inf, math.nan)


@given(st.lists(st.sampled_from(SPECIAL), min_size=1, max_size=8), st.data())
def test_special_values_match_in_place_and_sign_only(values: list[float], data: st.DataObject) -> None:
    native = torch.tensor(values)
    expected = Expected(native=native, wide=native.double(), longest_sum=1)
    assert compare(expected, native.clone()).right
    place = data.draw(st.integers(0, len(values) - 1))
    other = data.draw(st.sampled_from([v for v in SPECIAL if repr(v) != repr(values[place])]))
    got = native.clone()
    got[place] = other
    assert not compare(expected, got).right


def test_where_float32_overflows_and_float64_does_not_anything_goes() -> None:
    expected = Expected(
        native=torch.tensor([math.inf, 2.0]), wide=torch.tensor([1e39, 2.0], dtype=torch.float64), longest_sum=1
    )
    assert compare(expected, torch.tensor([math.inf, 2.0])).right
    assert compare(expected, torch.tensor([3.4e38, 2.0])).right
    assert not compare(expected, torch.tensor([math.inf, 3.0])).right


def test_integers_are_exact_unless_rounding_decides() -> None:
    native = torch.arange(100)
    expected = Expected(native=native, wide=None, longest_sum=1)
    assert compare(expected, native.clone()).right
    got = native.clone()
    got[3] = 4
    assert not compare(expected, got).right
    # Torch's float32 and float64 answers differ at two of them: so may the kernel's.
    wide = native.clone()
    wide[[10, 20]] += 1
    assert compare(Expected(native=native, wide=wide, longest_sum=1), got).right
    assert not compare(Expected(native=native, wide=wide, longest_sum=1), native + 1).right


@given(seed=seeds, shape=st.sampled_from(((), (1,), (0,), (3, 0), (2, 3))))
@settings(max_examples=20, deadline=None)
def test_torch_itself_is_always_right(seed: int, shape: tuple[int, ...]) -> None:
    native = drawn(seed, *shape) if shape else drawn(seed, 1)[0]
    expected = Expected(native=native, wide=native.double(), longest_sum=1)
    assert compare(expected, native.clone()).right
    assert tolerances(expected).shape == native.shape


def test_unwritten_elements_are_wrong_even_where_their_filling_is_right() -> None:
    native = torch.tensor([-1, 5])
    expected = Expected(native=native, wide=None, longest_sum=1)
    comparison = compare(expected, native.clone(), torch.tensor([True, False]))
    assert not comparison.right
    assert "left unwritten" in comparison.explanation
