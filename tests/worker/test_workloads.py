"""What the judge makes of a reference file: sizes, distributions, seeds; and how tensors are handed over."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from kernel_lsp.messages import Effort  # noqa: E402
from kernel_lsp.worker import reference as ref  # noqa: E402
from kernel_lsp.worker import workloads  # noqa: E402
from kernel_lsp.worker.exchange import StoredTensor  # noqa: E402
from kernel_lsp.worker.sums import LongestSum  # noqa: E402
from kernel_lsp.worker.tensors import (  # noqa: E402
    NAN_BYTE,
    PAGE,
    BadTensor,
    describe,
    elements,
    map_guarded,
    read_file,
    revive,
    store,
    unmap,
)
from kernel_lsp.worker.workloads import Distribution, Variant  # noqa: E402

pytestmark = pytest.mark.torch

FILE = """
import torch
ROWS = 64
COLS: int = 96
WINDOW = 7
def reference(x, w, p, labels):
    return torch.nn.functional.avg_pool1d(x, WINDOW) if WINDOW else x
def inputs():
    p = torch.softmax(torch.randn(ROWS, 10), 1)
    return torch.randn(ROWS, COLS), torch.rand(COLS), p, torch.randint(0, 9, (ROWS,))
"""


def opened(folder: Path, text: str = FILE) -> tuple[ref.Source, ref.Instance]:
    path = folder / "reference.py"
    path.write_text(text)
    source = ref.read(path)
    return source, ref.instantiate(ref.run(source), 1)


def test_only_what_shapes_the_inputs_is_a_size(tmp_path: Path) -> None:
    source, instance = opened(tmp_path)
    found, inputs = workloads.survey(source, instance, 1)
    # 10 is a literal in `inputs`; 9 shapes nothing; WINDOW is the operation's own.
    assert found.sizes == {"ROWS": 64, "COLS": 96, "10": 10}
    assert found.elements == workloads.element_count(inputs)
    assert found.signed


def test_resized_files_give_resized_inputs(tmp_path: Path) -> None:
    source, _ = opened(tmp_path)
    instance = ref.instantiate(ref.run(source, {"ROWS": 3, "COLS": 5, "10": 2}), 1)
    shapes = [tuple(t.shape) for t in ref.make_inputs(instance, 1)]
    assert shapes == [(3, 5), (5,), (3, 2), (3,)]
    # The file as given is untouched.
    assert ref.make_inputs(opened(tmp_path)[1], 1)[0].shape == (64, 96)


@pytest.mark.parametrize("distribution", Distribution)
def test_distributions_respect_what_the_file_derives(tmp_path: Path, distribution: Distribution) -> None:
    source, instance = opened(tmp_path)
    found, _ = workloads.survey(source, instance, 1)
    x, w, p, labels = workloads.make(instance, Variant(name="", seed=2, distribution=distribution), found.plain)
    assert torch.allclose(p.sum(1), torch.ones(64))
    assert labels.dtype == torch.int64
    assert 0 <= int(labels.min()) <= int(labels.max()) < 9
    match distribution:
        case Distribution.MIXED:
            assert bool((w < 0).any())
            assert bool((w > 0).any())
        case Distribution.LARGE:
            assert float(x.abs().max()) > 1000
            assert float(w.abs().max()) > 500
        case Distribution.REPEATS:
            assert bool((x == 0).any())
            assert len(x.unique()) < 40
            assert float(w.max()) < 1
        case Distribution.SMALL:
            assert float(x.abs().max()) < 0.01
        case Distribution.GIVEN:
            assert torch.equal(x, workloads.make(instance, Variant(name="", seed=2), ())[0])


@pytest.mark.parametrize("effort", Effort)
def test_every_effort_has_two_given_seeds_and_another_size(tmp_path: Path, effort: Effort) -> None:
    source, instance = opened(tmp_path)
    found, _ = workloads.survey(source, instance, 1)
    variants = list(workloads.plan(found, effort, itertools.count(), tensors=True, extra=1))
    assert sum(v.required and v.extra is None for v in variants) == 2
    assert sum(v.extra == 0 for v in variants) == 1
    assert len({v.seed for v in variants}) == len(variants)
    assert variants[0].repeats
    sizes = [v.sizes for v in variants if v.sizes]
    assert all(value % 2 for value in sizes[0].values())
    if effort is not Effort.QUICK:
        assert {v.distribution for v in variants} == set(Distribution)
        assert any(1 in s.values() for s in sizes)
        assert any(s.get("COLS") == 97 for s in sizes)


@given(value=st.integers(5, 10**7), times=st.integers(0, 30))
def test_shrinking_ends_and_keeps_powers_of_two(value: int, times: int) -> None:
    shrunk = workloads.shrunk({"n": value}, times)["n"]
    assert min(value, 8) <= shrunk <= value
    if value & (value - 1) == 0:
        assert shrunk & (shrunk - 1) == 0


SUMS = {
    "elementwise": (lambda x: x.exp() + 1, 1),
    "sum": (lambda x: x.sum(1), 40),
    "all": (lambda x: x.mean(), 1200),
    "softmax": (lambda x: torch.softmax(x, 0), 30),
    "product": (lambda x: x.t() @ x, 30),
    "layer norm": (lambda x: torch.nn.functional.layer_norm(x, (40,)), 40),
    "linear": (lambda x: torch.nn.functional.linear(x, torch.ones(2, 40), torch.ones(2)), 40),
    "convolution": (lambda x: torch.nn.functional.conv1d(x[None], torch.ones(2, 30, 5)), 150),
    "maximum": (lambda x: x.amax(1), 1),
    "narrow": (lambda x: x[:, :1], 1),
}


@pytest.mark.parametrize("case", SUMS)
def test_the_longest_sum_is_seen(case: str) -> None:
    function, terms = SUMS[case]
    with LongestSum() as sums, torch.no_grad():
        function(torch.randn(30, 40))
    assert sums.terms == terms


tensors = st.builds(
    lambda dtype, shape, step: torch.zeros(*shape[:-1], shape[-1] * step, dtype=dtype)[..., ::step].fill_(1),
    st.sampled_from((torch.float32, torch.float64, torch.float16, torch.int64, torch.uint8, torch.bool)),
    st.lists(st.integers(0, 40), min_size=1, max_size=3),
    st.integers(1, 3),
)


@given(tensor=tensors)
@settings(max_examples=60, deadline=None)
def test_a_tensor_comes_back_from_its_file(tensor: torch.Tensor, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("tensors")
    stored = store(tensor, folder, "t.bin")
    content = read_file(stored, folder)
    assert content.numel() % PAGE == 0
    assert torch.equal(elements(stored, content), tensor)
    assert bool((content[: stored.offset] == NAN_BYTE).all())
    mapped = map_guarded(stored, folder)
    assert torch.equal(mapped, tensor)
    assert mapped.stride() == tensor.stride() or not tensor.numel()
    if tensor.numel():
        assert mapped.data_ptr() % 64 == 0
        mapped.zero_()
        assert not bool(elements(stored, read_file(stored, folder)).any())
    unmap(stored, mapped)


FALSE = {
    "another folder": {"file": "../t.bin"},
    "no file": {"file": "other.bin"},
    "longer": {"shape": (1000,), "span": 4000},
    "span": {"span": 1},
    "negative": {"shape": (-4,)},
    "offset": {"offset": 10**9},
    "type": {"dtype": "object"},
    "strides": {"strides": (1, 1)},
}


@pytest.mark.parametrize("case", FALSE)
def test_a_false_description_is_refused(tmp_path: Path, case: str) -> None:
    stored = store(torch.ones(4), tmp_path, "t.bin")
    fields = {name: getattr(stored, name) for name in StoredTensor.__slots__}
    with pytest.raises(BadTensor):
        read_file(StoredTensor(**{**fields, **FALSE[case]}), tmp_path)


def test_values_of_any_structure_come_back(tmp_path: Path) -> None:
    names = itertools.count()
    value = {"a": [1, 2.5, None, True, "x", float("inf")], "b": (torch.arange(3), [])}

    def keep(tensor: torch.Tensor) -> StoredTensor:
        return store(tensor, tmp_path, f"{next(names)}.bin")

    revived = revive(describe(value, keep), lambda stored: elements(stored, read_file(stored, tmp_path)))
    assert repr(revived) == repr(value)
