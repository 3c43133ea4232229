"""The reference's child: makes workloads, knows what is expected of them, compares. The kernel never runs in here."""

from __future__ import annotations

import dataclasses
import itertools
import math
import secrets
import time
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from kernel_lsp.domain import (
    ArtifactKind,
    BoundArgument,
    Device,
    Location,
    Mismatch,
    Problem,
    Rejected,
    Role,
    Span,
    WorkloadResult,
)
from kernel_lsp.messages import CapturedArgument
from kernel_lsp.worker import reference as ref
from kernel_lsp.worker import workloads
from kernel_lsp.worker.binding import Unbound
from kernel_lsp.worker.call import takes_stream
from kernel_lsp.worker.cases import Case, Checked, Handed, check, check_timed, hand_over, make_case, unstable
from kernel_lsp.worker.channel import Channel
from kernel_lsp.worker.cuda import MARGIN
from kernel_lsp.worker.cuda_ceilings import measure
from kernel_lsp.worker.cuda_timing import CudaStopwatch
from kernel_lsp.worker.exchange import (
    CapturedArguments,
    CaptureTo,
    Compare,
    CompareTimed,
    Compile,
    Declined,
    Exhausted,
    Lap,
    Lapped,
    Measure,
    Measured,
    Next,
    Open,
    Prepared,
    PrepareTiming,
    Ready,
    ReferenceReply,
    ReferenceRequest,
    Refused,
    Returned,
    TimingReady,
    Wrong,
)
from kernel_lsp.worker.ground import Fault, Stopwatch
from kernel_lsp.worker.sums import LongestSum
from kernel_lsp.worker.tensors import BadTensor, raw_bytes
from kernel_lsp.worker.timing import HostStopwatch
from kernel_lsp.worker.workloads import Variant

ROTATED = 2
"""Sets of inputs that timed calls take in turn, so that no answer can be kept from the call before."""

FEW_ELEMENTS = 2**18
"""Below this the judge computes on one thread: a parallel region costs more than it saves, and milliseconds each where
another process holds the processor that it waits for. What is timed always has all threads."""

MOST_NOTES = 12


def serve(channel: Channel, shared: Path, returned: Path, device: Device) -> None:
    """Answer until the parent closes its end. Arguments go to `shared`; the kernel's results lie in `returned`."""
    unusable = _started(device)
    child = ReferenceChild(shared, returned, device)
    while (request := channel.receive(ReferenceRequest)) is not None:
        reply: ReferenceReply
        try:
            reply = child.answer(request) if unusable is None else Refused(problem=unusable)
        except (ref.BadReference, Unbound) as error:
            reply = Refused(problem=error.problem)
        except (MemoryError, torch.OutOfMemoryError):
            reply = Refused(problem=child.out_of_memory())
        except RuntimeError as error:
            # An illegal access to memory is no want of it.
            if "memory" not in str(error) or "CUDA error: an illegal" in str(error):
                raise
            reply = Refused(problem=child.out_of_memory())
        channel.send(reply)


def _started(device: Device) -> Problem | None:
    """Start what the reference runs on; the reason where it cannot be."""
    if device is Device.CPU:
        return None
    from kernel_lsp.worker import cuda

    try:
        cuda.start()
    except Fault as fault:
        return cuda.no_cuda(str(fault))
    return None


def import_ahead() -> None:
    """Import in the parent what torch would otherwise import on first use, in every child again: 1.6 s."""
    import torch.utils.flop_counter

    # One element: too few for torch to start a thread.
    with LongestSum(), torch.device("meta"):
        torch.ones(1).add(1)


