"""Where a timed kernel stands against what the machine can do at best (Williams, Waterman, Patterson 2009). Pure."""

from __future__ import annotations

from kernel_lsp.domain import Ceilings, Roofline, Timing

SUBJECT = "kernel"


def roofline(timing: Timing, compulsory_bytes: int, flops: int | None, ceilings: Ceilings) -> Roofline | None:
    """The position of the `kernel` subject of `timing`; None where that was not timed, or took no time at all.

    Shares are of the kernel's median time. They are not clipped, and can exceed 1 for honest reasons: the bandwidth
    is DRAM's, so a working set that fits in cache and was timed warm beats it; the triad behind it also reads each
    line that it writes, which is not counted, so a kernel that mostly reads can gain up to a third on it; and the
    arithmetic is counted on the reference, which may do more than the kernel needs to.
    """
    samples = timing.of(SUBJECT)
    if samples is None or not samples.us or samples.median_us <= 0:
        return None
    time_us = samples.median_us
    return Roofline(
        compulsory_bytes=compulsory_bytes,
        flops=flops,
        time_us=time_us,
        memory_share=_microseconds(compulsory_bytes, ceilings.dram_gbs) / time_us,
        compute_share=None if flops is None else _microseconds(flops, peak_gflops(timing, ceilings)) / time_us,
    )


def peak_gflops(timing: Timing, ceilings: Ceilings) -> float:
    """The peak for the precision of the inputs: float64's where any of them is float64, else float32's."""
    double = any(tensor.dtype in ("float64", "complex128") for tensor in timing.workload.inputs)
    return ceilings.fp64_gflops if double else ceilings.fp32_gflops


def _microseconds(amount: float, giga_per_second: float) -> float:
    """Time for `amount` bytes or operations at a rate of 1e9 of them a second: 1e9/s is 1e3/us."""
    return amount / (giga_per_second * 1e3)
