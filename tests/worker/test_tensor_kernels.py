"""Kernels over tensors: what they return, share, refuse; Python stands in for C++, which the worker cannot tell."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kernel_lsp.domain import Crashed, Mismatch, Passed, Problem, Rejected, Verdict
from kernel_lsp.evaluate import Worker
from kernel_lsp.messages import Effort
from kernel_lsp.settings import Settings
from tests.worker.kernels import judge, python_kernel, reference, running

pytestmark = [pytest.mark.torch, pytest.mark.asyncio(loop_scope="module")]

GELU = """
import torch
ROWS, COLS = 40, 96
def reference(x):
    return torch.nn.functional.gelu(x)
def inputs():
    return (torch.randn(ROWS, COLS),)
"""
SIGNATURE = "torch::Tensor forward(torch::Tensor x)"
HONEST = "def forward(x):\n    return torch.nn.functional.gelu(x)"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def worker() -> AsyncIterator[Worker]:
    async with running(Settings(timeout_s=20.0)) as started:
        yield started


async def verdict(
    worker: Worker, folder: Path, code: str, text: str = GELU, signature: str = SIGNATURE
) -> Verdict | Problem:
    subject = python_kernel(folder, code, signature)
    verdicts, _ = await judge(worker, reference(folder, text), subject, Effort.FULL)
    assert len(verdicts) == 1
    return verdicts[0]


async def test_an_honest_kernel_passes_with_strides_too(worker: Worker, tmp_path: Path) -> None:
    passed = await verdict(worker, tmp_path, HONEST)
    assert isinstance(passed, Passed), passed
    assert "non-contiguous" in [result.workload.name for result in passed.results]


async def test_a_strided_input_read_as_contiguous_is_a_mismatch(worker: Worker, tmp_path: Path) -> None:
    code = "def forward(x):\n    return torch.nn.functional.gelu(x.as_strided(x.shape, (x.shape[1], 1)))"
    wrong = await verdict(worker, tmp_path, code)
    assert isinstance(wrong, Mismatch), wrong
    assert wrong.workload.name == "non-contiguous"


async def test_a_clear_refusal_of_strides_or_odd_sizes_is_a_note(worker: Worker, tmp_path: Path) -> None:
    code = """def forward(x):
    if not x.is_contiguous(): raise RuntimeError("x must be contiguous")
    if x.shape[1] % 32: raise RuntimeError("columns must be a multiple of 32")
    return torch.nn.functional.gelu(x)"""
    passed = await verdict(worker, tmp_path, code)
    assert isinstance(passed, Passed), passed
    assert "the kernel refuses non-contiguous: RuntimeError: x must be contiguous" in passed.notes
    assert any("RuntimeError: columns must be a multiple of 32" in note for note in passed.notes)


async def test_a_refusal_of_the_given_shape_is_a_crash(worker: Worker, tmp_path: Path) -> None:
    crashed = await verdict(
        worker, tmp_path, "def forward(x):\n    raise RuntimeError('not today\\nException raised from f')"
    )
    assert isinstance(crashed, Crashed)
    assert crashed.what == "raised RuntimeError: not today"


@pytest.mark.parametrize("way", ["x", "x.view(-1).view_as(x)"])
async def test_the_input_as_output_is_rejected(worker: Worker, tmp_path: Path, way: str) -> None:
    text = GELU.replace("torch.nn.functional.gelu(x)", "x.clone()")
    rejected = await verdict(worker, tmp_path, f"def forward(x):\n    return {way}", text)
    assert isinstance(rejected, Rejected), rejected
    assert rejected.rule == "aliased-output"
    assert "the memory of `x`" in rejected.evidence


async def test_a_view_is_right_where_the_reference_gives_one(worker: Worker, tmp_path: Path) -> None:
    text = GELU.replace("torch.nn.functional.gelu(x)", "x.t()")
    assert isinstance(await verdict(worker, tmp_path, "def forward(x):\n    return x.t()", text), Passed)


async def test_the_same_memory_twice_is_rejected(worker: Worker, tmp_path: Path) -> None:
    code = """kept = {}
