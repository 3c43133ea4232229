"""What the server and the worker say to each other. Standard library and `domain` only.

One worker process serves one job at a time. Every request names a job; every reply carries that number, and the
last reply to a job is `Done`, `Failed` or, for `Cancel`, nothing more.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from kernel_lsp.domain import Artifact, Ceilings, Device, Function, Problem, Samples, TensorShape, Timing, Verdict


class Effort(enum.Enum):
    """How hard the judge tries."""

    QUICK = "quick"
    """Candidates inside a search: the given shape with two seeds, one jittered shape."""
    FULL = "full"
    """On save: several seeds, value distributions, jittered shapes, a non-contiguous view."""
    THOROUGH = "thorough"
    """Before a rewrite is offered: everything, repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A built kernel and how to call it."""

    name: str
    """As in `Samples.subject`: `kernel`, `parent` or `initial`."""
    artifact: Artifact
    entry: Function
    entry_name: str
    """As Python sees it."""
    directives: tuple[tuple[str, str], ...]
    path: Path
    """The source file, for messages."""
    device: Device = Device.CPU
    """Where it runs, and the reference for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    seconds: float
    """Wall time of one child, without what `torch.compile` takes."""
    memory_bytes: int
    """Address space (with CUDA: writable private memory) that a child may add to what it inherits."""
    output_bytes: int
    """Printed output that is kept; the rest is dropped while the kernel runs on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingPlan:
    rounds: int
    """Each round times every subject once."""
    budget_s: float
    """Stop early once this is spent and at least seven rounds are in."""
    cold_cache: bool
    eager: bool
    """Time the reference as it is."""
    compiled: bool
    """Time the reference under `torch.compile`."""


# --- server to worker ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluate:
    """Judge `subjects[0]`; if it passes and there is a plan, time all subjects and the baselines."""

    job: int
    reference: Path
    subjects: tuple[Subject, ...]
    effort: Effort
    timing: TimingPlan | None
    limits: Limits
    seed: int | None = None
    """None draws a secret one; a number replays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Call the kernel for `seconds` while the server's profiler watches the child."""

    job: int
    reference: Path
    subject: Subject
    seconds: float
    limits: Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Go:
    """The profiler is attached: start calling."""

    job: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """Write the arguments of one call to `directory`, for a harness that runs without Python.

    Each tensor becomes `<position>.bin`: its elements in row-major order, native byte order.
    """

    job: int
    reference: Path
    subject: Subject
    directory: Path
    max_elements: int
    """Shapes are shrunk by the reference file's own size constants until no tensor holds more; 0 keeps them."""
    limits: Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureGpu:
    """Measure what the GPU can do at best: a second or two in which it does nothing else for us."""

    job: int
    limits: Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    job: int


Request: TypeAlias = Evaluate | Sample | Go | Capture | MeasureGpu | Cancel

# --- worker to server ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """Sent once, when torch is imported."""

    python: str
    torch: str
    threads: int
    cuda: str | None = None
    """The GPU that children will use, by name; None without one, or with a torch that is built without CUDA."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictReached:
    job: int
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingTaken:
    """Sent after `VerdictReached` with `Passed`."""

    job: int
    timing: Timing
    compulsory_bytes: int
    flops: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyToSample:
    job: int
    pid: int
    """The child, warmed up, its threads started, waiting for `Go`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    job: int
    calls: Samples
    cpu_us: float
    """CPU time of all the child's threads over all calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedArgument:
    """One argument of the call, in the order of the entry's parameters."""

    parameter: str
    tensor: TensorShape | None
    """None for a number."""
    file: str | None
    """Name within the directory."""
    number: str | None
    """A number, as C++ reads it."""
    is_output: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    job: int
    arguments: tuple[CapturedArgument, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMeasured:
    job: int
    ceilings: Ceilings


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The job could not be done, for a reason that is not the kernel's."""

    job: int
    problem: Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    job: int


Reply: TypeAlias = (
    Hello | VerdictReached | TimingTaken | ReadyToSample | Sampled | Captured | GpuMeasured | Failed | Done
)
