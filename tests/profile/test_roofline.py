from __future__ import annotations

import pytest

from kernel_lsp.domain import Ceilings, Samples, TensorShape, Timing, Workload
from kernel_lsp.profile.roofline import roofline

CEILINGS = Ceilings(
    device="cpu", threads=2, dram_gbs=20.0, fp32_gflops=200.0, fp64_gflops=100.0, spread=0.01, measured_at=""
)


def timing(us: float, *, dtype: str = "float32", subject: str = "kernel") -> Timing:
    return Timing(
        workload=Workload(name="as given", inputs=(TensorShape(dtype=dtype, shape=(8,)),), seed=1),
        samples=(Samples(subject=subject, us=(us, us, us)),),
        threads=2,
        cold_cache=True,
    )


def test_shares_of_the_limits() -> None:
    # 20 kB at 20 GB/s take 1 us, 400,000 operations at 200 GFLOP/s take 2 us; the kernel took 10.
    found = roofline(timing(10.0), 20_000, 400_000, CEILINGS)
    assert found is not None
    assert found.memory_share == pytest.approx(0.1)
    assert found.compute_share == pytest.approx(0.2)
    assert (found.limit, found.share) == ("compute", pytest.approx(0.2))


def test_double_precision_has_a_lower_peak() -> None:
    found = roofline(timing(10.0, dtype="float64"), 20_000, 400_000, CEILINGS)
    assert found is not None
    assert found.compute_share == pytest.approx(0.4)


def test_unknown_operations_stay_unknown() -> None:
    found = roofline(timing(10.0), 20_000, None, CEILINGS)
    assert found is not None
    assert found.compute_share is None
    assert found.limit == "memory"


def test_a_working_set_in_cache_may_beat_the_memory() -> None:
    found = roofline(timing(0.5), 20_000, None, CEILINGS)
    assert found is not None
    assert found.share == pytest.approx(2.0)


def test_without_the_kernels_time_there_is_no_position() -> None:
    assert roofline(timing(10.0, subject="eager"), 20_000, None, CEILINGS) is None
    assert roofline(timing(0.0), 20_000, None, CEILINGS) is None
