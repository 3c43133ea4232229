"""Every end that a CUDA kernel can come to, on a real GPU, and honest kernels that must pass."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kernel_lsp.domain import Crashed, Mismatch, Passed, Problem, Rejected, TimedOut
from kernel_lsp.evaluate import Worker
from kernel_lsp.messages import Effort
from kernel_lsp.settings import Settings
from tests.gpu.conftest import SEEN
from tests.gpu.kernels import build, launcher, look, standin
from tests.worker import kernels as on_cpu
from tests.worker.kernels import running

pytestmark = pytest.mark.asyncio(loop_scope="module")

ADD = """
import torch
N = 100_000
def reference(x, y):
    return x + y
def inputs():
    return torch.randn(N), torch.randn(N)
"""
ROWS = """
import torch
ROWS = 64
COLUMNS = 5000
def reference(x):
    return x.sum(dim=1)
def inputs():
    return (torch.randn(ROWS, COLUMNS),)
"""
PRODUCT = """
import torch
N = 256
def reference(a, b):
    return a @ b
def inputs():
    return torch.randn(N, N), torch.randn(N, N)
"""


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def worker() -> AsyncIterator[Worker]:
    began = time.monotonic()
    async with running(Settings(timeout_s=60.0)) as started:
        SEEN.append(f"worker started in {time.monotonic() - began:.1f} s: {started.hello}")
        yield started


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("library"))


@pytest.mark.parametrize("effort", Effort)
async def test_a_right_launcher_passes(worker: Worker, library: Path, tmp_path: Path, effort: Effort) -> None:
    verdict, _ = await look(worker, tmp_path, launcher(library, "right"), ADD, effort)
    assert isinstance(verdict, Passed), verdict
    assert [b.source for b in verdict.binding] == ["input x", "input y", "output 0", "constant N"]


async def test_a_launcher_that_is_given_the_stream_passes(worker: Worker, library: Path, tmp_path: Path) -> None:
    verdict, _ = await look(worker, tmp_path, launcher(library, "on_stream"), ADD, Effort.FULL)
    assert isinstance(verdict, Passed), verdict
    assert verdict.binding[-1].source == "the current stream"


MISMATCHES = {
    "doubled": (ADD, "each 2 times the right value"),
    "one_short": (ADD, "left unwritten"),
    "racing": (ROWS, ""),
}


@pytest.mark.parametrize("name", MISMATCHES)
async def test_a_wrong_value_is_a_mismatch(worker: Worker, library: Path, tmp_path: Path, name: str) -> None:
    text, words = MISMATCHES[name]
    verdict, _ = await look(worker, tmp_path, launcher(library, name), text, Effort.FULL)
    assert isinstance(verdict, Mismatch), verdict
    assert words in verdict.explanation


async def test_a_missing_barrier_is_seen_or_said_to_be_unseen(worker: Worker, library: Path, tmp_path: Path) -> None:
    """Whether this race shows in values is the hardware's choice; racecheck is what finds it. Here for the record."""
    verdict, _ = await look(worker, tmp_path, launcher(library, "no_barrier"), ROWS, Effort.FULL)
    assert isinstance(verdict, (Mismatch, Passed)), verdict
    right, _ = await look(worker, tmp_path, launcher(library, "row_sum"), ROWS, Effort.FULL)
    assert isinstance(right, Passed), right


REJECTED = {
    "one_past": ("out-of-bounds-write", "past the end of `out`, 1 bytes out"),
    "one_before": ("out-of-bounds-write", "before the start of `out`"),
    "no_guard": ("out-of-bounds-write", "past the end of `out`"),
    "changes_input": ("changed-inputs", "`y`"),
    "on_legacy": ("other-stream", "getCurrentCUDAStream"),
}


@pytest.mark.parametrize("name", REJECTED)
async def test_misconduct_is_rejected(worker: Worker, library: Path, tmp_path: Path, name: str) -> None:
    rule, words = REJECTED[name]
    verdict, _ = await look(worker, tmp_path, launcher(library, name), ADD)
    assert isinstance(verdict, Rejected), verdict
    assert verdict.rule == rule
    assert words in verdict.evidence