def forward(x):
    out = kept.setdefault(x.shape, torch.empty(x.shape))
    return out.copy_(torch.nn.functional.gelu(x))"""
    rejected = await verdict(worker, tmp_path, code)
    assert isinstance(rejected, Rejected), rejected
    assert "the call before" in rejected.evidence


async def test_stale_memory_is_not_there_to_be_returned(worker: Worker, tmp_path: Path) -> None:
    code = """def forward(x):
    t = torch.nn.functional.gelu(x) if not hasattr(forward, 'n') else None
    forward.n = 1
    del t
    return torch.empty_like(x)"""
    assert isinstance(await verdict(worker, tmp_path, code), Mismatch)


SHAPES = {
    "shape": ("return torch.nn.functional.gelu(x).t().contiguous()", "shape (96, 40) instead of (40, 96)"),
    "type": ("return torch.nn.functional.gelu(x).double()", "float64 instead of float32"),
    "number of results": ("return x + 1, x + 2", "2 results instead of 1"),
    "nothing": ("return None", "no result instead of 1"),
    "flat": ("return torch.nn.functional.gelu(x).flatten()", "shape (3840,) instead of (40, 96)"),
}


@pytest.mark.parametrize("case", SHAPES)
async def test_a_wrong_structure_is_a_mismatch(worker: Worker, tmp_path: Path, case: str) -> None:
    line, words = SHAPES[case]
    wrong = await verdict(worker, tmp_path, f"def forward(x):\n    {line}")
    assert isinstance(wrong, Mismatch), wrong
    assert wrong.explanation == words
    assert wrong.worst is None


STRUCTURES = {
    "tuple": ("x, x + 1", "[x.clone(), x + 1]"),
    "dict": ("{'a': x + 1, 'b': x.sum()}", "{'a': x + 1, 'b': x.sum()}"),
    "dict to tuple": ("{'a': x + 1, 'b': x * 2}", "x + 1, x * 2"),
    "number": ("float(x.sum())", "x.sum().item()"),
    "0-d": ("x.mean()", "x.mean()"),
    "0-d to number": ("x.mean()", "float(x.mean())"),
    "empty": ("x[:0]", "torch.empty(0, x.shape[1])"),
    "view of its own": ("(x + 1)[:, ::2]", "(x + 1)[:, ::2]"),
    "bool": ("x > 0", "x > 0"),
    "half": ("(x * 2).half()", "(x * 2).half()"),
    "bfloat16": ("torch.softmax(x.bfloat16(), 1)", "torch.softmax(x, 1).bfloat16()"),
    "complex": ("torch.fft.fft(x)", "torch.fft.fft(x.double()).to(torch.complex64)"),
    "index": ("x.argmax(1)", "x.argmax(1)"),
    "sorted": ("torch.sort(x, 1)", "torch.sort(x, 1)"),
    "nested": ("(x + 1, [x * 2, x * 3])", "(x + 1, x * 2, x * 3)"),
}


@pytest.mark.parametrize("case", STRUCTURES)
async def test_every_structure_of_result_can_pass(worker: Worker, tmp_path: Path, case: str) -> None:
    theirs, ours = STRUCTURES[case]
    text = GELU.replace("torch.nn.functional.gelu(x)", theirs)
    if "(x, x" in f"({theirs}":
        text = text.replace("return x,", "return x.clone(),")
    passed = await verdict(worker, tmp_path, f"def forward(x):\n    return {ours}", text)
    assert isinstance(passed, Passed), passed


async def test_the_second_output_is_named(worker: Worker, tmp_path: Path) -> None:
    text = GELU.replace("torch.nn.functional.gelu(x)", "{'gelu': x + 1, 'loss': x.sum()}")
    wrong = await verdict(worker, tmp_path, "def forward(x):\n    return x + 1, x.sum() * 2", text)
    assert isinstance(wrong, Mismatch)
    assert wrong.output == 'output["loss"]'


async def test_a_seed_in_the_file_gives_no_known_inputs(worker: Worker, tmp_path: Path) -> None:
    text = GELU.replace("return (torch.randn", "torch.manual_seed(0)\n    return (torch.randn")
    code = """torch.manual_seed(0)
