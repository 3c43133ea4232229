"""Which inputs a kernel is judged on: secret seeds, other distributions, other sizes, a non-contiguous view.

Distributions are varied at their source, where the reference file draws random numbers, not in the finished inputs:
what the file derives from them (probabilities that sum to one, sorted keys, boxes with corners in order, masks) stays
what it is, while a plain `torch.rand(...)` input, whose values promise nothing, also takes negative and large values.
"""

from __future__ import annotations

import contextlib
import enum
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from kernel_lsp.domain import TensorShape
from kernel_lsp.messages import Effort
from kernel_lsp.worker import reference as ref

SMALLEST_SIZE = 5
"""Numbers below are rarely sizes to choose freely: coordinates of a point, corners of a box, colours of a pixel."""

PRIMES = (67, 131, 37, 101, 53, 89, 43, 71)
"""Sizes in place of large ones: no multiple of any block, all different so that swapped dimensions show."""

LARGE = 1e3
SMALL = 1e-3

MANY_ELEMENTS = 2**18
"""Where the given inputs hold more, other distributions are tried on a reduced shape: values matter there, not size."""


class Distribution(enum.Enum):
    GIVEN = "as given"
    MIXED = "mixed sign"
    LARGE = "large magnitude"
    REPEATS = "zeros and repeats"
    SMALL = "small magnitude"


class Layout(enum.Enum):
    GIVEN = "as given"
    STRIDED = "non-contiguous"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One workload to be made."""

    name: str
    seed: int
    distribution: Distribution = Distribution.GIVEN
    sizes: Mapping[str, int] = field(default_factory=dict)
    layout: Layout = Layout.GIVEN
    extra: int | None = None
    """Index in the reference file's own `workloads()`."""
    required: bool = False
    """Judged however long it takes; a kernel that refuses it has failed."""
    repeats: int = 0
    """Further calls with equal inputs."""


