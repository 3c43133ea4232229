"""Arithmetic that follows from measured data."""

from __future__ import annotations

import math
import random
import statistics

from hypothesis import given
from hypothesis import strategies as st

from kernel_lsp.domain import Samples, Timing, Workload, median_interval

positive = st.floats(min_value=1e-3, max_value=1e6)
WORKLOAD = Workload(name="as given", inputs=(), seed=1)


def timing(**samples: list[float]) -> Timing:
    subjects = tuple(Samples(subject=name, us=tuple(us)) for name, us in samples.items())
    return Timing(workload=WORKLOAD, samples=subjects, threads=2, cold_cache=True)


@given(st.lists(positive, min_size=1, max_size=60))
def test_the_interval_holds_the_median_and_lies_in_the_data(values: list[float]) -> None:
    interval = median_interval(values)
    assert min(values) <= interval.low <= interval.mid <= interval.high <= max(values)
    assert math.isclose(interval.mid, statistics.median(values))


def test_the_interval_covers_the_true_median_as_often_as_it_says() -> None:
    rng = random.Random(20261201)
    trials = 2000
    hits = 0
    for _ in range(trials):
        interval = median_interval([rng.lognormvariate(0.0, 0.5) for _ in range(25)])
        hits += interval.low <= 1.0 <= interval.high
    assert hits / trials >= 0.95


@given(st.lists(positive, min_size=7, max_size=40))
def test_a_kernel_is_not_faster_than_itself(us: list[float]) -> None:
    speedup = timing(kernel=us, parent=us).speedup("parent")
    assert speedup is not None
    assert speedup.low == speedup.mid == speedup.high == 1.0


def test_speedup_is_paired_by_round() -> None:
    # Both sides drift by a factor of ten during the run; pairing by round cancels it.
    drift = [1.0 + 0.3 * i for i in range(30)]
    speedup = timing(kernel=[10 * d for d in drift], eager=[20 * d for d in drift]).speedup("eager")
    assert speedup is not None
    assert math.isclose(speedup.low, 2.0) and math.isclose(speedup.high, 2.0)


def test_what_was_not_timed_has_no_speedup() -> None:
    assert timing(kernel=[1.0]).speedup("eager") is None
