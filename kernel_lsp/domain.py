"""Every type that crosses a folder: plain, frozen data and what follows from it by arithmetic.

Standard library only, so that the worker can import it under the user's own interpreter. `None` always means
"unknown"; an absent measurement is never a zero. Positions are zero-based lines and UTF-8 byte columns, which
is what compilers and tree-sitter speak; only the LSP front converts them.
"""

from __future__ import annotations

import enum
import math
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

# --- text ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Position:
    line: int
    """Zero-based line; lines end at \\n, \\r\\n or \\r and nowhere else."""
    column: int
    """Zero-based offset in the line, in UTF-8 bytes."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Span:
    start: Position
    end: Position
    """Exclusive."""

    def contains(self, other: Span) -> bool:
        return self.start <= other.start and other.end <= self.end

    @staticmethod
    def line(number: int, start: int = 0, end: int = 1_000_000) -> Span:
        """A span within zero-based line `number`; an `end` past the line's last byte means its end."""
        return Span(start=Position(line=number, column=start), end=Position(line=number, column=end))


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    path: Path
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class TextEdit:
    span: Span
    """The text replaced, in the text the edit was made for."""
    new_text: str


# --- source -------------------------------------------------------------------------------------------------


class Language(enum.Enum):
    CPP = "cpp"
    CUDA = "cuda"


class Device(enum.Enum):
    """Where a kernel runs, and the reference beside it."""

    CPU = "cpu"
    CUDA = "cuda"


class BindingStyle(enum.Enum):
    """How Python reaches the kernel."""

    PYBIND = "pybind"
    """The sources hold `PYBIND11_MODULE`."""
    TORCH_LIBRARY = "torch_library"
    """The sources hold `TORCH_LIBRARY` or `TORCH_LIBRARY_FRAGMENT`."""
    TENSOR_FUNCTIONS = "tensor_functions"
    """Bare functions over `torch::Tensor`; a binding is generated in a unit of its own."""
    EXTERN_C = "extern_c"
    """`extern "C"` functions over raw pointers and numbers, called through ctypes."""
    GLOBAL = "global"
    """Bare `__global__` functions; the reference file describes the launch."""