CRASHES = {
    "illegal": "illegal memory access",
    "bad_launch": "invalid configuration argument",
    "half_bad": "invalid configuration argument",
}


@pytest.mark.parametrize("name", CRASHES)
async def test_a_cuda_error_is_a_crash_and_harms_nobody(
    worker: Worker, library: Path, tmp_path: Path, name: str
) -> None:
    verdict, _ = await look(worker, tmp_path, launcher(library, name), ADD)
    assert isinstance(verdict, Crashed), verdict
    assert CRASHES[name] in verdict.what
    assert verdict.workload is not None
    after, _ = await look(worker, tmp_path, launcher(library, "right"), ADD)
    assert isinstance(after, Passed), after


async def test_a_failed_launch_shows_even_where_its_runtime_is_hidden(worker: Worker, tmp_path: Path) -> None:
    static = build(tmp_path, "static")
    verdict, _ = await look(worker, tmp_path, launcher(static, "bad_launch"), ADD)
    assert isinstance(verdict, (Mismatch, Crashed)), verdict


async def test_a_kernel_that_never_ends_times_out(library: Path, tmp_path: Path) -> None:
    async with running(Settings(timeout_s=8.0)) as patient:
        verdict, _ = await look(patient, tmp_path, launcher(library, "hang"), ADD)
        assert isinstance(verdict, TimedOut), verdict
        after, _ = await look(patient, tmp_path, launcher(library, "right"), ADD)
        assert isinstance(after, Passed), after


async def test_a_kernel_may_work_in_place_where_the_reference_does(
    worker: Worker, library: Path, tmp_path: Path
) -> None:
    text = """
import torch
N = 100_000
def reference(x):
    x.mul_(2).add_(1)
def inputs():
    return (torch.randn(N),)
"""
    verdict, _ = await look(worker, tmp_path, launcher(library, "in_place"), text, Effort.FULL)
    assert isinstance(verdict, Passed), verdict


# --- functions over tensors ---------------------------------------------------------------------------------

SUM = "torch::Tensor add(torch::Tensor x, torch::Tensor y)"
MATMUL = "torch::Tensor matmul(torch::Tensor a, torch::Tensor b)"

HONEST = {
    "sum": (ADD, SUM, "def add(x, y): return x + y"),
    "product": (PRODUCT, MATMUL, "def matmul(a, b): return a @ b"),
    "inputs made on the GPU": (
        ADD.replace("randn(N)", 'randn(N, device="cuda")'),
        SUM,
        "def add(x, y): return x + y",
    ),
    "half": (
        ADD.replace("randn(N)", "randn(N, dtype=torch.float16)"),
        SUM,
        "def add(x, y): return (x.float() + y.float()).half()",
    ),
    "a reference that names no device": (
        ADD.replace("return x + y", "return x + y + torch.arange(len(x))"),
        SUM,
        "def add(x, y): return x + y + torch.arange(len(x), device=x.device)",
    ),
    "integers": (
        ADD.replace("return x + y", "return (x > y).int().cumsum(0)"),
        SUM,
        "def add(x, y): return torch.cumsum((x > y).int(), 0)",
    ),
    "a side stream that is waited for": (
        ADD,
        SUM,
        "side = torch.cuda.Stream()\n"
        "def add(x, y):\n"
        "    side.wait_stream(torch.cuda.current_stream())\n"
        "    with torch.cuda.stream(side):\n"
        "        out = x + y\n"
        "    torch.cuda.current_stream().wait_stream(side)\n"
        "    return out\n",
    ),
}


@pytest.mark.parametrize("name", HONEST)
async def test_an_honest_function_passes(worker: Worker, tmp_path: Path, name: str) -> None:
    text, signature, code = HONEST[name]
    verdict, _ = await look(worker, tmp_path, standin(tmp_path, code, signature), text, Effort.FULL)
    assert isinstance(verdict, Passed), verdict


