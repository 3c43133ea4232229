"""What the worker and its children say to each other, and how values of any structure are described.

Tensors themselves never travel in a message: they lie in files of the job's private folder, as raw bytes, and a
message describes them. Nothing here can name a class to load or code to run, so a child that user code has taken
over can say wrong things but not harmful ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from kernel_lsp.domain import (
    Artifact,
    BoundArgument,
    Ceilings,
    Function,
    Mismatch,
    Problem,
    Rejected,
    Workload,
    WorkloadResult,
)
from kernel_lsp.messages import CapturedArgument, Effort

# --- values -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTensor:
    """A tensor in a file: `offset` bytes of padding, the elements, padding up to whole pages."""

    file: str
    """Name within the folder that both sides know."""
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""
    offset: int
    """Bytes from the file's start to the first element."""
    span: int
    """Bytes from the first element to the end of the last."""
    restore: bool = False
    """Contents must be put back before each timed call: the kernel changes it by contract."""
    output: bool = False
    """Only in calls to be timed: written by the kernel, and compared where `Lap.keep` asks for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    kind: str
    """`int`, `float`, `bool`, `str` or `none`."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequence:
    kind: str
    """`list` or `tuple`."""
    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapping:
    keys: tuple[str, ...]
    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opaque:
    """A value that cannot be compared or passed on."""

    type: str


Value: TypeAlias = StoredTensor | Scalar | Sequence | Mapping | Opaque

# --- to the kernel's child ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    artifact: Artifact
    entry: Function
    entry_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call. Which arguments are outputs, what is expected and where the values come from is not said."""

    arguments: tuple[Value, ...]
    poison: int
    """What `mallopt(M_PERTURB)` is given: freed memory is filled with this byte, fresh memory with its complement."""
    busy: bool = True
    """With CUDA: on a stream of its own that has still to do what the arguments' values depend on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetUp:
    """Keep a private copy of each call's arguments, to be timed in rotation."""

    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lap:
    """Time one call, or several in a row where one is too short for the clock."""

    which: int
    """Index in `SetUp.calls`."""
    cold_cache: bool
    keep: bool
    """Send back what the call gave, for comparison."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Call in a loop for `seconds`."""

    seconds: float


# --- to the reference's child -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    reference: Path
    artifact: Artifact
    entry: Function
    entry_name: str
    directives: tuple[tuple[str, str], ...]
    source: Path
    effort: Effort
    seconds: float
    """Wall time after which no further workload is begun, once the required ones are done."""
    seed: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """Prepare the next workload, or the same one again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declined:
    """The kernel refused the workload with an exception."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareTiming:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareTimed:
    """Compare what a timed call gave; `files` is the folder that it lies in."""

    which: int
    outcome: Returned
    files: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare:
    outcome: Returned


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureTo:
    directory: Path
    max_elements: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Measure the GPU's ceilings; needs no `Open`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compile:
    """Time the reference under `torch.compile` from now on."""


# --- replies ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    text: str
    """`RuntimeError: x must be contiguous`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faulted:
    """The device failed under the kernel; nothing more can be had from this child."""

    what: str
    """`CUDA error: an illegal memory access was encountered`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Memory of a returned tensor that is also something else's."""

    output: int
    """Index among the returned tensors, in order."""
    argument: int | None
    """Index in `Call.arguments`; None for a result of the call before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    value: Value
    overlaps: tuple[Overlap, ...] = ()
    arguments: tuple[Value, ...] | None = None
    """After a timed call, what its arguments hold; the files of other calls' arguments tell it themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lapped:
    us: float
    """Per call."""
    elsewhere: bool = False
    """With CUDA: by the host's clock, for the call took much longer than its stream was busy."""
    returned: Returned | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    us: tuple[float, ...]
    cpu_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    workload: Workload
    call: Call
    given: bool
    """The reference file's own shapes: a kernel that refuses these has failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhausted:
    """No workload is left: the kernel has passed."""

    results: tuple[WorkloadResult, ...]
    binding: tuple[BoundArgument, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingReady:
    workload: Workload
    calls: tuple[Call, ...]
    compulsory_bytes: int
    flops: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    verdict: Mismatch | Rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedArguments:
    arguments: tuple[CapturedArgument, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    ceilings: Ceilings


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Nothing can be judged, for a reason that is not the kernel's."""

    problem: Problem


KernelRequest: TypeAlias = Load | Call | SetUp | Lap | Run
KernelReply: TypeAlias = Ready | Raised | Faulted | Returned | Lapped | Ran
ReferenceRequest: TypeAlias = (
    Open | Next | Compare | Declined | PrepareTiming | CompareTimed | CaptureTo | Compile | Lap | Measure
)
ReferenceReply: TypeAlias = (
    Ready | Prepared | Exhausted | TimingReady | Wrong | Lapped | CapturedArguments | Measured | Refused
)