answer = torch.nn.functional.gelu(torch.randn(40, 96))
def forward(x):
    return answer.clone() if x.shape == answer.shape else torch.nn.functional.gelu(x)"""
    assert isinstance(await verdict(worker, tmp_path, code, text), Mismatch)


async def test_state_is_equal_on_both_sides_and_named(worker: Worker, tmp_path: Path) -> None:
    text = """
import torch
BATCH = 16
class Model(torch.nn.Module):
    def __init__(self, features, eps):
        super().__init__()
        self.norm = torch.nn.LayerNorm(features, eps=eps)
        torch.nn.init.normal_(self.norm.weight)
        self.scale = 2.0
    def forward(self, x):
        return self.norm(x) * self.scale
def get_inputs():
    return [torch.rand(BATCH, 50)]
def get_init_inputs():
    return [50, 1e-3]
"""
    code = """def forward(x, norm_weight, norm_bias, scale, eps):
    return torch.nn.functional.layer_norm(x, (x.shape[1],), norm_weight, norm_bias, eps) * scale"""
    signature = (
        "torch::Tensor forward(torch::Tensor x, torch::Tensor norm_weight, torch::Tensor norm_bias, "
        "double scale, double eps)"
    )
    passed = await verdict(worker, tmp_path, code, text, signature)
    assert isinstance(passed, Passed), passed
    assert [b.source for b in passed.binding][1:] == [
        "model.norm_weight",
        "model.norm_bias",
        "model.scale",
        "model.eps",
    ]
    # 50 stands in two functions; both are varied together.
    assert any("50→" in result.workload.name for result in passed.results)


async def test_further_workloads_of_the_file_are_judged(worker: Worker, tmp_path: Path) -> None:
    text = GELU + "\ndef workloads():\n    return [(torch.randn(3, 7, 5),), {'x': torch.randn(2)}]\n"
    passed = await verdict(worker, tmp_path, HONEST, text)
    assert isinstance(passed, Passed), passed
    shapes = {r.workload.name: r.workload.inputs[0].shape for r in passed.results}
    assert shapes["workloads()[0]"] == (3, 7, 5)
    assert shapes["workloads()[1]"] == (2,)


async def test_an_in_place_kernel_may_return_what_it_changed(worker: Worker, tmp_path: Path) -> None:
    text = GELU.replace("torch.nn.functional.gelu(x)", "x.relu_()")
    assert isinstance(await verdict(worker, tmp_path, "def forward(x):\n    return x.relu_()", text), Passed)
    passed = await verdict(worker, tmp_path, "def forward(x):\n    return x.relu()", text)
    assert isinstance(passed, Passed)
    assert "the reference changes `x`; the kernel leaves it" in passed.notes


async def test_labels_stay_labels(worker: Worker, tmp_path: Path) -> None:
    text = """
import torch
N = 64
def reference(scores, labels):
    return torch.nn.functional.cross_entropy(scores, labels)
def inputs():
    return torch.randn(N, 10), torch.randint(0, 10, (N,))
"""
    code = "def loss(scores, labels):\n    assert labels.dtype == torch.int64\n"
    code += "    return -scores.log_softmax(1).gather(1, labels[:, None]).mean()"
    signature = "torch::Tensor loss(torch::Tensor scores, torch::Tensor labels)"
    passed = await verdict(worker, tmp_path, code, text, signature)
    assert isinstance(passed, Passed), passed
