"""Severity, headroom, ranking, folding, and what is ruled out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_lsp.diagnose import RULES, diagnose
from kernel_lsp.diagnose.context import HOT_SHARE
from kernel_lsp.diagnose.samples import MIN_SAMPLES
from kernel_lsp.domain import Features, Finding, Severity
from tests.diagnose.evidence import KERNELS, PATH, build, cache, hot, kernel, line_of, profile, read, roofline

MATMUL = (KERNELS / "matmul_ijk_pointers.cpp").read_text(encoding="utf-8")
INNER = line_of(MATMUL, "sum += a")
HEADER = line_of(MATMUL, "int k = 0")


def find(findings: tuple[Finding, ...], code: str) -> Finding:
    return next(finding for finding in findings if finding.code == code)


def codes(findings: tuple[Finding, ...]) -> list[str]:
    return [finding.code for finding in findings]


@pytest.mark.parametrize(
    ("share", "expected"),
    [(HOT_SHARE, Severity.WARNING), (HOT_SHARE - 0.001, Severity.HINT), (0.02, Severity.HINT)],
)
def test_samples_make_a_warning(share: float, expected: Severity) -> None:
    finding = find(diagnose(read(MATMUL), profile=profile({INNER: share})), "KL501")
    assert finding.severity is expected


def test_a_cold_line_is_not_worth_a_word() -> None:
    assert diagnose(read(MATMUL), profile=profile({INNER: 0.005})) == ()


def test_too_few_samples_are_no_evidence() -> None:
    findings = diagnose(read(MATMUL), profile=profile({INNER: 1.0}, samples=MIN_SAMPLES - 1))
    assert findings
    assert all(finding.headroom is None and finding.severity is Severity.HINT for finding in findings)


def test_samples_in_another_file_are_not_on_our_lines() -> None:
    elsewhere = profile({INNER: 1.0}, path=Path("/work/header.h"))
    assert diagnose(read(MATMUL), profile=elsewhere, path=PATH) == ()
    assert codes(diagnose(read(MATMUL), profile=profile({INNER: 1.0}), path=PATH)) != []


def test_stride_headroom_follows_the_misses() -> None:
    counted = profile({INNER: 0.8}, cache=(cache(INNER, reads=2000, d1_misses=1000),))
    finding = find(diagnose(read(MATMUL), profile=counted), "KL501")
    assert finding.headroom is not None
    assert any(e.name == "D1 misses per access" and e.value == "0.50" for e in finding.evidence)
    # KL506 folds under it and lifts the bound to what tiling could save.
    assert 0.8 * (1 - (1 / 16) / 0.5) <= finding.headroom <= 0.8


def test_a_stride_that_the_cache_holds_is_ruled_out_by_number() -> None:
    cached = profile({INNER: 0.8}, cache=(cache(INNER, reads=2000, d1_misses=20),))
    findings = diagnose(read(MATMUL), profile=cached)
    assert "KL501" not in codes(findings)
    chain = find(findings, "KL505")
    assert any("0.010 D1 misses per access" in text for text in chain.ruled_out)


def test_the_chain_folds_under_the_stride_that_hides_it() -> None:
    findings = diagnose(read(MATMUL), profile=profile({INNER: 0.9}))
    assert "KL505" not in codes(findings)
    assert any(e.name == "explains" and e.value.startswith("KL505") for e in find(findings, "KL501").evidence)


def test_memory_limit_silences_everything_else() -> None:
    findings = diagnose(read(MATMUL), profile=profile({INNER: 0.9}), roofline=roofline(0.93, 0.2))
    assert codes(findings) == ["KL508"]
    assert findings[0].severity is Severity.INFORMATION
    assert findings[0].function == "matmul"
    assert "93 %" in findings[0].message


def test_compute_limit() -> None:
    assert codes(diagnose(read(MATMUL), roofline=roofline(0.2, 0.9))) == ["KL509"]


@pytest.mark.parametrize("share", [0.84, 0.5, 0.0])
def test_below_the_limit_it_is_ruled_out_by_number(share: float) -> None:
    findings = diagnose(read(MATMUL), profile=profile({INNER: 0.9}), roofline=roofline(share))
    assert not {"KL508", "KL509"} & set(codes(findings))
    assert any(f"not the memory limit: {share:.0%}".replace("%", " %") in t for t in findings[0].ruled_out)


def test_no_headroom_goes_beyond_the_roofline() -> None:
    findings = diagnose(read(MATMUL), profile=profile({INNER: 1.0}), roofline=roofline(0.7))
    assert all(finding.headroom is not None and finding.headroom <= 0.3 + 1e-9 for finding in findings)


def test_serial_needs_to_be_measured() -> None:
    for unknown in (
        profile({INNER: 1.0}, busy_threads=None),
        profile({INNER: 1.0}, threads=None),
        profile({INNER: 1.0}, threads=1),
        profile({INNER: 1.0}, busy_threads=3.0),
    ):
        assert "KL503" not in codes(diagnose(read(MATMUL), profile=unknown))


def test_busy_threads_rule_out_idle_ones() -> None:
    findings = diagnose(read(MATMUL), profile=profile({INNER: 1.0}, busy_threads=7.6))
    assert any(text == "not a lack of threads: 7.6 of 8 are busy" for text in findings[0].ruled_out)


def test_samples_in_a_helper_count_for_the_loop_that_calls_it() -> None:
    features = kernel("pairwise_distance")
    helper = next(f for f in features.functions if f.name == "distance").body_span.start.line + 3
    serial = find(diagnose(features, profile=profile({helper: 0.9})), "KL503")
    assert serial.function == "pairwise"
    assert serial.headroom == pytest.approx(0.9 * (1 - 1 / 8))


def test_vectorised_loops_are_no_complaint_and_rule_it_out() -> None:
    features = kernel("transpose")
    loop = next(loop for loop in features.loops if loop.is_innermost)
    told = build({loop.header_span.start.line: "32-byte vectors"})
    findings = diagnose(features, build=told, profile=hot(features))
    assert "KL502" not in codes(findings)
    assert any("vectorised this loop (32-byte vectors)" in text for text in findings[0].ruled_out)


def test_strict_order_sums_are_no_win_though_the_compiler_says_vectorized() -> None:
    features = kernel("row_sum_in_lambda")
    loop = next(loop for loop in features.loops if loop.is_innermost)
    told = build({loop.header_span.start.line: "32-byte vectors"})
    chain = find(diagnose(features, build=told, profile=hot(features)), "KL505")
    assert any(e.value == "32-byte vectors, in strict order" for e in chain.evidence)
    assert not any("scalar code" in text for text in chain.ruled_out)


def test_a_call_is_named_as_the_reason_and_not_the_chain() -> None:
    features = kernel("row_softmax_dispatch")
    loop = [loop for loop in features.loops if loop.is_innermost][1]
    told = build({loop.header_span.start.line: "calls expf, which has no vector form here"})
    where = dict.fromkeys([loop.body_span.start.line + 1], 0.8)
    findings = diagnose(features, build=told, profile=profile(where, busy_threads=8.0))
    assert codes(findings) == ["KL502"]
    assert "it calls `expf`" in findings[0].message


SQUASH = """\
#include <cmath>
void squash(const float* x, float* y, float* z, int n) {
  for (int i = 0; i < n; ++i)
    y[i] = std::tanh(x[i]);
  for (int j = 0; j < n; ++j)
    z[j] = std::exp(x[j]);
}
"""


def test_samples_in_the_mathematical_library_belong_to_the_loops_that_call_it() -> None:
    """`tanh` spends its time in `expm1`, which nobody calls by name: divided as the calling lines' samples are."""
    lines = {line_of(SQUASH, "y[i]"): 0.12, line_of(SQUASH, "z[j]"): 0.04}
    library = (("__expm1_fma (libm.so.6)", 0.4), ("__tanhf (libm.so.6)", 0.2), ("expf (libm.so.6)", 0.24))
    told = build({line_of(SQUASH, "int i"): "calls tanhf, which has no vector form here", 4: "no vectype for stmt"})
    findings = diagnose(read(SQUASH), build=told, profile=profile(lines, outside=library, busy_threads=8.0))
    assert codes(findings) == ["KL502", "KL502"]
    shares = [next(e.value for e in f.evidence if e.name == "share of samples") for f in findings]
    assert shares == ["62 %", "38 %"]  # 0.12 + 0.2 + 3/4 of 0.4; 0.04 + 0.24 + 1/4 of 0.4
    assert ["`tanhf`" in f.message or "`std::exp`" in f.message for f in findings] == [True, True]


