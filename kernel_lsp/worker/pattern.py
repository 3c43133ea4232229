"""Which elements are wrong, in words: where a mistake shows often says what the mistake is."""

from __future__ import annotations

import itertools

import torch

_SAME_RATIO = 1e-3
"""Relative spread of got over expected below which one factor explains all wrong elements."""


def describe_pattern(
    wrong: torch.Tensor, got: torch.Tensor, expected: torch.Tensor, unwritten: torch.Tensor | None = None
) -> str:
    """One phrase for the set of `wrong` elements (boolean, not all False) and what is in them."""
    what = _what(wrong, got, expected, unwritten)
    return f"{_where(wrong)}{f', {what}' if what else ''}"


def _where(wrong: torch.Tensor) -> str:
    total, count = wrong.numel(), int(wrong.sum())
    if wrong.dim() == 0 or total == 1:
        return "the only element" if total == 1 else "the result"
    if count == total:
        return f"all {total} elements"
    if count == 1:
        return f"only the element at {_index(wrong)}"
    for dim in range(wrong.dim()):
        if (words := _along(wrong, dim)) is not None:
            return words
    if wrong.dim() > 1 and (words := _past(wrong.flatten(), "in memory order")) is not None:
        return words
    if wrong.dim() == 2 and (words := _triangle(wrong)) is not None:
        return words
    return f"{count} of {total} elements ({_share(count, total)}), the first at {_index(wrong)}"


def _along(wrong: torch.Tensor, dim: int) -> str | None:
    """Words where the wrong elements are exactly all those at some indices of `dim`."""
    others = [d for d in range(wrong.dim()) if d != dim]
    size = wrong.shape[dim]
    if size == 1:
        return None
    some = wrong.any(dim=others) if others else wrong
    every = wrong.all(dim=others) if others else wrong
    if not torch.equal(some, every) or bool(some.all()):
        return None
    name = _dimension(wrong.dim(), dim)
    indices = some.nonzero().flatten().tolist()
    count = len(indices)
    if others == [] and (words := _past(wrong, "")) is not None:
        return words
    if count == 1:
        first = indices[0]
        ordinal = "first" if first == 0 else "last" if first == size - 1 else f"number {first}"
        return f"only the {ordinal} {name}" if first in (0, size - 1) else f"only {name} {first}"
    if indices == list(range(size - count, size)):
        few = count <= 16 or count <= size // 8
        return f"only the last {count} {name}s" if few else f"every {name} from index {size - count} of {size}"
    if indices == list(range(count)):
        return f"only the first {count} {name}s"
    if (step := _regular(indices)) is not None and step > 1:
        return f"every {_ordinal(step)} {name}, from {indices[0]}"
    return f"whole {name}s only, {count} of {size}, the first {indices[0]}"


def _past(wrong: torch.Tensor, how: str) -> str | None:
    """Words where the wrong elements of a flat mask are one run that reaches the end or the start."""
    size, count = wrong.numel(), int(wrong.sum())
    tail = f" {how}" if how else ""
    if bool(wrong[size - count :].all()):
        return f"only the last {count} elements{tail}" if count <= 16 else f"elements from index {size - count}{tail}"
    if bool(wrong[:count].all()):
        return f"only the first {count} elements{tail}"
    indices = wrong.nonzero().flatten().tolist()
    if (step := _regular(indices)) is not None and step > 1 and len(indices) > 2:
        return f"every {_ordinal(step)} element{tail}, from {indices[0]}"
    return None


def _triangle(wrong: torch.Tensor) -> str | None:
    ones = torch.ones_like(wrong)
    for name, mask in (
        ("diagonal", torch.eye(*wrong.shape, dtype=torch.bool, device=wrong.device)),
        ("part above the diagonal", ones.triu(1)),
        ("part below the diagonal", ones.tril(-1)),
    ):
        if torch.equal(wrong, mask):
            return f"only the {name}"
    return None


def _what(wrong: torch.Tensor, got: torch.Tensor, expected: torch.Tensor, unwritten: torch.Tensor | None) -> str:
    values, truth = got[wrong], expected[wrong]
    each = "each " if values.numel() > 1 else ""
    if unwritten is not None and bool(unwritten[wrong].all()):
        return "left unwritten"
    if unwritten is not None and bool(unwritten[wrong].any()):
        return f"{int(unwritten[wrong].sum())} of them left unwritten"
    if bool(values.isnan().all()):
        return f"{each}NaN"
    if bool(values.isnan().any()):
        return f"{int(values.isnan().sum())} of them NaN"
    if bool(values.isinf().all()):
        return f"{each}infinite"
    if bool((values == 0).all()):
        return f"{each}zero"
    if values.numel() > 1 and bool((values == values[0]).all()):
        return f"each {float(values[0]):.6g}"
    usable = torch.isfinite(values) & torch.isfinite(truth) & (truth != 0)
    if values.numel() > 2 and bool(usable.all()):
        ratio = values / truth
        middle = float(ratio.median())
        if bool(((ratio - middle).abs() <= _SAME_RATIO * abs(middle)).all()) and abs(middle - 1) > _SAME_RATIO:
            return f"each {middle:.4g} times the right value"
        offset = values - truth
        middle = float(offset.median())
        if middle and bool(((offset - middle).abs() <= _SAME_RATIO * abs(middle)).all()):
            return f"each off by {middle:+.4g}"
    return ""


def _regular(indices: list[int]) -> int | None:
    """The common distance of more than one index."""
    if len(indices) < 2:
        return None
    steps = {b - a for a, b in itertools.pairwise(indices)}
    return steps.pop() if len(steps) == 1 else None


def _dimension(dims: int, dim: int) -> str:
    if dims == 1:
        return "element"
    if dims == 2:
        return ("row", "column")[dim]
    return f"index of dimension {dim}" if dim < dims - 1 else "index of the last dimension"


def _index(wrong: torch.Tensor) -> str:
    first = [int(i) for i in wrong.nonzero()[0]]
    return f"[{', '.join(map(str, first))}]"


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number % 100 not in (11, 12, 13) else "th"
    return f"{number}{ending}"


def _share(count: int, total: int) -> str:
    share = 100 * count / total
    return f"{share:.0f} %" if share >= 1 else "under 1 %"
