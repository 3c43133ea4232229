"""One workload made concrete: inputs, what is expected of them, the kernel's arguments; and the check of a call."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from kernel_lsp.domain import (
    ArtifactKind,
    ErrorStatistics,
    Function,
    Mismatch,
    Rejected,
    Role,
    TypeKind,
    Workload,
)
from kernel_lsp.worker import reference as ref
from kernel_lsp.worker.binding import Bound, bind
from kernel_lsp.worker.exchange import Call, Returned, StoredTensor, Value
from kernel_lsp.worker.judge import Comparison, Expected, compare
from kernel_lsp.worker.sums import LongestSum
from kernel_lsp.worker.tensors import DTYPES, NAN_BYTE, BadTensor, describe, elements, read_file, revive, store
from kernel_lsp.worker.workloads import shapes_of, tensors_of

POISONS = (0x80, 0x01)
"""What the allocator fills freed memory with, in turn; it hands out memory filled with the complement. As float32 that
is 3.4e38 or -1.7e38, which shows in sums and in either extremum; as half a NaN or a large number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One tensor or number of the reference's result."""

    label: str
    """`output`, `output 1`, `output["loss"]`."""
    expected: Expected
    aliases: frozenset[int]
    """Inputs whose memory it shares."""
    fresh: int | None
    """Its place among results of their own memory; None for an input that was changed and handed back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A workload and all that the judge knows of it."""

    workload: Workload
    given: bool
    inputs: tuple[Any, ...]
    """As made; never handed to anyone who might change them."""
    leaves: tuple[Leaf, ...]
    changed: Mapping[int, Expected]
    """Inputs that the reference changes, and what they then hold."""
    bound: tuple[Bound, ...]
    entry: Function
    returns: bool
    """The kernel returns results; otherwise it writes them."""
    zero_filled: frozenset[str]
    """Parameters that hold zeros before the call, as the kernel's file asks."""
    instance: ref.Instance
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Handed:
    """What a call was handed: the descriptions of its arguments and the bytes that outputs were filled with."""

    call: Call
    fills: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A call's outcome."""

    wrong: Mismatch | Rejected | None
    statistics: ErrorStatistics | None
    results: tuple[torch.Tensor, ...]
    """All compared tensors, to compare a repeated call with."""
    notes: tuple[str, ...] = ()


def make_case(
    instance: ref.Instance,
    inputs: tuple[Any, ...],
    *,
    workload_name: str,
    seed: int,
    given: bool,
    entry: Function,
    kind: ArtifactKind,
    directives: tuple[tuple[str, str], ...],
    source: Path,
) -> Case:
    """Run the reference and match the kernel's arguments.

    Raises:
        BadReference, Unbound
    """
    notes: list[str] = []
    used = ref.cloned(inputs)
    with LongestSum() as sums:
        result = instance.call(used)
    changed = [i for i, (a, b) in enumerate(zip(inputs, used, strict=True)) if not same_bits(a, b)]
    wide_inputs = ref.widened(inputs)
    try:
        wide_result: Any = instance.call_in_float64(wide_inputs)
        wide_leaves = dict(_flatten(wide_result))
    except ref.BadReference:
        wide_leaves, wide_inputs = {}, None
        notes.append("the reference cannot run in float64, so the tolerance is the general one")
    flat = _flatten(result)
    if not flat and not changed:
        raise ref.BadReference(ref.gives_nothing(instance.reference))
    leaves = []
    fresh = 0
    for label, value in flat:
        tensor = _as_tensor(value)
        aliases = frozenset(i for i, v in enumerate(used) if _shares_memory(v, value))
        own = not (aliases & set(changed))
        leaves.append(
            Leaf(
                label=label,
                expected=_expected(tensor, wide_leaves.get(label), sums.terms),
                aliases=aliases,
                fresh=fresh if own and isinstance(value, torch.Tensor) else None,
            )
        )
        fresh += own and isinstance(value, torch.Tensor)
    bound = bind(
        entry,
        instance,
        inputs,
        [value for (_, value), leaf in zip(flat, leaves, strict=True) if leaf.fresh is not None],
        source=source,
        changes_inputs=bool(changed),
    )
    receives = any(b.output is not None for b in bound)
    returns = entry.returns_kind is not TypeKind.VOID and not (kind is ArtifactKind.C_LIBRARY and receives)
    return Case(
        workload=Workload(name=workload_name, inputs=shapes_of(inputs), seed=seed),
        given=given,
        inputs=inputs,
        leaves=tuple(leaves),
        changed={i: _expected(used[i], None if wide_inputs is None else wide_inputs[i], sums.terms) for i in changed},
        bound=bound,
        entry=entry,
        returns=returns,
        zero_filled=frozenset(name for name, value in directives if value in ("zero", "zeros")),
        instance=instance,
        notes=tuple(notes),
    )