def test_threads_that_wait_in_openmp_are_not_at_work() -> None:
    """Torch's pool spins after a parallel operator: CPU time of two threads, work of one."""
    spinning = profile({INNER: 0.5}, outside=(("libgomp.so.1", 0.5),), busy_threads=2.0, threads=2)
    serial = find(diagnose(read(MATMUL), profile=spinning), "KL503")
    assert "one of 2 threads" in serial.message
    assert serial.headroom == pytest.approx(0.5)
    assert serial.evidence[0].value == "100 % of those outside OpenMP's waits"


def test_a_reason_from_another_place_is_not_repeated() -> None:
    features = kernel("transpose")
    loop = next(loop for loop in features.loops if loop.is_innermost)
    remarks = build({loop.header_span.start.line: "calls f, which has no vector form here"})
    remarks = replace(remarks, remarks=tuple(replace(remark, cause_line=98) for remark in remarks.remarks))
    cached = tuple(cache(line) for line in range(40))
    finding = find(diagnose(features, build=remarks, profile=hot(features, cache=cached)), "KL502")
    assert "calls" not in finding.message
    assert "the compiler could not vectorise it" in finding.message


def test_a_rooted_branch_is_the_roots() -> None:
    text = "void f(const float* x, float* y, int n) {\n  for (int i = 0; i < n; ++i)\n    y[i] = std::sqrt(x[i]);\n}\n"
    findings = diagnose(read(text), build=build({1: "control flow in loop"}), profile=profile({2: 1.0}))
    assert "`std::sqrt` branches where it may have to set `errno`" in find(findings, "KL502").message


