"""What a GPU can do at best, by torch's own operators. Runs in a child."""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch

from kernel_lsp.domain import Ceilings

REPETITIONS = 15
WARM = 3

COPIED_BYTES = 2**30
"""Twenty times the largest second-level cache there is; less where the GPU has not the memory."""

MATRIX = {torch.float32: 8192, torch.float64: 4096}
"""Rows and columns of the matrices multiplied: large enough that a further doubling gains less than a percent."""


def measure() -> Ceilings:
    """Two seconds at most. Each ceiling is the best of its repetitions, as for the CPU (`profile.ceilings`)."""
    copy, fp32, fp64 = _copy_gbs(), _product_gflops(torch.float32), _product_gflops(torch.float64)
    return Ceilings(
        device=torch.cuda.get_device_name(0),
        threads=0,
        dram_gbs=max(copy),
        fp32_gflops=max(fp32),
        fp64_gflops=max(fp64),
        spread=max(spread(rates) for rates in (copy, fp32, fp64)),
        measured_at=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    )


def spread(rates: Sequence[float]) -> float:
    """Interquartile range over the median."""
    first, _, third = statistics.quantiles(rates, n=4)
    return (third - first) / statistics.median(rates)


def _copy_gbs() -> list[float]:
    free, _ = torch.cuda.mem_get_info()
    size = min(COPIED_BYTES, free // 4) // 4
    source = torch.zeros(size, dtype=torch.float32, device="cuda")
    target = torch.empty_like(source)
    moved = 2 * source.numel() * source.element_size()
    return [moved / (ms * 1e6) for ms in _milliseconds(lambda: target.copy_(source))]


def _product_gflops(dtype: torch.dtype) -> list[float]:
    n = MATRIX[dtype]
    a, b = (torch.randn(n, n, dtype=dtype, device="cuda") for _ in range(2))
    out = torch.empty_like(a)
    return [2 * n**3 / (ms * 1e6) for ms in _milliseconds(lambda: torch.mm(a, b, out=out))]


def _milliseconds(work: Callable[[], Any]) -> list[float]:
    taken = []
    for number in range(WARM + REPETITIONS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        end.synchronize()
        if number >= WARM:
            taken.append(float(start.elapsed_time(end)))
    return taken