async def test_a_models_state_is_handed_over(worker: Worker, tmp_path: Path) -> None:
    text = """
import torch
class Model(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = torch.nn.Linear(features, features)
    def forward(self, x):
        return torch.relu(self.linear(x))
FEATURES = 128
def get_init_inputs():
    return [FEATURES]
def get_inputs():
    return [torch.randn(32, FEATURES)]
"""
    code = "def layer(x, weight, bias): return torch.relu(torch.nn.functional.linear(x, weight, bias))"
    signature = "torch::Tensor layer(torch::Tensor x, torch::Tensor weight, torch::Tensor bias)"
    verdict, _ = await look(worker, tmp_path, standin(tmp_path, code, signature), text, Effort.FULL)
    assert isinstance(verdict, Passed), verdict


DISHONEST = {
    "uninitialised": (ADD, SUM, "def add(x, y): return torch.empty_like(x)", Mismatch, ""),
    "zeros": (ADD, SUM, "def add(x, y): return torch.zeros_like(x)", Mismatch, "each zero"),
    "no current stream": (
        ADD,
        SUM,
        "def add(x, y):\n    with torch.cuda.stream(torch.cuda.default_stream()):\n        return x + y\n",
        Rejected,
        "other-stream",
    ),
    "cached by pointer": (
        ADD,
        SUM,
        "known = {}\ndef add(x, y):\n    return known.setdefault(x.shape, x + y)\n",
        (Mismatch, Rejected),
        "",
    ),
    "tf32": (
        PRODUCT,
        MATMUL,
        "torch.backends.cuda.matmul.allow_tf32 = True\ndef matmul(a, b): return a @ b",
        Mismatch,
        "precision of half or TF32",
    ),
    "an alias of its input": (
        ADD.replace("return x + y", "return x * 1"),
        SUM,
        "def add(x, y): return x",
        Rejected,
        "aliased-output",
    ),
    "reads strided as contiguous": (
        ADD.replace("randn(N)", "randn(N // 10, 10)"),
        SUM,
        "def add(x, y): return x.as_strided(x.shape, (10, 1)) + y.as_strided(y.shape, (10, 1))",
        Mismatch,
        "",
    ),
    "raises": (ADD, SUM, "def add(x, y): raise RuntimeError('no')", Crashed, "raised RuntimeError: no"),
    "out of memory": (
        ADD,
        SUM,
        "def add(x, y): return torch.empty(2**42, device='cuda')",
        Crashed,
        "out of memory",
    ),
}


@pytest.mark.parametrize("name", DISHONEST)
async def test_a_dishonest_function_is_caught(worker: Worker, tmp_path: Path, name: str) -> None:
    text, signature, code, kind, words = DISHONEST[name]
    verdict, _ = await look(worker, tmp_path, standin(tmp_path, code, signature), text, Effort.FULL)
    assert isinstance(verdict, kind), verdict
    assert words in repr(verdict)


async def test_a_reference_beyond_the_gpus_memory_is_a_problem(worker: Worker, tmp_path: Path) -> None:
    text = ADD.replace("return x + y", "return x + y + torch.empty(2**42, dtype=torch.uint8).sum()")
    verdict, _ = await look(worker, tmp_path, standin(tmp_path, "def add(x, y): return x + y", SUM), text)
    assert isinstance(verdict, Problem), verdict
    assert verdict.code == "reference-memory"


async def test_cpu_kernels_are_judged_by_the_same_worker(worker: Worker, tmp_path: Path) -> None:
    code = """
void add(const float* x, const float* y, float* out, int n) {
    for (int i = 0; i < n; i++) out[i] = x[i] + y[i];
}
"""
    verdict, _ = await look(worker, tmp_path, on_cpu.build(tmp_path, code), ADD)
    assert isinstance(verdict, Passed), verdict


async def test_the_latency_of_a_warm_worker(worker: Worker, library: Path, tmp_path: Path) -> None:
    for effort in Effort:
        times = []
        for _ in range(3):
            began = time.monotonic()
            await look(worker, tmp_path, launcher(library, "right"), ADD, effort)
            times.append(time.monotonic() - began)
        SEEN.append(f"verdict latency, {effort.value}: {min(times):.2f}–{max(times):.2f} s")
        assert min(times) < 20