def hand_over(
    case: Case, folder: Path, number: int, *, contiguous: bool, timed: bool = False, margin: int = 0
) -> Handed:
    """Write the arguments of one call to `folder`, under names that begin with `number`.

    `margin` is the padding of `tensors.store`.
    """
    values: list[Value] = []
    fills: list[int | None] = []
    for position, item in enumerate(case.bound):
        fill = _fill(case, item)
        fills.append(fill)
        counter = iter(range(1_000_000))

        def keep(
            tensor: torch.Tensor,
            position: int = position,
            item: Bound = item,
            fill: int | None = fill,
            counter: Any = counter,
        ) -> StoredTensor:
            name = f"{number}-{position}-{next(counter)}.bin"
            tensor = tensor.resolve_conj().resolve_neg()
            stored = store(tensor.contiguous() if contiguous else tensor, folder, name, fill=fill, margin=margin)
            if not timed:
                return stored
            in_place = item.input in case.changed or (item.argument.role is Role.OUTPUT and fill == 0)
            return dataclasses.replace(stored, restore=in_place, output=item.output is not None)

        values.append(describe(item.value, keep))
    return Handed(call=Call(arguments=tuple(values), poison=POISONS[number % 2]), fills=tuple(fills))


def check(
    case: Case, handed: Handed, outcome: Returned, *, shared: Path, returned: Path, known: Checked | None = None
) -> Checked:
    """What a call did: to memory that is not its own, to its inputs, and to its outputs.

    `shared` holds the arguments, `returned` what the kernel's child wrote. `known` is a right outcome of the same case:
    outputs that equal its outputs bit for bit need no second comparison.
    """
    after: list[torch.Tensor | None] = []
    unwritten: list[torch.Tensor | None] = []
    for item, stored, fill in zip(case.bound, handed.call.arguments, handed.fills, strict=True):
        if not isinstance(stored, StoredTensor):
            after.append(None)
            unwritten.append(None)
            continue
        content = read_file(stored, shared)
        if rejected := _outside(case, item, stored, content):
            return _rejected(rejected)
        now = elements(stored, content).to(case.instance.device)
        after.append(now)
        unwritten.append(_still_filled(stored, content, fill))
        if item.argument.role in (Role.INPUT, Role.STATE) and item.input not in case.changed:
            original = item.value.contiguous() if stored.strides != item.value.stride() else item.value
            if not same_bits(original, now):
                return _rejected(_changed_input(case, item, original, now))
    if rejected := _aliased(case, outcome):
        return _rejected(rejected)
    return _compare_all(case, outcome, after, unwritten, returned=returned, known=known)


def check_timed(case: Case, outcome: Returned, returned: Path) -> Checked:
    """The outputs of a timed call, arguments included, which the kernel's child copied out of ordinary memory."""

    def take(stored: StoredTensor) -> torch.Tensor:
        return elements(stored, read_file(stored, returned)).to(case.instance.device)

    after: list[torch.Tensor | None] = []
    for value in outcome.arguments or ():
        revived = revive(value, take)
        after.append(revived if isinstance(revived, torch.Tensor) else None)
    if len(after) != len(case.bound):
        raise BadTensor("arguments are missing")
    return _compare_all(case, outcome, after, [None] * len(after), returned=returned)


def unstable(first: Sequence[torch.Tensor], again: Sequence[torch.Tensor]) -> bool:
    """Equal inputs gave results that differ in some bit."""
    return any(not same_bits(a, b) for a, b in zip(first, again, strict=False))


# ------------------------------------------------------------------------------------------------------------