class Draws(TorchFunctionMode):  # type: ignore[misc]
    """Inside the block, what random factories give is remembered, and changed to another distribution."""

    _UNIFORM = (torch.rand, torch.rand_like, torch.Tensor.uniform_)
    _NORMAL = (torch.randn, torch.randn_like, torch.Tensor.normal_, torch.normal)

    def __init__(self, distribution: Distribution = Distribution.GIVEN, plain: Sequence[bool] = ()) -> None:
        super().__init__()
        self._distribution = distribution
        self._plain = plain
        self._drawn: list[tuple[torch.Tensor, int, bool]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        uniform = func in self._UNIFORM
        if not (uniform or func in self._NORMAL) or not isinstance(result, torch.Tensor):
            return result
        plain = len(self._drawn) < len(self._plain) and self._plain[len(self._drawn)]
        _redraw(result, self._distribution, uniform=uniform, plain=plain)
        self._drawn.append((result, result._version, uniform))
        return result

    def plain(self, inputs: Sequence[Any]) -> tuple[bool, ...]:
        """For each draw, whether it is an input as drawn, so that its values promise nothing."""
        return tuple(
            any(value is drawn for value in inputs) and drawn._version == version for drawn, version, _ in self._drawn
        )

    @property
    def any_uniform(self) -> bool:
        return any(uniform for _, _, uniform in self._drawn)

    @property
    def any(self) -> bool:
        return bool(self._drawn)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What of a reference file may be varied."""

    plain: tuple[bool, ...]
    """Per random draw, whether it is an input as drawn."""
    draws: bool
    signed: bool
    """Mixed signs would be something new: a plain draw from [0, 1) exists."""
    sizes: Mapping[str, int]
    """Names and values that shape the inputs."""
    elements: int
    """Of all tensor inputs, as given."""


def survey(source: ref.Source, instance: ref.Instance, seed: int) -> tuple[Survey, tuple[Any, ...]]:
    """Make the inputs once and see what they are made of.

    Raises:
        BadReference
    """
    draws = Draws()
    with draws, secret_seed(seed):
        inputs = ref.make_inputs(instance, seed)
    plain = draws.plain(inputs)
    uniform_plain = any(p and uniform for p, (_, _, uniform) in zip(plain, draws._drawn, strict=True))
    found = Survey(
        plain=plain,
        draws=draws.any,
        signed=uniform_plain,
        sizes=_shaping(source, inputs),
        elements=element_count(inputs),
    )
    return found, tuple(ref.placed(value, instance.device) for value in inputs)


def make(instance: ref.Instance, variant: Variant, plain: Sequence[bool]) -> tuple[Any, ...]:
    """The inputs of a workload.

    Raises:
        BadReference
    """
    if variant.extra is not None:
        with secret_seed(variant.seed):
            extra = ref.extra_workloads(instance, variant.seed)[variant.extra]
        return tuple(ref.placed(value, instance.device) for value in extra)
    with Draws(variant.distribution, plain), secret_seed(variant.seed):
        inputs = tuple(ref.placed(value, instance.device) for value in ref.make_inputs(instance, variant.seed))
    return tuple(map(strided, inputs)) if variant.layout is Layout.STRIDED else inputs


def plan(found: Survey, effort: Effort, seeds: Iterator[int], *, tensors: bool, extra: int) -> Iterator[Variant]:
    """The workloads of an effort, most telling first; `tensors` says that the kernel takes strides into account.

    Sizes that the reference refuses are the caller's to drop: with QUICK only the first that both sides accept counts.
    """
    given = Distribution.GIVEN.value
    repeats = {Effort.QUICK: 1, Effort.FULL: 2, Effort.THOROUGH: 8}[effort]
    resized = list(_resized(found))
    yield Variant(name=given, seed=next(seeds), required=True, repeats=repeats)
    if resized:
        yield Variant(name=_name(resized[0]), seed=next(seeds), sizes=resized[0])
    yield Variant(name=f"{given}, seed 2", seed=next(seeds), required=True)
    for index in range(extra):
        yield Variant(name=f"workloads()[{index}]", seed=next(seeds), extra=index, required=True)
    if effort is Effort.QUICK:
        for sizes in resized[1:]:
            yield Variant(name=_name(sizes), seed=next(seeds), sizes=sizes)
        return
    base = resized[0] if resized and found.elements > MANY_ELEMENTS else {}
    for distribution in Distribution:
        skipped = distribution is Distribution.GIVEN or (distribution is Distribution.MIXED and not found.signed)
        if found.draws and not skipped:
            yield Variant(name=distribution.value, seed=next(seeds), distribution=distribution, sizes=base)
    if tensors:
        yield Variant(name=Layout.STRIDED.value, seed=next(seeds), layout=Layout.STRIDED, sizes=base)
    for sizes in resized[1 : 7 if effort is Effort.FULL else None]:
        yield Variant(name=_name(sizes), seed=next(seeds), sizes=sizes)
    if effort is Effort.THOROUGH:
        for number in (3, 4):
            yield Variant(name=f"{given}, seed {number}", seed=next(seeds), repeats=repeats)


def shapes_of(inputs: Sequence[Any]) -> tuple[TensorShape, ...]:
    return tuple(
        TensorShape(dtype=str(t.dtype).removeprefix("torch."), shape=tuple(t.shape)) for t in tensors_of(inputs)
    )


def tensors_of(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_of(item)]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in tensors_of(item)]
    return []


def element_count(value: Any) -> int:
    return sum(tensor.numel() for tensor in tensors_of(value))


def strided(value: Any) -> Any:
    """The same values with a gap after each element of the last dimension."""
    if isinstance(value, torch.Tensor) and value.dim() and value.shape[-1] > 1:
        wide = value.new_zeros((*value.shape[:-1], value.shape[-1] * 2))
        view = wide[..., ::2]
        view.copy_(value)
        return view
    return value


def shrunk(sizes: Mapping[str, int], times: int) -> dict[str, int]:
    """Sizes halved `times` times but not below 8: powers of two keep what must divide divisible."""
    return {name: max(min(value, 8), value >> times) for name, value in sizes.items()}


@contextlib.contextmanager
def secret_seed(seed: int) -> Iterator[None]:
    """Inside, a file that seeds torch itself gets other numbers at every run all the same."""
    original = torch.manual_seed
    ours = {"done": False}

    def seeded(wanted: int) -> torch.Generator:
        # The first call is ours; the file's own are mixed with the secret.
        if not ours["done"]:
            ours["done"] = True
            return original(wanted)
        return original((int(wanted) * 1_000_003 + seed) % 2**63)

    torch.manual_seed = seeded
    try:
        yield
    finally:
        torch.manual_seed = original


def _redraw(tensor: torch.Tensor, distribution: Distribution, *, uniform: bool, plain: bool) -> None:
    with torch.no_grad():
        match distribution:
            case Distribution.LARGE if not uniform:
                tensor.mul_(LARGE)
            case Distribution.LARGE if plain:
                tensor.mul_(2 * LARGE).sub_(LARGE)
            case Distribution.MIXED if uniform and plain:
                tensor.mul_(4).sub_(2)
            case Distribution.REPEATS:
                # Eighths of [0, 1) stay in it; halves of a normal draw hold many zeros.
                tensor.mul_(8).floor_().div_(8) if uniform else tensor.mul_(2).round_().div_(2)
            case Distribution.SMALL:
                tensor.mul_(SMALL)


def _shaping(source: ref.Source, inputs: Sequence[Any]) -> dict[str, int]:
    """Sizes of the file whose change by one changes the inputs' shapes."""
    shapes = [tuple(t.shape) for t in tensors_of(inputs)]
    found = {}
    for name, value in source.sizes.items():
        if value < SMALLEST_SIZE:
            continue
        other = _shapes_with(source, {name: value + 1})
        if other is not None and other != shapes:
            found[name] = value
    return found


def _shapes_with(source: ref.Source, sizes: Mapping[str, int]) -> list[tuple[int, ...]] | None:
    try:
        reference = ref.run(source, sizes)
        with torch.device("meta"), torch.no_grad():
            return [tuple(t.shape) for t in tensors_of(reference.inputs())]
    except Exception:
        # Not everything can be made without memory; then for real.
        try:
            return [tuple(t.shape) for t in tensors_of(ref.run(source, sizes).inputs())]
        except Exception:
            return None


def _resized(found: Survey) -> Iterator[dict[str, int]]:
    """Other sizes, the most telling first."""
    sizes = dict(found.sizes)
    if not sizes:
        return
    reduced = {name: _prime(value, PRIMES[i % len(PRIMES)]) for i, (name, value) in enumerate(sizes.items())}
    candidates = itertools.chain(
        [reduced],
        ({**reduced, name: value + 1} for name, value in sizes.items()),
        ({**reduced, name: 1} for name in sizes),
        ({**sizes, name: value + 1} for name, value in sizes.items()),
        ({**reduced, name: value - 1} for name, value in sizes.items()),
    )
    seen: list[dict[str, int]] = [sizes]
    for candidate in candidates:
        if candidate not in seen:
            seen.append(candidate)
            yield candidate


def _prime(value: int, wanted: int) -> int:
    """`wanted` where that is below `value`, else the largest prime below `value`."""
    if wanted < value:
        return wanted
    return next(n for n in range(value - 1, 1, -1) if all(n % d for d in range(2, int(n**0.5) + 1)))


def _name(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={value}" if not name.isdigit() else f"{name}→{value}" for name, value in sizes.items())
