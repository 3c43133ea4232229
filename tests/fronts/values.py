"""Realistic values for tests of what people read."""

from __future__ import annotations

from pathlib import Path

from kernel_lsp.domain import (
    Artifact,
    ArtifactKind,
    BindingStyle,
    BoundArgument,
    Build,
    CompilerMessage,
    Counter,
    ErrorStatistics,
    Evidence,
    Finding,
    Function,
    Interval,
    KernelUnit,
    Language,
    LineSamples,
    Location,
    Mismatch,
    Offer,
    Parameter,
    Passed,
    Position,
    Problem,
    Profile,
    Role,
    Roofline,
    Route,
    Samples,
    Severity,
    Span,
    TensorShape,
    TextEdit,
    Timing,
    TypeKind,
    Workload,
    WorkloadResult,
    WorstElement,
)
from kernel_lsp.source.edits import digest

PATH = Path("/project/kernels/scale.cpp")
TEXT = """\
#include <cstdint>

extern "C" void scale(const float* x, float* y, int64_t rows, int64_t cols) {
\tfor (int64_t j = 0; j < cols; ++j)
\t\tfor (int64_t i = 0; i < rows; ++i)
\t\t\ty[i * cols + j] = 2.0 * x[i * cols + j];  // Größe
}
"""
FASTER = TEXT.replace(
    "\tfor (int64_t j = 0; j < cols; ++j)\n\t\tfor (int64_t i = 0; i < rows; ++i)\n",
    "\tfor (int64_t i = 0; i < rows; ++i)\n\t\tfor (int64_t j = 0; j < cols; ++j)\n",
)


def span(line: int, start: int, end: int) -> Span:
    return Span(start=Position(line=line, column=start), end=Position(line=line, column=end))


def parameter(name: str, type: str, kind: TypeKind, *, is_const: bool) -> Parameter:
    return Parameter(name=name, type=type, kind=kind, is_const=is_const)


ENTRY = Function(
    name="scale",
    qualified_name="scale",
    returns="void",
    returns_kind=TypeKind.VOID,
    parameters=(
        parameter("x", "const float *", TypeKind.POINTER, is_const=True),
        parameter("y", "float *", TypeKind.POINTER, is_const=False),
        parameter("rows", "int64_t", TypeKind.INTEGER, is_const=False),
        parameter("cols", "int64_t", TypeKind.INTEGER, is_const=False),
    ),
    span=Span(start=Position(line=2, column=0), end=Position(line=6, column=1)),
    name_span=span(2, 16, 21),
    body_span=Span(start=Position(line=2, column=76), end=Position(line=6, column=1)),
    is_extern_c=True,
)
UNIT = KernelUnit(
    path=PATH,
    text=TEXT,
    digest=digest(TEXT),
    language=Language.CPP,
    style=BindingStyle.EXTERN_C,
    entry=ENTRY,
    entry_name="scale",
    siblings=(),
    reference=PATH.with_suffix(".py"),
    directives=(),
    problem=None,
)
WORKLOAD = Workload(name="as given", inputs=(TensorShape(dtype="float32", shape=(1024, 2048)),), seed=271828)
JITTERED = Workload(name="ROWS=17", inputs=(TensorShape(dtype="float32", shape=(17, 2048)),), seed=314159)

EXACT = ErrorStatistics(
    elements=2097152,
    wrong=0,
    max_abs=1.3e-7,
    max_rel_spread=1.3e-7,
    torch_max_abs=1.1e-7,
    tolerance=2.4e-6,
    allclose=True,
)
OFF = ErrorStatistics(
    elements=34816,
    wrong=17,
    max_abs=0.0313,
    max_rel_spread=0.0311,
    torch_max_abs=3.1e-7,
    tolerance=1.2e-5,
    allclose=False,
)
PASSED = Passed(
    results=(
        WorkloadResult(workload=WORKLOAD, statistics=EXACT),
        WorkloadResult(workload=JITTERED, statistics=EXACT),
    ),
    binding=(
        BoundArgument(parameter="x", role=Role.INPUT, source="input x"),
        BoundArgument(parameter="y", role=Role.OUTPUT, source="output"),
        BoundArgument(parameter="rows", role=Role.SCALAR, source="constant ROWS"),
    ),
    notes=("COLS=1 refused by the reference",),
)
MISMATCH = Mismatch(
    output="output",
    workload=JITTERED,
    worst=WorstElement(index=(16, 2047), expected="0.73121", got="0.70000"),
    statistics=OFF,
    explanation="only the last column",
)