def _compare_all(
    case: Case,
    outcome: Returned,
    after: Sequence[torch.Tensor | None],
    unwritten: Sequence[torch.Tensor | None],
    *,
    returned: Path,
    known: Checked | None = None,
) -> Checked:
    pairs: list[tuple[str, Expected, Any, torch.Tensor | None]] = []
    notes: list[str] = []
    received = set()
    by_fresh = {leaf.fresh: leaf for leaf in case.leaves if leaf.fresh is not None}
    for item, now, mask in zip(case.bound, after, unwritten, strict=True):
        if item.output is not None and item.output in by_fresh:
            received.add(item.output)
            pairs.append((item.argument.parameter, by_fresh[item.output].expected, now, mask))
    value = revive(outcome.value, lambda stored: elements(stored, read_file(stored, returned)))
    answers = [leaf for _, leaf in _flatten(value)] if case.returns else []
    wanted = list(case.leaves)
    if received:
        wanted = [leaf for leaf in wanted if leaf.fresh not in received] if len(answers) != len(wanted) else wanted
    if not case.returns:
        wanted = [leaf for leaf in wanted if leaf.fresh is not None and leaf.fresh not in received]
    if (answers or not received) and case.returns and len(answers) != len(wanted):
        return Checked(
            wrong=_structure(case, f"{_count(answers)} instead of {len(wanted)}"), statistics=None, results=()
        )
    if case.returns:
        pairs += [(leaf.label, leaf.expected, got, None) for leaf, got in zip(wanted, answers, strict=False)]
    for i, expected in case.changed.items():
        for item, now in zip(case.bound, after, strict=True):
            if item.input == i and now is not None:
                if case.returns and len(answers) == len(case.leaves) > 0 and same_bits(item.value, now):
                    notes.append(f"the reference changes `{item.argument.parameter}`; the kernel leaves it")
                else:
                    pairs.append((item.argument.parameter, expected, now, None))
    results = []
    worst: ErrorStatistics | None = None
    for label, expected, got, mask in pairs:
        tensor = _as_tensor_like(got, expected.native)
        if tensor is None:
            return Checked(
                wrong=_structure(case, f"{type(got).__name__} instead of a tensor", label), statistics=None, results=()
            )
        results.append(tensor)
        if known is not None and same_bits(known.results[len(results) - 1], tensor):
            continue
        comparison = compare(expected, tensor, mask if mask is None else mask.to(tensor.device))
        if not comparison.right:
            return Checked(wrong=_mismatch(case, label, comparison), statistics=comparison.statistics, results=())
        if comparison.statistics is not None and (worst is None or _harm(comparison.statistics) > _harm(worst)):
            worst = comparison.statistics
    if known is not None:
        worst = known.statistics
    return Checked(wrong=None, statistics=worst, results=tuple(results), notes=tuple(notes))


