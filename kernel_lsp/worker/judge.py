"""Is one output right? Pure functions over tensors; the tolerance comes from the reference itself.

**How much an element may err.** With u the unit roundoff of the output's type, u32 that of float32 (in which sums are
accumulated for narrower types too), y the reference in float64, L the longest sum the reference makes:

    E · (4 + √L / 8)  +  4 · √L · u_acc · (Y + |y_i|)  +  4 · u · |y_i|  +  the smallest normal number

- E is Torch's own error against float64 in this very output: what rounding costs an honest implementation of the same
  formula. It is the larger of the 90th percentile of all non-zero errors and the largest error among elements no larger
  than about four times this one, so an element next to a pole does not excuse all that are smaller.
- A plain sequential sum of L terms errs by about u·|S|·√(L/9) (standard deviation, for terms of one sign; random walk
  of round-to-nearest errors, Higham, "Accuracy and Stability of Numerical Algorithms", §4.2 and §2.8), where torch's
  blocked or pairwise sums err by a few u. 4·√L·u leaves such a sum twelve deviations, enough for the worst of a billion
  elements; √L/8 on E lets the same sum be followed by a cancellation that magnifies both.
- Y is the 90th percentile of |y|: a sum that cancels to almost nothing carries its terms' error, not its value's.
- Then the final rounding, two neighbouring results on either side; and processors may flush subnormals to zero.

A float32 answer computed in TF32 or half errs by about 2⁻¹¹ of the terms' size, which is above all this for L up to
65536 on terms of mixed sign. Every figure is relative to this output's own size, so zeros or a constant fail where
the output is merely small, or close to its mean.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch

from kernel_lsp.domain import ErrorStatistics, WorstElement
from kernel_lsp.worker.pattern import describe_pattern

TORCH_FACTOR = 4.0
"""Times Torch's own error that any output may err; different but equally good orders of evaluation differ by less."""

SUM_FACTOR = 4.0
"""Times √L·u: twelve standard deviations of a sequential sum's error."""

MAGNIFIED = 0.125
"""Times √L·E: a sequential sum before a cancellation."""

ROUNDING = 4.0
"""Times u·|y|: the final rounding of both results."""

LONGEST = 65536
"""Longer sums are allowed no more than sums of this length: beyond it a sequential float32 sum is worth reporting."""

UNKNOWN_ERROR = 16.0
"""Times u·Y that Torch's own error is taken for where float64 cannot be had."""

_BINADES = 1100
"""Powers of two that float64 spans on either side of 1."""