class ReferenceChild:
    def __init__(self, shared: Path, returned: Path, device: Device) -> None:
        self._shared = shared
        self._cuda = device is Device.CUDA
        self._device = torch.device(device.value)
        self._returned = returned
        self._open: Open
        self._source: ref.Source
        self._seeds: Iterator[int]
        self._survey: workloads.Survey
        self._steps: Iterator[Prepared | Exhausted]
        self._answer: Returned | Declined | None = None
        self._wrong: Mismatch | Rejected | None = None
        self._kept: list[Case] = []
        self._numbers = itertools.count()
        self._threads = torch.get_num_threads()
        self._watch: Stopwatch = CudaStopwatch() if self._cuda else HostStopwatch()
        self._timed: list[tuple[Any, tuple[Any, ...], tuple[Any, ...]]] = []
        """The callable, the inputs that it is given, and copies to restore those that it changes."""

    def answer(self, request: ReferenceRequest) -> ReferenceReply:
        match request:
            case Open():
                return self._start(request)
            case Next():
                return next(self._steps)
            case Compare(outcome=outcome):
                return self._go_on(outcome)
            case Declined():
                return self._go_on(request)
            case PrepareTiming():
                return self._prepare_timing()
            case CompareTimed():
                return self._compare_timed(request)
            case CaptureTo():
                return self._capture(request.directory, request.max_elements)
            case Compile():
                return self._compile()
            case Measure():
                return Measured(ceilings=measure())
            case Lap():
                return self._lap(request)

    def out_of_memory(self) -> Problem:
        return ref.out_of_memory(self._open.reference)

    # --- judging --------------------------------------------------------------------------------------------

    def _start(self, request: Open) -> Ready:
        self._open = request
        first = secrets.randbelow(2**31) if request.seed is None else request.seed
        self._seeds = itertools.count(first)
        self._source = ref.read(request.reference)
        self._steps = self._judge(first)
        return Ready()

    def _judge(self, first: int) -> Iterator[Prepared | Exhausted]:
        """Workload after workload; each is answered by `Compare` or `Declined` before the next is made.

        Ends with `Exhausted`; a wrong answer ends it early, kept in `_wrong`.
        """
        began = time.monotonic()
        notes: list[str] = []
        results: list[WorkloadResult] = []
        binding: tuple[BoundArgument, ...] = ()
        reference = ref.run(self._source)
        instance = ref.instantiate(reference, first, self._device)
        self._survey, inputs = workloads.survey(self._source, instance, first)
        if self._survey.elements < FEW_ELEMENTS:
            torch.set_num_threads(1)
        self._refuse_random(instance, inputs)
        extra = len(ref.extra_workloads(instance, first))
        has_nan = False
        resized_done = False
        effort = self._open.effort
        quick = effort is effort.QUICK
        tensors = self._open.artifact.kind is not ArtifactKind.C_LIBRARY
        for variant in workloads.plan(self._survey, effort, self._seeds, tensors=tensors, extra=extra):
            if quick and variant.sizes and resized_done:
                continue
            if not variant.required and time.monotonic() - began > self._open.seconds:
                notes.append(f"{variant.name} and what follows left out: {self._open.seconds:.0f} s were spent")
                break
            case = self._case_of(variant, notes)
            if case is None:
                continue
            if results and not variant.required and _has_nan(case) and not has_nan:
                notes.append(f"{variant.name} dropped: the reference gives NaN there")
                continue
            if variant.distribution is workloads.Distribution.REPEATS and _has_integers(case):
                notes.append(f"{variant.name} dropped: equal values leave an index open")
                continue
            if variant.required and variant.extra is None:
                self._kept.append(case)
            if not results:
                has_nan = _has_nan(case)
                binding = tuple(b.argument for b in case.bound)
            notes += [note for note in case.notes if note not in notes]
            outcome = yield from self._calls(case, variant, notes)
            if self._wrong is not None:
                return
            if outcome is None:
                continue
            results.append(WorkloadResult(workload=case.workload, statistics=outcome.statistics))
            resized_done = resized_done or bool(variant.sizes)
        if len(notes) > MOST_NOTES:
            notes[MOST_NOTES:] = [f"and {len(notes) - MOST_NOTES} more of this kind"]
        yield Exhausted(results=tuple(results), binding=binding, notes=tuple(notes))

    def _calls(self, case: Case, variant: Variant, notes: list[str]) -> Generator[Prepared, None, Checked | None]:
        """The calls of one workload; returns the first one's outcome, None where the kernel declined."""
        first: Checked | None = None
        for repeat in range(1 + variant.repeats):
            self._clear()
            handed = self._hand_over(case)
            yield Prepared(workload=case.workload, call=handed.call, given=variant.required)
            if isinstance(self._answer, Declined):
                notes.append(f"the kernel refuses {variant.name}: {self._answer.text}")
                self._clear()
                return None
            assert self._answer is not None
            checked = self._checked(case, handed, self._answer, first)
            if isinstance(checked.wrong, Mismatch) and first is None and self._minds_streams:
                self._wrong = yield from self._off_stream(case, variant, checked.wrong)
                return None
            if checked.wrong is not None:
                self._wrong = checked.wrong if first is None else _differs(checked.wrong, repeat + 1)
                return None
            notes += [note for note in checked.notes if note not in notes]
            if first is None:
                first = checked
            elif unstable(first.results, checked.results):
                note = "results differ bitwise between runs with equal inputs, within the tolerance"
                if note not in notes:
                    notes.append(note)
        return first

    @property
    def _minds_streams(self) -> bool:
        """Called under a busy stream that it can know of."""
        launcher = self._open.artifact.kind is ArtifactKind.C_LIBRARY
        return self._cuda and (not launcher or any(map(takes_stream, self._open.entry.parameters)))

    def _off_stream(
        self, case: Case, variant: Variant, wrong: Mismatch
    ) -> Generator[Prepared, None, Mismatch | Rejected]:
        """The verdict on a kernel that gave `wrong`: whether that is because it works on another stream than the
        current one, so that it is right on the default stream, and wrong again on another.
        """
        for busy in (False, True):
            self._clear()
            handed = self._hand_over(case)
            call = dataclasses.replace(handed.call, busy=busy)
            yield Prepared(workload=case.workload, call=call, given=variant.required)
            if not isinstance(self._answer, Returned):
                return wrong
            if isinstance(self._checked(case, handed, self._answer, None).wrong, Mismatch) is not busy:
                return wrong
        return Rejected(
            rule="other-stream",
            evidence="it does not work on the current stream: the result is right only where that is the default one "
            f"(else {wrong.explanation}); launch with `at::cuda::getCurrentCUDAStream()`",
            workload=case.workload,
        )

    def _go_on(self, answer: Returned | Declined) -> ReferenceReply:
        self._answer = answer
        try:
            return next(self._steps)
        except StopIteration:
            assert self._wrong is not None
            return Wrong(verdict=self._wrong)

    def _case_of(self, variant: Variant, notes: list[str]) -> Case | None:
        """The workload made concrete; None, with a note, where the reference refuses it."""
        try:
            reference = ref.run(self._source, variant.sizes)
            instance = ref.instantiate(reference, variant.seed, self._device)
            inputs = workloads.make(instance, variant, self._survey.plain)
            if variant.sizes and workloads.element_count(inputs) > 1.5 * self._survey.elements + 65536:
                return None
            return self._make_case(instance, inputs, variant)
        except ref.BadReference:
            if variant.required:
                raise
            notes.append(f"{variant.name} dropped: the reference refuses it")
            return None
        except Unbound:
            if variant.required:
                raise
            notes.append(f"{variant.name} dropped: the arguments do not match there")
            return None

    def _make_case(self, instance: ref.Instance, inputs: tuple[Any, ...], variant: Variant) -> Case:
        return make_case(
            instance,
            inputs,
            workload_name=variant.name,
            seed=variant.seed,
            given=variant.required,
            entry=self._open.entry,
            kind=self._open.artifact.kind,
            directives=self._open.directives,
            source=self._open.source,
        )

    def _hand_over(self, case: Case, *, timed: bool = False) -> Handed:
        contiguous = self._open.artifact.kind is ArtifactKind.C_LIBRARY
        margin = MARGIN if self._cuda else 0
        return hand_over(case, self._shared, next(self._numbers), contiguous=contiguous, timed=timed, margin=margin)

    def _checked(self, case: Case, handed: Handed, outcome: Returned, known: Checked | None) -> Checked:
        try:
            return check(case, handed, outcome, shared=self._shared, returned=self._returned, known=known)
        except BadTensor as error:
            return Checked(wrong=_tampered(case, error), statistics=None, results=())
        finally:
            self._clear()

    def _clear(self) -> None:
        """Remove the files of earlier calls; the kernel's child keeps what it has mapped."""
        for folder in (self._returned, self._shared):
            for path in folder.glob("*.bin"):
                path.unlink(missing_ok=True)

    def _refuse_random(self, instance: ref.Instance, inputs: tuple[Any, ...]) -> None:
        """A reference that gives something else at every call can judge nobody.

        Raises:
            BadReference
        """
        torch.manual_seed(1)
        one = workloads.tensors_of(instance.call(ref.cloned(inputs)))
        torch.manual_seed(2)
        two = workloads.tensors_of(instance.call(ref.cloned(inputs)))
        same = len(one) == len(two) and all(
            a.shape == b.shape and torch.allclose(a.double(), b.double(), rtol=1e-3, atol=1e-6, equal_nan=True)
            for a, b in zip(one, two, strict=False)
            if not a.is_complex()
        )
        if not same:
            raise ref.BadReference(
                Problem(
                    code="random-reference",
                    message="the reference gives another result at every call with equal inputs",
                    hint="take the randomness out: call `self.eval()` where it has dropout, or make the mask an input",
                    location=Location(path=self._source.path, span=Span.line(0)),
                )
            )

    # --- timing ---------------------------------------------------------------------------------------------

    def _prepare_timing(self) -> TimingReady:
        torch.set_num_threads(self._threads)
        if not self._kept:
            self._kept = [self._given_case() for _ in range(ROTATED)]
        cases = self._kept[:ROTATED]
        first = cases[0]
        self._clear()
        calls = tuple(self._hand_over(case, timed=True).call for case in cases)
        self._timed = [_timed(_callable(case.instance), case.inputs, self._device) for case in cases]
        return TimingReady(
            workload=first.workload, calls=calls, compulsory_bytes=_compulsory_bytes(first), flops=_flops(first)
        )

    def _given_case(self) -> Case:
        seed = next(self._seeds)
        instance = ref.instantiate(ref.run(self._source), seed, self._device)
        self._survey, inputs = workloads.survey(self._source, instance, seed)
        return self._make_case(instance, inputs, Variant(name="as given", seed=seed, required=True))

    def _compile(self) -> Ready:
        """Compile the reference and run it once on each set of inputs."""
        seed = next(self._seeds)
        instance = ref.instantiate(ref.run(self._source), seed, self._device)
        function = torch.compile(_callable(instance))
        self._timed = []
        for number in range(ROTATED):
            inputs = workloads.make(instance, Variant(name="as given", seed=seed + number), ())
            self._timed.append(_timed(function, inputs, self._device))
        with torch.no_grad():
            for _, inputs, _ in self._timed * 2:
                function(*inputs)
        return Ready()

    def _lap(self, request: Lap) -> Lapped:
        function, inputs, originals = self._timed[request.which]
        for value, original in zip(workloads.tensors_of(inputs), workloads.tensors_of(originals), strict=False):
            value.copy_(original)
        with torch.no_grad():
            lap = self._watch.time(function, inputs, cold_cache=request.cold_cache, once=bool(originals))
        return Lapped(us=lap.us, elsewhere=lap.elsewhere)

    def _compare_timed(self, request: CompareTimed) -> Ready | Wrong:
        case = self._kept[request.which]
        try:
            checked = check_timed(case, request.outcome, request.files)
        except BadTensor as error:
            return Wrong(verdict=_tampered(case, error))
        finally:
            self._clear()
        if checked.wrong is None:
            return Ready()
        return Wrong(verdict=_in_timed_call(checked.wrong))

    # --- capturing ------------------------------------------------------------------------------------------

    def _capture(self, directory: Path, max_elements: int) -> CapturedArguments:
        case = self._small_case(max_elements)
        captured = []
        for position, item in enumerate(case.bound):
            value = item.value
            is_output = item.output is not None or (item.input is not None and item.input in case.changed)
            if isinstance(value, torch.Tensor):
                name = f"{position}.bin"
                tensor = value.detach().contiguous()
                if item.argument.role is Role.OUTPUT:
                    tensor = torch.zeros_like(tensor)
                _write(tensor, directory / name)
                captured.append(
                    CapturedArgument(
                        parameter=item.argument.parameter,
                        tensor=workloads.shapes_of([tensor])[0],
                        file=name,
                        number=None,
                        is_output=is_output,
                    )
                )
                continue
            if not (value is None or isinstance(value, (bool, int, float))):
                raise Unbound(
                    Problem(
                        code="cannot-capture",
                        message=f"`{item.argument.parameter}` is neither a tensor nor a number",
                        hint="such a kernel is profiled inside Python only",
                        location=Location(path=self._open.source, span=self._open.entry.name_span),
                    )
                )
            captured.append(
                CapturedArgument(
                    parameter=item.argument.parameter, tensor=None, file=None, number=_literal(value), is_output=False
                )
            )
        return CapturedArguments(arguments=tuple(captured))

    def _small_case(self, max_elements: int) -> Case:
        """The given workload, its sizes halved until every tensor fits and the reference still accepts it."""
        seed = next(self._seeds)
        instance = ref.instantiate(ref.run(self._source), seed, self._device)
        survey, inputs = workloads.survey(self._source, instance, seed)
        self._survey = survey
        largest = 0
        for halvings in range(32):
            sizes: Mapping[str, int] = workloads.shrunk(survey.sizes, halvings) if halvings else {}
            try:
                instance = ref.instantiate(ref.run(self._source, sizes), seed, self._device)
                inputs = workloads.make(instance, Variant(name="as given", seed=seed), ())
                case = self._make_case(instance, inputs, Variant(name="as given", seed=seed, required=True))
            except (ref.BadReference, Unbound):
                if not halvings:
                    raise
                continue
            largest = max((t.numel() for b in case.bound for t in workloads.tensors_of(b.value)), default=0)
            if not max_elements or largest <= max_elements:
                return case
            if halvings and all(value <= 8 for value in sizes.values()):
                break
        raise Unbound(
            Problem(
                code="cannot-shrink",
                message=f"the inputs cannot be made smaller than {largest} elements",
                hint=f"give sizes in {self._source.path.name} as constants at its top level: `ROWS = 1024`",
                location=Location(path=self._source.path, span=Span.line(0)),
            )
        )