BY_COLUMNS = """\
void copy(const float* x, float* y, int n, int m) {
  for (int j = 0; j < m; ++j)
    for (int i = 0; i < n; ++i)
      y[i * m + j] = x[i * m + j];
}
"""


def test_misses_weigh_no_more_than_the_time_that_they_take() -> None:
    """A stride whose misses are few against the instructions has little to save."""
    line = line_of(BY_COLUMNS, "y[i * m + j]")
    few = profile({line: 1.0}, busy_threads=8.0, cache=(cache(line, reads=1000, d1_misses=150),))
    many = profile({line: 1.0}, busy_threads=8.0, cache=(cache(line, reads=1000, d1_misses=900, ll_misses=900),))
    (little,), (much,) = diagnose(read(BY_COLUMNS), profile=few), diagnose(read(BY_COLUMNS), profile=many)
    # KCachegrind's estimate: 1,500 cycles of misses beside 1,000 of instructions at four a cycle.
    assert little.headroom == pytest.approx(1500 / 2500 * (1 - (1 / 16) / 0.15))
    assert much.headroom == pytest.approx(99_000 / 100_000 * (1 - (1 / 16) / 0.9))


ROW_SUMS = """\
void f(const float* x, float* out, int n, int m) {
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < m; ++j)
      out[i] += x[i * m + j];
}
"""


def test_a_store_per_step_tells_memory_from_register() -> None:
    stored = profile({3: 1.0}, busy_threads=8.0, cache=(cache(3, reads=2000, writes=1000, d1_misses=60),))
    kept = profile({3: 1.0}, busy_threads=8.0, cache=(cache(3, reads=2000, writes=2, d1_misses=60),))
    assert codes(diagnose(read(ROW_SUMS), profile=stored)) == ["KL504"]
    assert codes(diagnose(read(ROW_SUMS), profile=kept)) == []


KERNEL_NAMES = sorted(path.stem for path in KERNELS.glob("*.cpp"))
FEATURES: dict[str, Features] = {}


def features_of(name: str) -> Features:
    if name not in FEATURES:
        FEATURES[name] = kernel(name)
    return FEATURES[name]


@given(
    name=st.sampled_from(KERNEL_NAMES),
    weights=st.lists(st.floats(0, 1), min_size=1, max_size=60),
    busy=st.one_of(st.none(), st.floats(0.1, 64)),
    threads=st.one_of(st.none(), st.integers(1, 64)),
    memory=st.floats(0, 1),
    compute=st.one_of(st.none(), st.floats(0, 1)),
    misses=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 10_000)), max_size=60),
)
def test_whatever_the_evidence_findings_are_sane_ranked_and_repeatable(
    *,
    name: str,
    weights: list[float],
    busy: float | None,
    threads: int | None,
    memory: float,
    compute: float | None,
    misses: list[tuple[int, int]],
) -> None:
    total = sum(weights) or 1.0
    taken = profile(
        {line: weight / total for line, weight in enumerate(weights)},
        busy_threads=busy,
        threads=threads,
        cache=tuple(cache(n, reads=r, d1_misses=min(r, m)) for n, (r, m) in enumerate(misses)),
    )
    position = roofline(memory, compute)
    findings = diagnose(features_of(name), profile=taken, roofline=position)
    assert findings == diagnose(features_of(name), profile=taken, roofline=position)
    known = [finding.headroom for finding in findings if finding.headroom is not None]
    assert all(0 <= headroom <= 1 for headroom in known)
    assert known == sorted(known, reverse=True)
    assert len({(f.code, f.span) for f in findings}) == len(findings)
    assert {f.code for f in findings} <= {rule.code for rule in RULES}
    if position.share >= 0.85:
        assert {f.severity for f in findings} <= {Severity.INFORMATION}


def test_of_device_code_only_what_holds_on_a_gpu_is_said() -> None:
    text = """
__global__ void columns(const float* x, float* y, int n, int rows) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int r = 0; r < rows; ++r) y[i] += 0.5 * x[r * n + i];
}
"""
    assert {finding.code for finding in diagnose(read(text, Path("k.cu")))} == {"KL507"}
    on_the_host = text.replace("__global__", "")
    assert "KL504" in {finding.code for finding in diagnose(read(on_the_host, Path("k.cu")))}
