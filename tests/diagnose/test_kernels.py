"""Kernels as real repositories have them: what is said of the naive ones, and that the sound ones stay quiet."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from kernel_lsp.diagnose import diagnose
from kernel_lsp.domain import Finding, Severity
from tests.diagnose.evidence import KERNELS, hot, kernel

WHILE_TYPING = {
    "allocation_per_row": {"KL512"},
    "blas_strided": set(),
    "box_overlap": set(),
    "channel_mean_nhwc": {"KL501"},
    "conv2d_direct": {"KL504"},
    "count_integers": set(),
    "double_on_purpose": set(),
    "embedding_gather": set(),
    "four_accumulators": set(),
    "gelu_double": {"KL507"},
    "gelu_float": set(),
    "histogram": set(),
    "invariant_pow": {"KL511"},
    "item_loop": {"KL510"},
    "layer_norm_columns": {"KL501"},
    "layer_norm_rows": set(),
    "list_of_outputs": set(),
    "matmul_ijk_accessor": {"KL501", "KL504"},
    "matmul_ijk_pointers": {"KL501"},
    "matmul_tiled": set(),
    "nms": set(),
    "pairwise_distance": {"KL505"},
    "prefix_sum": {"KL505"},
    "row_softmax_dispatch": {"KL505"},
    "row_sum_in_lambda": {"KL505"},
    "small_blur": set(),
    "transpose": {"KL501"},
}
"""Codes that the text alone gives."""

SERIAL = {
    "allocation_per_row",
    "blas_strided",
    "box_overlap",
    "channel_mean_nhwc",
    "conv2d_direct",
    "invariant_pow",
    "layer_norm_columns",
    "matmul_ijk_accessor",
    "matmul_ijk_pointers",
    "pairwise_distance",
    "row_softmax_dispatch",
    "transpose",
}
"""Those that keep one thread busy though an outer loop could be shared out."""


def codes(findings: tuple[Finding, ...]) -> set[str]:
    return {finding.code for finding in findings}


def describe(findings: tuple[Finding, ...]) -> list[str]:
    return [
        f"{f.code} {f.severity.value} {f.span.start.line + 1}:{f.span.start.column + 1} "
        f"headroom={'unknown' if f.headroom is None else format(f.headroom, '.2f')} {f.message}"
        for f in findings
    ]


def test_every_kernel_is_labelled() -> None:
    assert set(WHILE_TYPING) == {path.stem for path in KERNELS.glob("*.cpp")}
    assert set(WHILE_TYPING) >= SERIAL


@pytest.mark.parametrize("name", sorted(WHILE_TYPING))
def test_what_the_text_alone_gives(name: str) -> None:
    findings = diagnose(kernel(name))
    assert codes(findings) == WHILE_TYPING[name], describe(findings)
    assert all(finding.severity is Severity.HINT and finding.headroom is None for finding in findings)


@pytest.mark.parametrize("name", sorted(WHILE_TYPING))
def test_serial_loops_are_named_exactly_where_they_can_be_shared_out(name: str) -> None:
    features = kernel(name)
    found = codes(diagnose(features, profile=hot(features, busy_threads=1.02, threads=8)))
    assert ("KL503" in found) == (name in SERIAL)


@pytest.mark.parametrize("name", sorted(WHILE_TYPING))
def test_words_for_people(name: str, snapshot: SnapshotAssertion) -> None:
    features = kernel(name)
    findings = diagnose(features, profile=hot(features, busy_threads=1.02, threads=8))
    assert describe(findings) == snapshot