def _callable(instance: ref.Instance) -> Any:
    return instance.model if instance.model is not None else instance.reference.module.reference


def _timed(
    function: Any, inputs: tuple[Any, ...], device: torch.device
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """Inputs of their own for timing, and copies where the reference changes them."""
    own = ref.cloned(inputs)
    with torch.no_grad():
        try:
            function(*own)
        except RuntimeError:
            # It makes tensors of its own without naming a device. That costs a little at each of its operators, so
            # only such a reference is timed like this.
            function, own = _at_home(function, device), ref.cloned(inputs)
            function(*own)
    before = workloads.tensors_of(inputs)
    changes = any(
        not torch.equal(a, b) and not a.isnan().any() for a, b in zip(workloads.tensors_of(own), before, strict=True)
    )
    return function, ref.cloned(inputs), ref.cloned(inputs) if changes else ()


def _at_home(function: Any, device: torch.device) -> Any:
    def called(*inputs: Any) -> Any:
        with ref.at_home(device):
            return function(*inputs)

    return called


def _compulsory_bytes(case: Case) -> int:
    """Each tensor that the kernel is given read once, each result written once."""
    read = {
        (t.untyped_storage().data_ptr(), t.storage_offset(), tuple(t.shape)): t.numel() * t.element_size()
        for b in case.bound
        if b.argument.role is not Role.OUTPUT
        for t in workloads.tensors_of(b.value)
    }
    written = sum(leaf.expected.native.numel() * leaf.expected.native.element_size() for leaf in case.leaves)
    if not case.leaves:
        written = sum(e.native.numel() * e.native.element_size() for e in case.changed.values())
    return int(sum(read.values()) + written)


def _flops(case: Case) -> int | None:
    """Operations that torch counts in the reference; None where it counts none."""
    from torch.utils.flop_counter import FlopCounterMode

    try:
        with FlopCounterMode(display=False) as counter:
            case.instance.call(ref.cloned(case.inputs))
        return int(counter.get_total_flops()) or None
    except Exception:
        return None


def _has_nan(case: Case) -> bool:
    natives = [leaf.expected.native for leaf in case.leaves] + [e.native for e in case.changed.values()]
    return any(t.is_floating_point() and bool(t.isnan().any()) for t in natives)


def _has_integers(case: Case) -> bool:
    return any(not (n := leaf.expected.native).is_floating_point() and not n.is_complex() for leaf in case.leaves)


def _differs(wrong: Mismatch | Rejected, run: int) -> Mismatch | Rejected:
    if isinstance(wrong, Rejected):
        return wrong
    return _again(wrong, f"differs between runs with equal inputs: right at first, wrong in run {run}")


def _in_timed_call(wrong: Mismatch | Rejected) -> Mismatch | Rejected:
    return wrong if isinstance(wrong, Rejected) else _again(wrong, "right when judged, wrong in a timed call")


def _again(wrong: Mismatch, words: str) -> Mismatch:
    return Mismatch(
        output=wrong.output,
        workload=wrong.workload,
        worst=wrong.worst,
        statistics=wrong.statistics,
        explanation=f"{words} ({wrong.explanation})",
    )


def _tampered(case: Case, error: BadTensor) -> Rejected:
    return Rejected(
        rule="tampered-result", evidence=f"a result's description is false: {error}", workload=case.workload
    )


def _write(tensor: torch.Tensor, path: Path) -> None:
    path.write_bytes(raw_bytes(tensor.cpu()))


def _literal(value: bool | int | float | None) -> str:
    """As C++ reads it."""
    if value is None:
        return "{}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if math.isfinite(value):
        return repr(value)
    return "NAN" if math.isnan(value) else f"{'-' if value < 0 else ''}INFINITY"
