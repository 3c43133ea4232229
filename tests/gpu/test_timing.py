"""Times on a real GPU: plausible, all baselines there, and no work that is not paid for."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kernel_lsp.domain import Ceilings, Mismatch, Passed
from kernel_lsp.evaluate import Worker
from kernel_lsp.messages import Effort, TimingPlan
from kernel_lsp.settings import Settings
from tests.gpu.conftest import SEEN
from tests.gpu.kernels import build, launcher, look, standin
from tests.gpu.test_verdicts import ADD, MATMUL, PRODUCT, SUM
from tests.worker.kernels import running

pytestmark = pytest.mark.asyncio(loop_scope="module")

PLAN = TimingPlan(rounds=25, budget_s=5.0, cold_cache=True, eager=True, compiled=False)
LARGE = ADD.replace("100_000", "2**26")
LARGE_BYTES = 3 * 4 * 2**26


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def worker() -> AsyncIterator[Worker]:
    async with running(Settings(timeout_s=60.0)) as started:
        yield started


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("library"))


async def test_the_gpus_ceilings_are_measured(worker: Worker) -> None:
    began = time.monotonic()
    ceilings = await worker.ceilings()
    SEEN.append(f"{time.monotonic() - began:6.2f} s  {ceilings}")
    assert isinstance(ceilings, Ceilings), ceilings
    assert ceilings.device == worker.hello.cuda
    assert 50 < ceilings.dram_gbs < 20_000
    assert 500 < ceilings.fp32_gflops < 500_000


@pytest.mark.parametrize("cold", [True, False])
async def test_a_kernel_bound_by_memory_takes_what_its_bytes_take(
    worker: Worker, library: Path, tmp_path: Path, cold: bool
) -> None:
    plan = TimingPlan(rounds=25, budget_s=5.0, cold_cache=cold, eager=True, compiled=False)
    verdict, (taken,) = await look(worker, tmp_path, launcher(library, "right"), LARGE, timing=plan)
    assert isinstance(verdict, Passed), verdict
    kernel, eager = taken.timing.of("kernel"), taken.timing.of("eager")
    assert kernel is not None
    assert eager is not None
    assert taken.compulsory_bytes == LARGE_BYTES
    ceilings = await worker.ceilings()
    assert isinstance(ceilings, Ceilings)
    share = LARGE_BYTES / (kernel.median_us * 1e3) / ceilings.dram_gbs
    SEEN.append(f"          {share:.2f} of the copy bandwidth")
    assert 0.5 < share < 1.15
    assert 0.6 < kernel.median_us / eager.median_us < 1.6
    assert not taken.timing.notes


async def test_a_short_kernel_is_timed_without_the_hosts_part(worker: Worker, library: Path, tmp_path: Path) -> None:
    verdict, (taken,) = await look(worker, tmp_path, launcher(library, "right"), ADD, timing=PLAN)
    assert isinstance(verdict, Passed), verdict
    kernel = taken.timing.of("kernel")
    assert kernel is not None
    assert 0.5 < kernel.median_us < 15
    assert not taken.timing.notes


async def test_torch_compile_is_a_baseline_and_leaves_the_parent_fit(
    worker: Worker, library: Path, tmp_path: Path
) -> None:
    plan = TimingPlan(rounds=25, budget_s=5.0, cold_cache=True, eager=True, compiled=True)
    verdict, (taken,) = await look(worker, tmp_path, launcher(library, "right"), LARGE, timing=plan)
    assert isinstance(verdict, Passed), verdict
    assert {samples.subject for samples in taken.timing.samples} == {"kernel", "eager", "compiled"}
    again, _ = await look(worker, tmp_path, launcher(library, "right"), ADD)
    assert isinstance(again, Passed), again


async def test_parent_and_kernel_are_timed_side_by_side(worker: Worker, library: Path, tmp_path: Path) -> None:
    parent = dataclasses.replace(launcher(library, "right"), name="parent")
    verdict, (taken,) = await look(worker, tmp_path, launcher(library, "right"), LARGE, timing=PLAN, others=(parent,))
    assert isinstance(verdict, Passed), verdict
    speedup = taken.timing.speedup("parent")
    assert speedup is not None
    SEEN.append(f"          the same kernel beside itself: {speedup}")
    assert 0.85 < speedup.mid < 1.15


SIDE = """
side = torch.cuda.Stream()
def matmul(a, b):
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        return a @ b
"""
SIDE_AND_WAIT = SIDE.replace("return a @ b", "out = a @ b").rstrip() + "\n    side.synchronize()\n    return out\n"
THREAD = """
import threading
side = torch.cuda.Stream()
def matmul(a, b):
    out = torch.empty_like(a)
    def work():
        with torch.cuda.stream(side):
            torch.mm(a, b, out=out)
    side.wait_stream(torch.cuda.current_stream())
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return out
"""


@pytest.mark.parametrize(("name", "code"), [("side", SIDE), ("waits itself", SIDE_AND_WAIT), ("thread", THREAD)])
async def test_work_on_a_side_stream_is_not_free(worker: Worker, tmp_path: Path, name: str, code: str) -> None:
    text = PRODUCT.replace("256", "2048")
    verdict, timings = await look(worker, tmp_path, standin(tmp_path, code, MATMUL), text, timing=PLAN)
    if isinstance(verdict, Passed):
        kernel, eager = timings[0].timing.of("kernel"), timings[0].timing.of("eager")
        assert kernel is not None
        assert eager is not None
        assert kernel.median_us > 0.8 * eager.median_us
        assert name != "side" or any(note.startswith("kernel:") for note in timings[0].timing.notes)


async def test_an_answer_kept_from_the_judged_calls_is_found_in_timed_ones(worker: Worker, tmp_path: Path) -> None:
    code = """
calls = 0
def add(x, y):
    global calls
    calls += 1
    return x + y if calls < 14 else torch.zeros_like(x)
"""
    verdict, _ = await look(worker, tmp_path, standin(tmp_path, code, SUM), ADD, Effort.QUICK, timing=PLAN)
    assert isinstance(verdict, Mismatch), verdict


async def test_a_kernel_in_place_is_timed_on_restored_arguments(worker: Worker, library: Path, tmp_path: Path) -> None:
    text = LARGE.replace("def reference(x, y):\n    return x + y", "def reference(x):\n    x.mul_(2).add_(1)")
    text = text.replace("return torch.randn(N), torch.randn(N)", "return (torch.randn(N),)")
    verdict, (taken,) = await look(worker, tmp_path, launcher(library, "in_place"), text, timing=PLAN)
    assert isinstance(verdict, Passed), verdict
    kernel = taken.timing.of("kernel")
    assert kernel is not None
    assert kernel.median_us > 50