class TypeKind(enum.Enum):
    """What a C++ parameter or result is to a caller in Python."""

    TENSOR = "tensor"
    TENSOR_LIST = "tensor_list"
    OPTIONAL_TENSOR = "optional_tensor"
    POINTER = "pointer"
    INTEGER = "integer"
    FLOAT = "float"
    BOOL = "bool"
    INTEGER_LIST = "integer_list"
    STRING = "string"
    VOID = "void"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    name: str
    """Empty for an unnamed parameter."""
    type: str
    """As written, white space folded: `const float *`, `torch::Tensor &`."""
    kind: TypeKind
    is_const: bool
    """The pointee or referent may not be written."""
    default: str | None = None
    """Default argument as written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    name: str
    """Unqualified name."""
    qualified_name: str
    """With namespaces: `detail::row_max`."""
    returns: str
    """Return type as written."""
    returns_kind: TypeKind
    parameters: tuple[Parameter, ...]
    span: Span
    """The whole definition, template header included."""
    name_span: Span
    body_span: Span
    """The braces and what is between."""
    is_static: bool = False
    """`static`, or in an anonymous namespace: no linkage from another unit."""
    is_template: bool = False
    is_extern_c: bool = False
    is_global: bool = False
    """A CUDA `__global__` function."""
    is_device: bool = False
    """Runs on the GPU and not on the host as well: `__global__` or `__device__`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    id: int
    """Index in `Features.loops`."""
    function: str
    """Qualified name of the function that holds it."""
    parent: int | None
    """The enclosing loop's id."""
    span: Span
    """From `for` to the end of its body."""
    header_span: Span
    """`for (…)` without the body."""
    body_span: Span
    variable: str | None
    """Induction variable of a countable `for (T i = a; i < b; i += c)`; None where it is not that."""
    lower: str | None
    """Text of `a`."""
    upper: str | None
    """Text of `b`, exclusive; for `<=` it is `(b) + 1`."""
    step: str | None
    """Text of `c`: `1` for `i++`."""
    is_parallel: bool
    """Runs under `#pragma omp parallel for`, `at::parallel_for` or inside such a loop."""
    is_innermost: bool
    declares: tuple[str, ...] | None = None
    """Names declared in its header or body, nested loops' included: private to an iteration. None: not analysed."""
    assigns: tuple[str, ...] | None = None
    """Plain variables from outside that its body writes, so that one iteration sees another's. None: not analysed."""
    is_simd: bool = False
    """Stands under `#pragma omp … simd`, so that its reductions may be reordered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One array access: `a[i * n + j]`, `*(p + i)`, or an accessor's `acc[i][j]`."""

    array: str
    """The base, as written."""
    index: str
    """Index as written; accessor indices joined by `][`."""
    span: Span
    loop: int | None
    """The innermost enclosing loop's id."""
    is_read: bool
    is_write: bool
    """`a[i] += x` is both."""
    strides: tuple[tuple[str, str], ...]
    """(loop variable, coefficient) for each enclosing loop's variable, innermost first. The coefficient is text:
    `0`, `1`, `n`, `n * m`; `?` where the index is not affine in that variable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """`s += f(i)`, `s = max(s, f(i))` and the like, carried by a loop."""

    target: str
    """What accumulates, as written: `sum`, `out[i * n + j]`."""
    operator: str
    """`+`, `*`, `max`, `min` or `-`."""
    span: Span
    """The statement."""
    loop: int
    """The innermost enclosing loop's id; the target is invariant in it."""
    through_memory: bool
    """The target is an array element, so every step loads and stores it."""
    type: str | None = None
    """The target's (element) type as declared: `float`, `scalar_t`, `int64_t`; None where it cannot be seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubleUse:
    """A `double` that creeps into arithmetic on `float` data."""

    text: str
    """`0.5`, `exp`, `(double)`."""
    span: Span
    why: str
    """`literal`, `function`, `cast` or `variable`."""
    loop: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call inside a function: `std::exp(x)`, `row.item<float>()`, `dot<scalar_t>(a, b, n)`."""

    name: str
    """What is called, as written, without receiver and template arguments: `std::exp`, `item`, `dot`."""
    receiver: str | None
    """`x[i][j]` in `x[i][j].item<float>()`; None for a free function."""
    span: Span
    function: str
    """Qualified name of the function that holds it."""
    loop: int | None
    """The innermost enclosing loop's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """A division or a costly mathematical call inside a loop none of whose operands the loop changes."""

    text: str
    span: Span
    operation: str
    """`/`, `%`, or the function's name: `std::sqrt`."""
    loop: int
    """The innermost enclosing loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What the text alone tells, without a compiler."""

    functions: tuple[Function, ...]
    loops: tuple[Loop, ...]
    accesses: tuple[Access, ...]
    reductions: tuple[Reduction, ...]
    doubles: tuple[DoubleUse, ...]
    includes: tuple[str, ...]
    """As written, with quotes or angle brackets."""
    syntax_errors: tuple[Span, ...]
    calls: tuple[Call, ...] = ()
    invariants: tuple[Invariant, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelUnit:
    """One kernel file with all that is needed to build and judge it."""

    path: Path
    text: str
    """The text that is built and judged; every result carries its digest."""
    digest: str
    """SHA-256 of `text`, hex."""
    language: Language
    style: BindingStyle
    entry: Function | None
    """The function that is judged; None where there is none or the choice is not clear."""
    entry_name: str | None
    """Its name as Python sees it: `m.def("forward", …)` or the operator's `namespace::name`."""
    siblings: tuple[Path, ...]
    """Further sources of the same extension, from the directive or the file that binds this one."""
    reference: Path | None
    """The Torch reference file."""
    directives: tuple[tuple[str, str], ...]
    """Key and value of each `// kernel-lsp: key=value` in the file, in order."""
    problem: Problem | None
    """Why it cannot be judged, found by reading alone: no reference, no entry, several entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What stands in the way, where, and what to do next. Said once, in one place."""

    code: str
    """Stable: `no-reference`, `ambiguous-entry`, `unmatched-argument`, `no-compiler`, `perf-not-permitted`…"""
    message: str
    """One sentence: what happened."""
    hint: str
    """One sentence: what to do next."""
    location: Location | None = None
    """None where it concerns the machine and not a file."""


# --- build --------------------------------------------------------------------------------------------------


class Severity(enum.Enum):
    ERROR = "error"
    WARNING = "warning"
    INFORMATION = "information"
    HINT = "hint"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerMessage:
    severity: Severity
    text: str
    location: Location | None
    """In the user's own files: an error inside a system header sits on the include line that led there."""
    related: tuple[tuple[Location, str], ...] = ()
    """The notes that belong to it: where, and what they say."""
    option: str | None = None
    """The option that controls a warning: `-Wunused-variable`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorRemark:
    """What the compiler's vectoriser says of a loop."""

    location: Location
    vectorized: bool
    reason: str
    """The compiler's words for a missed loop; vector width for a vectorised one."""
    cause_line: int | None = None
    """Zero-based line of the statement that stood in the way, where that is another than the loop's."""

    @property
    def said(self) -> str:
        """The reason, with the line that it is about, as people count."""
        return self.reason if self.cause_line is None else f"{self.reason} (line {self.cause_line + 1})"


class Route(enum.Enum):
    """The way a kernel was compiled."""

    PLAIN = "plain"
    """No torch header in it: the compiler alone."""
    THIN = "thin"
    """Over the thin torch layer: the common part of `torch::Tensor` over torch's stable ABI."""
    WHOLE = "whole"
    """Over torch's own headers, as `torch.utils.cpp_extension` would."""


class ArtifactKind(enum.Enum):
    PYTHON_MODULE = "python_module"
    TORCH_LIBRARY = "torch_library"
    C_LIBRARY = "c_library"


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A shared library, ready to be loaded by a worker's child."""

    path: Path
    kind: ArtifactKind
    name: str
    """Python module name, operator namespace, or empty for a C library."""
    digest: str
    """Content digest of everything that went into it; also its place in the cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    unit_digest: str
    """`KernelUnit.digest` of the text that was compiled."""
    artifact: Artifact | None
    """None where the build failed."""
    route: Route
    route_reason: str
    """Why this route: `uses at::softmax, which the thin layer lacks`. Empty where there was no choice."""
    messages: tuple[CompilerMessage, ...]
    remarks: tuple[VectorRemark, ...]
    seconds: float
    """Wall time of this build; of the original one where it came from the cache."""
    cached: bool
    problem: Problem | None = None
    """Set where no compiler could be run at all."""


# --- calling the kernel -------------------------------------------------------------------------------------


class Role(enum.Enum):
    """Where an argument's value comes from, or what becomes of it."""

    INPUT = "input"
    """The reference's input of that name or position."""
    STATE = "state"
    """A parameter, buffer or attribute of the reference's model."""
    SCALAR = "scalar"
    """From the reference file's `arguments(...)`, a constant of its module, or a parameter's default."""
    OUTPUT = "output"
    """Written by the kernel; compared with the reference's result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundArgument:
    parameter: str
    role: Role
    source: str
    """Human-readable: `input x`, `model.weight`, `constant N`, `output 0`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorShape:
    dtype: str
    """`float32`, `int64`…: torch's name without the prefix."""
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    name: str
    """`as given`, `as given, seed 2`, `rows=17`, `large magnitude`…"""
    inputs: tuple[TensorShape, ...]
    seed: int
    """Drawn secretly for the run; shown afterwards so that a failure can be replayed."""


# --- verdict ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorStatistics:
    """How far an output is from the reference computed in float64."""

    elements: int
    wrong: int
    """Elements outside the tolerance, NaN where none is due included."""
    max_abs: float
    """Largest absolute error over finite elements."""
    max_rel_spread: float
    """Largest absolute error over the standard deviation of the true output."""
    torch_max_abs: float
    """The same for Torch's own result in the declared dtype: what rounding alone costs."""
    tolerance: float
    """Absolute error allowed at the worst element."""
    allclose: bool
    """`torch.allclose` at the tolerances people know (1e-4 for float32, 1e-2 for half)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstElement:
    index: tuple[int, ...]
    expected: str
    """Printed in the precision of the dtype; the float64 reference."""
    got: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadResult:
    workload: Workload
    statistics: ErrorStatistics | None
    """Of the worst output; None where the outputs hold no floating point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildFailed:
    messages: tuple[CompilerMessage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crashed:
    what: str
    """`segmentation fault`, `called exit(0)`, `raised RuntimeError: x must be contiguous`."""
    workload: Workload | None
    output_tail: str
    """The last lines that the kernel printed, capped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOut:
    seconds: float
    workload: Workload | None
    output_tail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    output: str
    """`output`, `output 1`, `out["loss"]`, or the name of an argument written in place."""
    workload: Workload
    worst: WorstElement | None
    """None for a wrong shape, dtype or structure."""
    statistics: ErrorStatistics | None
    explanation: str
    """In words: `shape (4, 8) instead of (8, 4)`, `only the last 3 columns`, `left unwritten`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    rule: str
    """The rule of conduct that was broken: `changed-inputs`, `aliased-output`, `impossible-time`."""
    evidence: str
    workload: Workload | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unjudged:
    """No verdict could be reached, for a reason that is not the kernel's."""

    problem: Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    results: tuple[WorkloadResult, ...]
    binding: tuple[BoundArgument, ...]
    notes: tuple[str, ...] = ()
    """What was dropped or noticed: `rows=17 refused by the reference`, `results differ bitwise between runs`."""


Verdict: TypeAlias = BuildFailed | Crashed | TimedOut | Mismatch | Rejected | Unjudged | Passed


# --- timing -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A value with its 95 % confidence interval."""

    low: float
    mid: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Raw wall times of one subject; sample i of every subject in a `Timing` was taken in the same round."""

    subject: str
    """`kernel`, `eager`, `compiled`, `parent` or `initial`."""
    us: tuple[float, ...]
    """Microseconds per call, in the order taken."""

    @property
    def median_us(self) -> float:
        return statistics.median(self.us)

    @property
    def spread(self) -> float:
        """Interquartile range over the median; 0 for fewer than four samples."""
        if len(self.us) < 4:
            return 0.0
        first, _, third = statistics.quantiles(self.us, n=4)
        return (third - first) / self.median_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    workload: Workload
    samples: tuple[Samples, ...]
    """Interleaved: each round times every subject once, in random order."""
    threads: int
    """Threads that the machine offered to each subject."""
    cold_cache: bool
    """Caches were flushed before every call."""
    notes: tuple[str, ...] = ()
    """What of the figures needs saying: that a subject works outside the current stream, so that wall time counts."""

    def of(self, subject: str) -> Samples | None:
        return next((s for s in self.samples if s.subject == subject), None)

    def speedup(self, baseline: str, subject: str = "kernel") -> Interval | None:
        """Time of `baseline` over time of `subject`, round by round; None where either was not timed.

        The interval is the distribution-free one for a median, from order statistics of the paired ratios
        (binomial, 95 %), so it assumes nothing about the noise but that rounds are independent.
        """
        slow, fast = self.of(baseline), self.of(subject)
        if slow is None or fast is None:
            return None
        return median_interval([a / b for a, b in zip(slow.us, fast.us, strict=True)])


def median_interval(values: list[float]) -> Interval:
    """Median of `values` with its distribution-free 95 % interval (the whole range below six values).

    Source: the k-th and (n+1-k)-th order statistics with P(Binomial(n, 1/2) < k) <= 0.025.
    """
    ordered = sorted(values)
    n = len(ordered)
    below, tail = 0, 0.0
    for k in range(n // 2):
        tail += math.comb(n, k) / 2**n
        if tail > 0.025:
            break
        below = k
    return Interval(low=ordered[below], mid=statistics.median(ordered), high=ordered[n - 1 - below])


# --- profile ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSamples:
    location: Location
    """In the user's file, following inlining."""
    count: int
    share: float
    """Of all samples in the kernel's call, 0–1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCache:
    """Exact counts for one line from cachegrind's simulated caches."""

    location: Location
    instructions: int
    reads: int
    writes: int
    d1_misses: int
    """Reads and writes that miss the first-level data cache."""
    ll_misses: int
    """Reads and writes that miss the last-level cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    name: str
    """`cycles`, `instructions`, `cache-misses`, `branch-misses`…"""
    value: float
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    unit_digest: str
    tool: str
    """`perf 6.1.187`, `cachegrind 3.19.0`, both joined by ` + `."""
    samples: int
    """Samples taken inside the kernel's call."""
    lines: tuple[LineSamples, ...]
    """By share, largest first."""
    outside: tuple[tuple[str, float], ...]
    """Shared object or function outside the user's file → share of all samples, largest first."""
    cache: tuple[LineCache, ...]
    """Empty where cachegrind did not run."""
    counters: tuple[Counter, ...]
    """Hardware counters that this machine has; never a zero for one that it lacks."""
    busy_threads: float | None
    """CPU time over wall time during the calls: about 1 for serial code. None where not measured."""
    threads: int | None = None
    """Threads that the machine offered to the calls; None where not known."""
    problems: tuple[Problem, ...]
    """What could not be measured, each with its remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """What the device can do at best, measured here."""

    device: str
    threads: int
    """Of this machine that took part; 0 for a GPU, whose ceilings do not depend on them."""
    dram_gbs: float
    """GB/s. CPU: best triad over all threads, write-allocate traffic not counted. GPU: a large copy within its memory,
    bytes read and bytes written together."""
    fp32_gflops: float
    """Fused multiply-adds on float, counted as two operations. CPU: over all threads. GPU: cuBLAS's product of large
    matrices with TF32 off, which is what arithmetic on float reaches there without tensor cores."""
    fp64_gflops: float
    """The same in double; on a GPU that has them, cuBLAS uses its double tensor cores."""
    spread: float
    """Interquartile range over the median, the worst of the three."""
    measured_at: str
    """ISO 8601 date and time, UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """Where a kernel stands against the device's ceilings."""

    compulsory_bytes: int
    """Each input read once and each output written once."""
    flops: int | None
    """Operations counted on the reference; None where Torch cannot count them."""
    time_us: float
    memory_share: float
    """Time that the compulsory bytes need at the measured bandwidth, over the measured time: 0–1."""
    compute_share: float | None
    """The same for the operations at the measured peak."""

    @property
    def limit(self) -> str:
        return "compute" if (self.compute_share or 0.0) > self.memory_share else "memory"

    @property
    def share(self) -> float:
        """How much of the nearer limit is reached, 0–1."""
        return max(self.memory_share, self.compute_share or 0.0)


# --- findings -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    name: str
    """`share of samples`, `D1 misses per access`, `vectoriser`."""
    value: str
    """Formatted for reading, with its unit."""
    source: str
    """The tool or the text it comes from: `perf`, `cachegrind`, `g++ -fopt-info`, `source`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    code: str
    """`KL501`."""
    rule: str
    """Name of the fault: `strided-inner-access`."""
    message: str
    """One sentence for the line."""
    severity: Severity
    """HINT from the text alone, WARNING once samples on the line bear it out, INFORMATION for "at the limit"."""
    span: Span
    function: str
    """Qualified name of the function it is in; empty where it concerns the file."""
    loop: int | None
    """`Loop.id`, where the fault is a loop's."""
    evidence: tuple[Evidence, ...]
    headroom: float | None
    """Upper bound on the share of the kernel's time that fixing it can save, 0–1; None without a profile."""
    ruled_out: tuple[str, ...] = ()
    """What it is not, and by which number."""


# --- optimise -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillDecision:
    skill: str
    finding: str | None
    """Code of the finding that calls for it."""
    score: float
    """Rank, higher first; 0 where passed over."""
    reason: str
    """Why it is proposed, or why it was passed over."""
    chosen: bool


class Outcome(enum.Enum):
    """What became of an attempt."""

    FASTER = "faster"
    """Passed, and faster than its parent beyond the noise."""
    NOT_FASTER = "not_faster"
    WRONG = "wrong"
    BUILD_FAILED = "build_failed"
    DECLINED = "declined"
    """The rewrite itself said that it does not apply."""
    REPEATED = "repeated"
    """The same text, up to comments and white space, was tried before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    number: int
    parent: str
    """Fingerprint of the incumbent that it was compared with."""
    base: str
    """Fingerprint of the text it was rewritten from: the incumbent's, or a stepping stone's."""
    fingerprint: str
    """Of its own text; empty where the rewrite declined."""
    skill: str
    parameters: tuple[tuple[str, int], ...]
    outcome: Outcome
    speedup: Interval | None
    """Over its parent; only for candidates that passed."""
    detail: str
    """The reason in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A rewrite that may be shown to the user: judged, measured, and faster beyond the noise."""

    unit_digest: str
    """Of the text that the edits apply to; on any other text they are void."""
    edits: tuple[TextEdit, ...]
    new_text: str
    speedup: Interval
    """Over the text that it replaces, measured in one run."""
    verdict: Passed
    timing: Timing
    """Of the subjects `kernel` (the rewrite), `parent` (what it replaces) and the baselines."""
    roofline: Roofline | None
    """Where the rewrite stands; None where the ceilings are not known."""
    skills: tuple[str, ...]
    """In the order applied, with parameters: `tile-for-cache (tile=64)`."""


# --- events -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    message: str
    fraction: float | None = None
    """0–1; None where it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    unit: KernelUnit
    build: Build


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    unit: KernelUnit
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    unit: KernelUnit
    timing: Timing
    roofline: Roofline | None
    """None until the ceilings are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiled:
    unit: KernelUnit
    profile: Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosed:
    unit: KernelUnit
    findings: tuple[Finding, ...]
    """By headroom, largest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    unit: KernelUnit
    decisions: tuple[SkillDecision, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    unit: KernelUnit
    attempt: Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The end of an optimisation."""

    unit: KernelUnit
    offer: Offer | None
    reason: str
    """Why it stopped: `at the memory limit`, `4 attempts without gain`, `budget of 120 s spent`."""
    attempts: tuple[Attempt, ...] = field(default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """Something of the machine that limits what can be said; each code is said once per session."""

    problem: Problem


Event: TypeAlias = Progress | Built | Judged | Timed | Profiled | Diagnosed | Decided | Tried | Finished | Noted