def _outside(case: Case, item: Bound, stored: StoredTensor, content: torch.Tensor) -> Rejected | None:
    """Whether padding or gaps around an argument were written to."""
    end = stored.offset + stored.span
    before, behind = content[: stored.offset], content[end:]
    for part, words, base in ((behind, "past the end", 0), (before, "before the start", None)):
        touched = (part != NAN_BYTE).nonzero().flatten()
        if touched.numel():
            distance = int(touched[0]) + 1 if base is not None else stored.offset - int(touched[-1])
            return Rejected(
                rule="out-of-bounds-write",
                evidence=f"wrote {words} of `{item.argument.parameter}`, {distance} bytes out",
                workload=case.workload,
            )
    size = DTYPES[stored.dtype].itemsize
    if stored.span > _product(stored.shape) * size > 0:
        gap = torch.ones(stored.span // size, dtype=torch.bool)
        gap.as_strided(stored.shape, stored.strides).fill_(False)
        touched = (content[stored.offset : end].view(-1, size) != NAN_BYTE).any(dim=1) & gap
        if bool(touched.any()):
            return Rejected(
                rule="out-of-bounds-write",
                evidence=f"wrote between the elements of `{item.argument.parameter}`, which is not contiguous",
                workload=case.workload,
            )
    return None


def _changed_input(case: Case, item: Bound, original: torch.Tensor, now: torch.Tensor) -> Rejected:
    changed = int((_bits(original) != _bits(now)).reshape(original.numel(), -1).any(dim=1).sum())
    return Rejected(
        rule="changed-inputs",
        evidence=f"{changed} of {original.numel()} elements of `{item.argument.parameter}` ({item.argument.source}) "
        "were changed, which the reference leaves as they are",
        workload=case.workload,
    )


def _aliased(case: Case, outcome: Returned) -> Rejected | None:
    for overlap in outcome.overlaps:
        leaf = case.leaves[overlap.output] if 0 <= overlap.output < len(case.leaves) else None
        if overlap.argument is None:
            # A view of an input that the reference also returns is no memory of an earlier call.
            if leaf is not None and leaf.aliases:
                continue
            what = "the memory that the call before returned"
        else:
            item = case.bound[overlap.argument] if 0 <= overlap.argument < len(case.bound) else None
            if item is None or item.argument.role is Role.OUTPUT or item.argument.role is Role.SCALAR:
                continue
            if leaf is None or item.input in leaf.aliases or item.input in case.changed:
                continue
            what = f"the memory of `{item.argument.parameter}`"
        return Rejected(
            rule="aliased-output",
            evidence=f"{'the result' if leaf is None else leaf.label} is {what}; the reference's is not",
            workload=case.workload,
        )
    return None


def _still_filled(stored: StoredTensor, content: torch.Tensor, fill: int | None) -> torch.Tensor | None:
    """Elements of an output that still hold what it was filled with."""
    if fill is None or fill == 0 or not stored.span:
        return None
    raw = content[stored.offset : stored.offset + stored.span]
    size = stored.span // max(1, _product(stored.shape))
    return (raw.view(-1, size) == fill).all(dim=1).view(stored.shape)


def _fill(case: Case, item: Bound) -> int | None:
    if item.argument.role is not Role.OUTPUT:
        return None
    if item.argument.parameter in case.zero_filled:
        return 0
    # Any byte may be a right integer; one that is drawn anew for each call is so by chance only.
    return NAN_BYTE if item.value.is_floating_point() else secrets.choice(range(0xA1, 0xFE))


def _expected(native: torch.Tensor, wide: Any, terms: int) -> Expected:
    truth = None if wide is None else _as_tensor(wide, torch.float64)
    unusable = truth is not None and (
        truth.shape != native.shape or (native.is_floating_point() and truth.dtype != torch.float64)
    )
    return Expected(native=native.detach(), wide=None if unusable else truth, longest_sum=terms)


def _flatten(value: Any, label: str = "output") -> list[tuple[str, Any]]:
    """Tensors and numbers of a result in order, with what to call them; None and text count for nothing."""
    if isinstance(value, (list, tuple)):
        return [
            leaf for i, item in enumerate(value) for leaf in _flatten(item, f"{label} {i}" if len(value) > 1 else label)
        ]
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in _flatten(item, f'{label}["{key}"]')]
    return [(label, value)] if isinstance(value, (torch.Tensor, bool, int, float)) else []


def _as_tensor(value: Any, of_float: torch.dtype = torch.float32) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value.detach()
    return torch.tensor(value, dtype=of_float if isinstance(value, float) else None)


def _as_tensor_like(value: Any, native: torch.Tensor) -> torch.Tensor | None:
    if isinstance(value, torch.Tensor):
        # `.item()` on one side only is no difference worth a verdict.
        return value.to(native.device)
    if isinstance(value, (bool, int, float)) and native.numel() == 1:
        return torch.tensor(value).to(native.device, native.dtype).reshape(native.shape)
    return None


def _mismatch(case: Case, label: str, comparison: Comparison) -> Mismatch:
    return Mismatch(
        output=label,
        workload=case.workload,
        worst=comparison.worst,
        statistics=comparison.statistics,
        explanation=comparison.explanation,
    )


def _structure(case: Case, explanation: str, label: str = "output") -> Mismatch:
    return Mismatch(output=label, workload=case.workload, worst=None, statistics=None, explanation=explanation)


def _rejected(rejected: Rejected) -> Checked:
    return Checked(wrong=rejected, statistics=None, results=())


def _count(answers: Sequence[Any]) -> str:
    return "no result" if not answers else f"{len(answers)} result{'s' if len(answers) > 1 else ''}"


def _harm(statistics: ErrorStatistics) -> float:
    return statistics.max_abs / statistics.tolerance if statistics.tolerance else 0.0


def same_bits(a: Any, b: Any) -> bool:
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return all(same_bits(x, y) for x, y in zip(tensors_of(a), tensors_of(b), strict=False))
    return bool(a.shape == b.shape and a.dtype == b.dtype and torch.equal(_bits(a), _bits(b)))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.detach().resolve_conj().contiguous().flatten()
    return flat.view(torch.uint8) if flat.numel() else flat


def _shares_memory(value: Any, result: Any) -> bool:
    if not isinstance(value, torch.Tensor) or not isinstance(result, torch.Tensor):
        return False
    return bool(value.numel()) and value.untyped_storage().data_ptr() == result.untyped_storage().data_ptr()


def _product(shape: Sequence[int]) -> int:
    product = 1
    for n in shape:
        product *= n
    return product
