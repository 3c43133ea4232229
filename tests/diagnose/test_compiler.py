"""Rules on what a real compiler says of real loops."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernel_lsp import process
from kernel_lsp.build.remarks import parse
from kernel_lsp.diagnose import RULES, diagnose
from kernel_lsp.diagnose.context import Context
from kernel_lsp.domain import Build, Features, Finding, Route
from tests.diagnose.evidence import hot, read

pytestmark = pytest.mark.compiler

PRELUDE = "#include <algorithm>\n#include <cmath>\n#include <cstdint>\n"


async def compiled(program: str, folder: Path) -> tuple[Features, Build]:
    source, notes = folder / "kernel.cpp", folder / "notes.txt"
    source.write_text(PRELUDE + program, encoding="utf-8")
    flags = ["-std=c++17", "-O3", "-march=native", "-fopenmp", f"-fopt-info-vec-optimized-missed={notes}"]
    done = await process.run(["g++", *flags, "-c", source, "-o", folder / "kernel.o"])
    assert done.ok, done.stderr
    build = Build(
        unit_digest="",
        artifact=None,
        route=Route.PLAIN,
        route_reason="",
        messages=(),
        remarks=parse(notes.read_text(encoding="utf-8"), [source]),
        seconds=0.0,
        cached=False,
    )
    return read(PRELUDE + program, source), build


async def findings_of(program: str, folder: Path) -> tuple[Finding, ...]:
    features, build = await compiled(program, folder)
    return diagnose(
        features, build=build, profile=hot(features, path=folder / "kernel.cpp"), path=folder / "kernel.cpp"
    )


def about(code: str) -> tuple[str, str]:
    documentation = next(rule.documentation for rule in RULES if rule.code == code)
    return documentation.example, documentation.instead


def codes(findings: tuple[Finding, ...]) -> set[str]:
    return {finding.code for finding in findings}


async def test_an_early_exit_is_not_vectorised_and_the_remedy_is(tmp_path: Path) -> None:
    example, instead = about("KL502")
    faulty = await findings_of(example, tmp_path)
    finding = next(finding for finding in faulty if finding.code == "KL502")
    assert "leaves early" in finding.message
    assert "control flow" in next(e.value for e in finding.evidence if e.name == "vectoriser")
    assert "KL502" not in codes(await findings_of(instead, tmp_path))


async def test_a_strict_sum_is_a_chain_whatever_the_compiler_says(tmp_path: Path) -> None:
    example, instead = about("KL505")
    faulty = await findings_of(example, tmp_path)
    assert "KL505" in codes(faulty)
    assert "KL502" not in codes(faulty)
    mended = await findings_of(instead, tmp_path)
    assert not {"KL505", "KL502"} & codes(mended)


async def test_a_library_call_is_the_reason(tmp_path: Path) -> None:
    program = """
void squash(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    y[i] = std::tanh(x[i]);
  }
}
"""
    finding = next(f for f in await findings_of(program, tmp_path) if f.code == "KL502")
    assert "it calls" in finding.message
    assert "tanh" in finding.message


TWICE = """
void twice(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    y[i] = 2 * x[i];
}
"""


async def test_a_vectorised_loop_is_no_fault_and_gives_the_lanes(tmp_path: Path) -> None:
    features, build = await compiled(TWICE, tmp_path)
    assert "KL502" not in codes(diagnose(features, build=build, profile=hot(features)))
    widths = [int(remark.reason.partition("-")[0]) for remark in build.remarks if remark.vectorized]
    assert Context(features, build=build).lanes == max(widths) // 4


EVERY_FAULT = """
void product(const float* a, const float* b, float* c, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t k = 0; k < n; ++k)
        c[i * n + j] += a[i * n + k] * b[k * n + j];
}
"""


async def test_one_cause_and_not_four_for_one_loop(tmp_path: Path) -> None:
    """g++ does not vectorise the loop, the total is in memory, the operand is read again: all because of the stride
    or treated by their own finding, never told twice."""
    found = await findings_of(EVERY_FAULT, tmp_path)
    assert [finding.code for finding in found] == ["KL501", "KL503", "KL504"]
    explained = [e.value[:5] for e in found[0].evidence if e.name == "explains"]
    assert explained == ["KL502", "KL506"]
