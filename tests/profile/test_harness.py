from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kernel_lsp.build.toolchain import Toolchain
from kernel_lsp.domain import Function, Parameter, Problem, Route, Span, TensorShape, TypeKind
from kernel_lsp.messages import CapturedArgument
from kernel_lsp.profile import cachegrind, harness
from kernel_lsp.profile.lines import UserFiles
from kernel_lsp.settings import Settings
from tests.profile.kernels import COLUMN_SUMS, built, extern_c_unit
from tests.profile.standin import StandIn

AVX2 = frozenset({"avx2", "fma"})
AVX512 = frozenset({"avx2", "fma", "avx512f"})


def parameter(type_text: str, kind: TypeKind) -> Parameter:
    return Parameter(name="p", type=type_text, kind=kind, is_const=False)


def entry_of(*parameters: Parameter) -> Function:
    return Function(
        name="k",
        qualified_name="k",
        returns="void",
        returns_kind=TypeKind.VOID,
        parameters=parameters,
        span=Span.line(0),
        name_span=Span.line(0),
        body_span=Span.line(0),
        is_extern_c=True,
    )


def test_flags_stay_where_valgrind_knows_the_processor() -> None:
    flags = Settings().flags
    assert harness.portable_flags(flags, AVX2) is flags


def test_flags_lose_what_valgrind_does_not_know() -> None:
    flags = ("-O3", "-march=native", "-mavx512f", "-mprefer-vector-width=512", "-mfma", "-fopenmp")
    assert harness.portable_flags(flags, AVX512) == ("-O3", "-mfma", "-fopenmp", "-march=x86-64-v3")


def test_machine_types_of_parameters() -> None:
    text = harness.c_source(
        entry_of(
            parameter("const float *", TypeKind.POINTER),
            parameter("const unsigned int", TypeKind.INTEGER),
            parameter("index_t", TypeKind.INTEGER),
            parameter("float", TypeKind.FLOAT),
            parameter("const double", TypeKind.FLOAT),
            parameter("bool", TypeKind.BOOL),
        )
    )
    assert isinstance(text, str)
    assert "void (*)(void*, unsigned int, long long, float, double, bool)" in text


def test_a_parameter_that_cannot_be_passed() -> None:
    problem = harness.c_source(entry_of(parameter("Options", TypeKind.OTHER)))
    assert isinstance(problem, Problem)
    assert "`Options`" in problem.message


def argument(**given: object) -> CapturedArgument:
    fields = {"parameter": "p", "tensor": None, "file": None, "number": None, "is_output": False} | given
    return CapturedArgument(**fields)  # type: ignore[arg-type]


def test_arguments_become_words() -> None:
    entry = entry_of(*[parameter("float *", TypeKind.POINTER)] * 3, parameter("int", TypeKind.INTEGER))
    words = harness.command_line(
        entry,
        (
            argument(tensor=TensorShape(dtype="float32", shape=(3, 4)), file="0.bin"),
            argument(tensor=TensorShape(dtype="int64", shape=(5,)), is_output=True),
            argument(tensor=TensorShape(dtype="float64", shape=()), file="2.bin"),
            argument(number="-7"),
        ),
    )
    assert words == ("0.bin 48 float32 3,4", "- 40 int64 5", "2.bin 8 float64", "-7")


@pytest.mark.parametrize(
    "captured",
    [(), (argument(),), (argument(tensor=TensorShape(dtype="quint4x2", shape=(2,)), file="0.bin"),)],
    ids=["none", "no value", "unknown type"],
)
def test_arguments_that_cannot_be_given(captured: tuple[CapturedArgument, ...]) -> None:
    found = harness.command_line(entry_of(parameter("float *", TypeKind.POINTER)), captured)
    assert isinstance(found, Problem)
    assert found.code == "cachegrind-failed"


async def count(tmp_path: Path, text: str, worker: StandIn, **changes: object) -> object:
    settings = Settings(cache_dir=str(tmp_path / "cache"))
    unit = extern_c_unit(tmp_path / "k.cpp", text)
    build, subject, toolchain = await built(unit, settings)
    assert isinstance(toolchain, Toolchain)
    return await cachegrind.measure(
        unit,
        replace(build, **changes),  # type: ignore[arg-type]
        subject,
        worker,  # type: ignore[arg-type]
        toolchain=toolchain,
        settings=settings,
        files=UserFiles.of(unit, settings.flags),
        cpu_us=1e9,
    )


@pytest.mark.compiler
async def test_a_kernel_that_needs_all_of_torch(tmp_path: Path) -> None:
    if isinstance(await cachegrind.version(), Problem):
        pytest.skip("no valgrind")
    problem = await count(tmp_path, COLUMN_SUMS, StandIn(), route=Route.WHOLE, route_reason="uses at::softmax")
    assert isinstance(problem, Problem)
    assert problem.code == "cachegrind-needs-thin"
    assert "uses at::softmax" in problem.message


@pytest.mark.tools
async def test_a_slow_kernel_is_tried_on_smaller_shapes_and_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(await cachegrind.version(), Problem):
        pytest.skip("no valgrind")
    monkeypatch.setattr(cachegrind, "RUN_TIMEOUT_S", 0.05)
    worker = StandIn(64 * 64, 64, 64, 64)
    problem = await count(tmp_path, COLUMN_SUMS, worker)
    assert isinstance(problem, Problem)
    assert problem.code == "cachegrind-failed"
    assert worker.captured_elements == list(cachegrind.SHRUNK_ELEMENTS)


@pytest.mark.tools
async def test_a_kernel_that_crashes_under_cachegrind(tmp_path: Path) -> None:
    if isinstance(await cachegrind.version(), Problem):
        pytest.skip("no valgrind")
    crash = 'extern "C" void crash(float* x, long n) {\n  *reinterpret_cast<volatile int*>(n) = 1;\n}\n'
    problem = await count(tmp_path, crash, StandIn(4, 8))
    assert isinstance(problem, Problem)
    assert problem.code == "cachegrind-failed"