def samples(subject: str, *us: float) -> Samples:
    return Samples(subject=subject, us=us)


TIMING = Timing(
    workload=WORKLOAD,
    samples=(
        samples("kernel", 20100.0, 20900.0, 21000.0, 20700.0, 20850.0, 20950.0, 20800.0, 20870.0),
        samples("eager", 1600.0, 1650.0, 1620.0, 1610.0, 1640.0, 1615.0, 1625.0, 1632.0),
        samples("compiled", 1400.0, 1440.0, 1420.0, 1415.0, 1430.0, 1410.0, 1425.0, 1428.0),
    ),
    threads=2,
    cold_cache=True,
)
SEARCHED = Timing(
    workload=WORKLOAD,
    samples=(
        samples("kernel", 1700.0, 1720.0, 1715.0, 1708.0, 1712.0, 1709.0, 1716.0, 1711.0),
        samples("parent", 20100.0, 20900.0, 21000.0, 20700.0, 20850.0, 20950.0, 20800.0, 20870.0),
        samples("eager", 1600.0, 1790.0, 1720.0, 1610.0, 1640.0, 1815.0, 1825.0, 1712.0),
    ),
    threads=2,
    cold_cache=True,
)
ROOFLINE = Roofline(
    compulsory_bytes=16777216, flops=2097152, time_us=20860.0, memory_share=0.0893, compute_share=0.0006
)
FINDING = Finding(
    code="KL501",
    rule="strided-inner-access",
    message="`y` moves `cols` elements with every step of `i`; along `j` it would be contiguous.",
    severity=Severity.WARNING,
    span=span(5, 3, 18),
    function="scale",
    loop=1,
    evidence=(
        Evidence(name="share of samples", value="97 %", source="perf"),
        Evidence(name="D1 misses per access", value="1.00", source="cachegrind"),
    ),
    headroom=0.91,
    ruled_out=("not the memory limit: 9 % of it is reached",),
)
PROFILE = Profile(
    unit_digest=UNIT.digest,
    tool="perf 6.1.192 + cachegrind 3.19.0",
    samples=512,
    lines=(
        LineSamples(location=Location(path=PATH, span=Span.line(5)), count=496, share=0.969),
        LineSamples(location=Location(path=PATH, span=Span.line(4)), count=3, share=0.006),
    ),
    outside=(("libc.so.6", 0.02), ("[unknown]", 0.005)),
    cache=(),
    counters=(Counter(name="cycles", value=61234567.0, unit=""),),
    busy_threads=1.0,
    threads=2,
    problems=(),
)
ERROR = CompilerMessage(
    severity=Severity.ERROR,
    text="'z' was not declared in this scope",
    location=Location(path=PATH, span=span(5, 21, 24)),
    related=((Location(path=PATH, span=span(2, 16, 21)), "in this function"),),
)
WARNING = CompilerMessage(
    severity=Severity.WARNING,
    text="unused variable 'n'",
    location=Location(path=PATH, span=span(3, 1, 4)),
    option="-Wunused-variable",
)


def build(*messages: CompilerMessage, failed: bool = False, cached: bool = False, route: Route = Route.PLAIN) -> Build:
    artifact = Artifact(path=Path("/cache/scale.so"), kind=ArtifactKind.C_LIBRARY, name="", digest="0" * 64)
    return Build(
        unit_digest=UNIT.digest,
        artifact=None if failed else artifact,
        route=route,
        route_reason="uses at::softmax, which the thin layer lacks" if route is Route.WHOLE else "",
        messages=messages,
        remarks=(),
        seconds=0.142,
        cached=cached,
    )


OFFER = Offer(
    unit_digest=UNIT.digest,
    edits=(
        TextEdit(
            span=Span(start=Position(line=3, column=0), end=Position(line=5, column=0)),
            new_text="\tfor (int64_t i = 0; i < rows; ++i)\n\t\tfor (int64_t j = 0; j < cols; ++j)\n",
        ),
    ),
    new_text=FASTER,
    speedup=Interval(low=12.1, mid=12.2, high=12.27),
    verdict=PASSED,
    timing=SEARCHED,
    roofline=ROOFLINE,
    skills=("interchange-loops", "tile-for-cache (tile=64)"),
)
NO_REFERENCE = Problem(
    code="no-reference",
    message="scale.cpp has no Torch reference",
    hint="add scale.py beside it, or name one with `// kernel-lsp: reference=…`",
)
NO_PERF = Problem(
    code="perf-not-permitted", message="perf may not sample here", hint="run: sudo sysctl kernel.perf_event_paranoid=2"
)