EVERYDAY = {torch.float32: 1e-4, torch.float64: 1e-8, torch.float16: 1e-2, torch.bfloat16: 1e-2}
"""Tolerances (relative and absolute) that people know from benchmark suites; reported, never decisive."""


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What one output should be; what follows from it is computed once, for many calls are compared with it."""

    native: torch.Tensor
    """Torch's own result in the declared type."""
    wide: torch.Tensor | None
    """The same in float64; None where the reference cannot run in it, or the output is not floating point."""
    longest_sum: int
    """Terms in the longest sum that led here, at least 1."""

    @functools.cached_property
    def truth(self) -> torch.Tensor:
        """The best that is known, as float64."""
        return self.native.double() if self.wide is None else self.wide

    @functools.cached_property
    def torch_error(self) -> torch.Tensor:
        """Absolute error of Torch's own result; 0 where either is not finite."""
        error = (self.native.double() - self.truth).abs_()
        return error if self.ordinary else torch.where(torch.isfinite(error), error, 0.0)

    @functools.cached_property
    def ordinary(self) -> bool:
        """All elements are finite in both precisions: special values need no thought."""
        return all_finite(self.truth) and all_finite(self.native)

    @functools.cached_property
    def allowed(self) -> torch.Tensor:
        return tolerances(self)

    @functools.cached_property
    def spread(self) -> float:
        """Standard deviation of the finite elements; the value itself where there is one only."""
        finite = self.truth if self.ordinary else self.truth[torch.isfinite(self.truth)]
        return float(finite.std()) if finite.numel() > 1 else float(finite.abs().sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    statistics: ErrorStatistics | None
    """None where the output is not floating point."""
    worst: WorstElement | None
    explanation: str
    """Empty where the output is right."""

    @property
    def right(self) -> bool:
        return not self.explanation


def compare(expected: Expected, got: torch.Tensor, unwritten: torch.Tensor | None = None) -> Comparison:
    """`got` against what it should be; `unwritten` marks elements that still hold what they were filled with."""
    native = expected.native
    if got.shape != native.shape:
        return _structural(f"shape {_shape(got)} instead of {_shape(native)}")
    if got.dtype != native.dtype:
        return _structural(f"{_dtype(got)} instead of {_dtype(native)}")
    if native.is_complex():
        wide = expected.wide
        return compare(
            Expected(
                native=torch.view_as_real(native.resolve_conj()),
                wide=None if wide is None else torch.view_as_real(wide.resolve_conj()),
                longest_sum=expected.longest_sum,
            ),
            torch.view_as_real(got.resolve_conj()),
        )
    if not native.is_floating_point():
        return _exact(expected, got, unwritten)
    return _approximate(expected, got, unwritten)


def tolerances(expected: Expected) -> torch.Tensor:
    """Absolute error allowed at each element, in float64; infinite where Torch's own result is worthless.

    Shape as the output's. See the module's docstring for the formula.
    """
    native, truth = expected.native, expected.truth
    roundoff = torch.finfo(native.dtype).eps / 2
    accumulating = min(roundoff, torch.finfo(torch.float32).eps / 2)
    terms = math.sqrt(min(max(expected.longest_sum, 1), LONGEST))
    size = truth.abs()
    usual = size
    if not expected.ordinary:
        size = torch.where(torch.isfinite(truth), size, 0.0)
        usual = size[torch.isfinite(truth) & torch.isfinite(native)]
    typical = _percentile(usual, 0.9)
    if expected.wide is None:
        own = torch.full_like(size, UNKNOWN_ERROR * roundoff * typical)
    else:
        own = _own_error(expected.torch_error, size)
    allowed = own.mul_(TORCH_FACTOR + MAGNIFIED * terms)
    allowed.add_(size, alpha=SUM_FACTOR * terms * accumulating + ROUNDING * roundoff)
    allowed.add_(SUM_FACTOR * terms * accumulating * typical + torch.finfo(native.dtype).tiny)
    if expected.ordinary:
        return allowed
    # Where float32 overflows and float64 does not, Torch has no answer to hold anyone to.
    return torch.where(torch.isfinite(truth) & ~torch.isfinite(native), math.inf, allowed)


def _own_error(errors: torch.Tensor, size: torch.Tensor) -> torch.Tensor:
    """Torch's own error that applies to each element, E of the module's docstring."""
    common = _percentile(errors[errors > 0], 0.9)
    if not errors.numel():
        return errors.clone()
    # Zero has no binade; frexp says 0 for it, which is that of 1.
    exponent = torch.where(size > 0, torch.frexp(size).exponent, -_BINADES).clamp_(-_BINADES).long().add_(_BINADES)
    largest = torch.zeros(2 * _BINADES + 3, dtype=torch.float64, device=errors.device)
    if errors.is_cuda:
        # A scattered maximum is atomic there, and all threads would meet at few addresses.
        for binade in exponent.unique().tolist():
            largest[binade] = torch.where(exponent == binade, errors, 0.0).amax()
    else:
        largest.scatter_reduce_(0, exponent.flatten(), errors.flatten(), "amax")
    # Of this binade, the two above, and all below.
    upto = largest.cummax(0).values
    return upto[exponent + 2].clamp_min(common)


def _approximate(expected: Expected, got: torch.Tensor, unwritten: torch.Tensor | None) -> Comparison:
    truth, allowed = expected.truth, expected.allowed
    actual = got.double()
    error = (actual - truth).abs_()
    if not (expected.ordinary and all_finite(got)):
        # Infinities must match in sign, NaN only NaN; both count as an infinite error where they do not. Narrowing
        # alone makes an infinity of what float64 can still hold.
        same = (actual == truth) | (actual.isnan() & truth.isnan()) | (actual.isinf() & (got == expected.native))
        error = torch.where(same, 0.0, torch.where(error.isnan(), math.inf, error))
    wrong = error > allowed
    if unwritten is not None:
        wrong |= unwritten & ~truth.isnan()
    count = int(wrong.sum())
    finite_error = torch.where(torch.isfinite(error), error, 0.0) if count else error
    # Where all is right, the largest error beside what is allowed there; else the element furthest outside.
    where = _worst(error, allowed, wrong) if count else _largest(finite_error)
    largest = float(finite_error.max()) if error.numel() else 0.0
    statistics = ErrorStatistics(
        elements=got.numel(),
        wrong=count,
        max_abs=largest,
        max_rel_spread=largest / expected.spread if expected.spread else 0.0,
        torch_max_abs=float(expected.torch_error.max()) if error.numel() else 0.0,
        tolerance=0.0 if where is None else float(allowed[where]),
        allclose=_everyday(expected.native, got),
    )
    if not count or where is None:
        return Comparison(statistics=statistics, worst=None, explanation="")
    return Comparison(
        statistics=statistics,
        worst=WorstElement(index=where, expected=f"{float(truth[where]):.9g}", got=f"{float(actual[where]):.9g}"),
        explanation=describe_pattern(wrong, actual, truth, unwritten) + _downgrade(expected, error),
    )


def _everyday(native: torch.Tensor, got: torch.Tensor) -> bool:
    tolerance = EVERYDAY.get(native.dtype, 1e-4)
    return bool(torch.allclose(got, native, rtol=tolerance, atol=tolerance, equal_nan=True))


def _exact(expected: Expected, got: torch.Tensor, unwritten: torch.Tensor | None) -> Comparison:
    native, wide = expected.native, expected.wide
    wrong = got != native
    if unwritten is not None:
        wrong |= unwritten
    if wide is not None and wide.shape == native.shape:
        # Where rounding alone decides (an argmax of nearly equal values), Torch's own two answers differ; then either
        # is right, and as many again may fall the other way.
        undecided = wide.to(native.dtype) != native
        if bool(undecided.any()) and int((wrong & ~undecided).sum()) <= TORCH_FACTOR * int(undecided.sum()):
            wrong &= torch.zeros_like(wrong) if unwritten is None else unwritten
    if not bool(wrong.any()):
        return Comparison(statistics=None, worst=None, explanation="")
    where = tuple(int(i) for i in wrong.nonzero()[0])
    return Comparison(
        statistics=None,
        worst=WorstElement(index=where, expected=str(native[where].item()), got=str(got[where].item())),
        explanation=describe_pattern(wrong, got.double(), native.double(), unwritten),
    )


def _worst(error: torch.Tensor, allowed: torch.Tensor, wrong: torch.Tensor) -> tuple[int, ...] | None:
    """Index of the wrong element furthest outside its tolerance."""
    excess = torch.where(allowed > 0, error / allowed.clamp_min(1e-300), math.inf)
    return _largest(torch.where(wrong, torch.where(excess.isnan(), 0.0, excess), -1.0))


def _largest(values: torch.Tensor) -> tuple[int, ...] | None:
    """Index of the largest of `values`; None where there is none."""
    if not values.numel():
        return None
    flat = values.flatten().argmax()
    return tuple(int(i) for i in torch.unravel_index(flat, values.shape)) if values.dim() else ()


def _downgrade(expected: Expected, error: torch.Tensor) -> str:
    """Words for an error of the size that half or TF32 arithmetic makes, in an output of a wider type."""
    if expected.native.dtype not in (torch.float32, torch.float64) or not all_finite(error):
        return ""
    spread = expected.spread or _percentile(expected.truth.abs(), 0.9)
    if not spread:
        return ""
    relative = float(error.square().mean().sqrt()) / spread
    if expected.native.dtype is torch.float64 and 2.0**-32 < relative < 2.0**-19:
        return "; the answer has only the precision of float32"
    if 2.0**-15 < relative < 2.0**-9.5:
        return "; the answer has only the precision of half or TF32"
    if 2.0**-9.5 <= relative < 2.0**-6.5:
        return "; the answer has only the precision of bfloat16"
    return ""


def all_finite(values: torch.Tensor) -> bool:
    """No infinity and no NaN; in one pass, which is several times faster than asking each element."""
    if not values.numel():
        return True
    low, high = values.aminmax()
    return math.isfinite(low) and math.isfinite(high)


def _percentile(values: torch.Tensor, share: float) -> float:
    """The `share` quantile of `values`, 0 for none."""
    count = values.numel()
    if not count:
        return 0.0
    rank = max(1, math.ceil(share * count))
    if values.is_cuda:
        # Selecting works on one of its many processors; sorting on all.
        return float(values.flatten().sort().values[rank - 1])
    return float(values.flatten().kthvalue(rank).values)


def _structural(explanation: str) -> Comparison:
    return Comparison(statistics=None, worst=None, explanation=explanation)


def _shape(tensor: torch.Tensor) -> str:
    return f"({', '.join(map(str, tensor.shape))}{',' if tensor.dim() == 1 else ''})"


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
