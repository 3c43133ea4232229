"""Real kernels, real torch: every end that a kernel can come to, and honest kernels that must pass."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kernel_lsp.domain import Crashed, Mismatch, Passed, Problem, Rejected, TimedOut, Verdict
from kernel_lsp.evaluate import Worker
from kernel_lsp.messages import Effort
from kernel_lsp.settings import Settings
from tests.worker.kernels import build, judge, reference, running

pytestmark = [pytest.mark.torch, pytest.mark.compiler, pytest.mark.asyncio(loop_scope="module")]

ADD = """
import torch
N = 1000
def reference(x, y):
    return x + y
def inputs():
    return torch.randn(N), torch.randn(N)
"""
HONEST = """
void add(const float* x, const float* y, float* out, int n) {
    for (int i = 0; i < n; i++) out[i] = x[i] + y[i];
}
"""


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def worker() -> AsyncIterator[Worker]:
    async with running(Settings(timeout_s=6.0)) as started:
        yield started


async def verdict(
    worker: Worker, folder: Path, code: str, text: str = ADD, effort: Effort = Effort.FULL, **options: object
) -> Verdict | Problem:
    subject = build(folder, code, **options)  # type: ignore[arg-type]
    verdicts, _ = await judge(worker, reference(folder, text), subject, effort)
    assert len(verdicts) == 1
    return verdicts[0]


@pytest.mark.parametrize("effort", Effort)
async def test_an_honest_kernel_passes(worker: Worker, tmp_path: Path, effort: Effort) -> None:
    passed = await verdict(worker, tmp_path, HONEST, effort=effort)
    assert isinstance(passed, Passed)
    names = [result.workload.name for result in passed.results]
    assert names[0] == "as given"
    assert "as given, seed 2" in names
    assert any(name.startswith("N=") for name in names)
    assert [b.source for b in passed.binding] == ["input x", "input y", "output 0", "constant N"]
    assert len({result.workload.seed for result in passed.results}) == len(names)


FAULTS = {
    "unwritten tail": ("for (int i = 0; i < n; i++)", "for (int i = 0; i < n / 8 * 8; i++)", "left unwritten"),
    "one element": ("out[i] = x[i] + y[i];", "out[i] = x[i] + (i == 7 ? 0 : y[i]);", "only the element at [7]"),
    "zeros": ("out[i] = x[i] + y[i]", "out[i] = 0", "each zero"),
    "factor": ("out[i] = x[i] + y[i]", "out[i] = 2 * (x[i] + y[i])", "each 2 times the right value"),
    "offset": ("out[i] = x[i] + y[i]", "out[i] = x[i] + y[i] + 1", "each off by +1"),
    "half": ("out[i] = x[i] + y[i]", "out[i] = roundf((x[i] + y[i]) * 1024) / 1024", "precision of half"),
    "scalar": ("i < n;", "i < 1000 && i < n;", ""),
    "nothing": ("out[i] = x[i] + y[i];", ";", "left unwritten"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_wrong_value_is_a_mismatch_in_words(worker: Worker, tmp_path: Path, fault: str) -> None:
    old, new, words = FAULTS[fault]
    wrong = await verdict(worker, tmp_path, HONEST.replace(old, new))
    assert isinstance(wrong, Mismatch), wrong
    assert words in wrong.explanation
    assert wrong.worst is not None
    assert wrong.output == "out"
    assert wrong.statistics is not None
    assert wrong.statistics.wrong > 0


CRASHES = {
    "exit": ("exit(0);", "called exit(0) during the call"),
    "_exit": ("_Exit(3);", "called exit(3) during the call"),
    "abort": ("abort();", "aborted"),
    "null": ("*(volatile int*)0 = 1;", "segmentation fault"),
    "division": (
        "volatile int zero = 0; volatile int one = n / zero;",
        "floating-point exception (an integer division by zero)",
    ),
    "past the end by far": ("out[n + 5000] = 1;", "segmentation fault"),
}


@pytest.mark.parametrize("crash", CRASHES)
async def test_a_crash_is_named(worker: Worker, tmp_path: Path, crash: str) -> None:
    line, what = CRASHES[crash]
    crashed = await verdict(worker, tmp_path, HONEST.replace("for (", f"{line} for ("))
    assert isinstance(crashed, Crashed), crashed
    assert crashed.what == what
    assert crashed.workload is not None
    assert crashed.workload.name == "as given"


async def test_a_crash_while_loading_is_named(worker: Worker, tmp_path: Path) -> None:
    crashed = await verdict(worker, tmp_path, "__attribute__((constructor)) static void boom() { exit(5); }" + HONEST)
    assert isinstance(crashed, Crashed)
    assert crashed.what == "called exit(5) while it was loaded"


async def test_memory_exhaustion_harms_nobody(tmp_path: Path) -> None:
    greedy = "for (;;) { char* p = (char*)malloc(1 << 26); if (!p) abort(); p[0] = 1; }"
    async with running(Settings(timeout_s=20.0, memory_gb=0.5)) as small:
        crashed = await verdict(small, tmp_path, HONEST.replace("for (", f"{greedy} for (", 1))
    assert isinstance(crashed, Crashed)
    assert crashed.what == "aborted"


async def test_what_it_printed_is_shown(worker: Worker, tmp_path: Path) -> None:
    code = HONEST.replace("for (", 'printf("row %d\\n", n); fflush(stdout); abort(); for (')
    crashed = await verdict(worker, tmp_path, "#include <cstdio>\n" + code)
    assert isinstance(crashed, Crashed)
    assert crashed.output_tail == "row 1000\n"


async def test_a_gigabyte_of_output_neither_blocks_nor_counts(worker: Worker, tmp_path: Path) -> None:
    line = "static char big[1 << 20]; memset(big, 120, sizeof big); static int once; if (!once++) "
    line += "for (int k = 0; k < 1024; k++) fwrite(big, 1, sizeof big, stdout);"
    code = "#include <cstdio>\n#include <cstring>\n" + HONEST.replace("for (", f"{line} for (", 1)
    assert isinstance(await verdict(worker, tmp_path, code, effort=Effort.QUICK), Passed)


async def test_an_endless_loop_times_out_with_its_children(worker: Worker, tmp_path: Path) -> None:
    flag = tmp_path / "pid"
    code = "#include <cstdio>\n#include <unistd.h>\n" + HONEST.replace(
        "for (",
        f'if (fork() == 0) {{ setsid(); FILE* f = fopen("{flag}", "w"); fprintf(f, "%d", getpid()); fclose(f); '
        "for (;;) pause(); } for (volatile int k = 0;; k++); for (",
        1,
    )
    late = await verdict(worker, tmp_path, code)
    assert isinstance(late, TimedOut)
    assert late.seconds == 6.0
    assert flag.read_text() not in {entry.name for entry in os.scandir("/proc")}


async def test_changed_inputs_are_rejected(worker: Worker, tmp_path: Path) -> None:
    code = HONEST.replace("out[i] = x[i] + y[i];", "out[i] = x[i] + y[i]; ((float*)x)[3] = 0;")
    rejected = await verdict(worker, tmp_path, code)
    assert isinstance(rejected, Rejected), rejected
    assert rejected.rule == "changed-inputs"
    assert rejected.evidence.startswith("1 of 1000 elements of `x`")


@pytest.mark.parametrize(("index", "words"), [("n", "past the end of `out`"), ("-1", "before the start of `out`")])
async def test_a_write_just_outside_is_rejected(worker: Worker, tmp_path: Path, index: str, words: str) -> None:
    rejected = await verdict(worker, tmp_path, HONEST.replace("for (", f"out[{index}] = 0; for (", 1))
    assert isinstance(rejected, Rejected), rejected
    assert rejected.rule == "out-of-bounds-write"
    assert words in rejected.evidence


async def test_memory_from_before_is_not_there(worker: Worker, tmp_path: Path) -> None:
    # The scratch memory of an earlier call holds the right sums of that call, unless somebody wrote over it.
    code = """
    void add(const float* x, const float* y, float* out, int n) {
        float* t = (float*)malloc(n * sizeof(float) + 100000);
        for (int i = 0; i < n; i++) t[i] += x[i] + y[i];
        for (int i = 0; i < n; i++) out[i] = t[i];
        free(t);
    }
    """
    assert isinstance(await verdict(worker, tmp_path, code), Mismatch)


async def test_a_result_that_depends_on_the_run_is_a_mismatch(worker: Worker, tmp_path: Path) -> None:
    code = HONEST.replace("for (", "static int runs; runs++; for (").replace("+ y[i]", "+ y[i] * (runs != 2)")
    wrong = await verdict(worker, tmp_path, code)
    assert isinstance(wrong, Mismatch)
    assert wrong.explanation.startswith("differs between runs with equal inputs: right at first, wrong in run 2")


async def test_bitwise_differences_are_only_noted(worker: Worker, tmp_path: Path) -> None:
    code = HONEST.replace("for (", "static int runs; runs++; for (").replace(
        "x[i] + y[i]", "(x[i] + y[i]) * (1 + (runs == 2) * 1.2e-7f)"
    )
    passed = await verdict(worker, tmp_path, code)
    assert isinstance(passed, Passed), passed
    assert passed.notes == ("results differ bitwise between runs with equal inputs, within the tolerance",)


async def test_the_environment_holds_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "1")
    code = HONEST.replace("for (", 'if (getenv("SOME_API_KEY")) abort(); for (')
    async with running() as fresh:
        assert isinstance(await verdict(fresh, tmp_path, code, effort=Effort.QUICK), Passed)


RELU = """
import torch
N = 999
def reference(x):
    return torch.relu(x)
def inputs():
    return (torch.rand(N),)
"""


async def test_inputs_of_one_sign_do_not_hide_a_branch(worker: Worker, tmp_path: Path) -> None:
    code = "void relu(const float* x, float* y, int n) {\n for (int i = 0; i < n; i++) y[i] = x[i]; }"
    wrong = await verdict(worker, tmp_path, code, RELU)
    assert isinstance(wrong, Mismatch)
    assert wrong.workload.name == "mixed sign"


SUM = """
import torch
ROWS = 8
COLS = 65536
def reference(x):
    return x.sum(1)
def inputs():
    return (torch.rand(ROWS, COLS),)
"""


@pytest.mark.parametrize("columns", [4096, 65536])
async def test_a_plain_sequential_sum_passes(worker: Worker, tmp_path: Path, columns: int) -> None:
    code = """
    void row_sum(const float* x, float* y, int rows, int cols) {
        for (int r = 0; r < rows; r++) {
            float s = 0;
            for (int c = 0; c < cols; c++) s += x[(long)r * cols + c];
            y[r] = s;
        }
    }
    """
    assert isinstance(await verdict(worker, tmp_path, code, SUM.replace("65536", str(columns))), Passed)


MATMUL = """
import torch
M = 48
K = 512
N = 64
class Model(torch.nn.Module):
    def __init__(self, k, n):
        super().__init__()
        self.linear = torch.nn.Linear(k, n)
    def forward(self, x):
        return self.linear(x)
def get_inputs():
    return [torch.rand(M, K)]
def get_init_inputs():
    return [K, N]
"""
LINEAR = """
void linear(const float* x, const float* linear_weight, const float* bias, float* out, int m, int k, int n) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float s = 0;
            for (int q = 0; q < k; q++) s += x[i * k + q] * linear_weight[j * k + q];
            out[i * n + j] = s + bias[j];
        }
}
"""


async def test_a_model_of_the_benchmark_style_passes(worker: Worker, tmp_path: Path) -> None:
    passed = await verdict(worker, tmp_path, LINEAR, MATMUL)
    assert isinstance(passed, Passed), passed
    assert [b.source for b in passed.binding] == [
        "input x", "model.linear_weight", "model.bias", "output 0", "constant M", "model.k", "model.n",
    ]  # fmt: skip


async def test_arithmetic_in_a_narrower_type_is_named(worker: Worker, tmp_path: Path) -> None:
    rounded = "static float r(float v) { union { float f; uint32_t u; } w = {v}; w.u = (w.u + 0x1000) & 0xFFFFE000; "
    code = (
        rounded
        + "return w.f; }\n"
        + LINEAR.replace("x[i * k + q] * linear_weight[j * k + q]", "r(x[i * k + q]) * r(linear_weight[j * k + q])")
    )
    wrong = await verdict(worker, tmp_path, code, MATMUL)
    assert isinstance(wrong, Mismatch), wrong
    assert "precision of half or TF32" in wrong.explanation


async def test_a_contract_in_place(worker: Worker, tmp_path: Path) -> None:
    text = "import torch\nN = 300\ndef reference(x):\n    x.mul_(2)\ndef inputs():\n    return (torch.randn(N),)\n"
    code = "void twice(float* x, int n) {\n for (int i = 0; i < n; i++) x[i] *= 2; }"
    assert isinstance(await verdict(worker, tmp_path, code, text), Passed)
    wrong = await verdict(worker, tmp_path, code.replace("*= 2", "*= 3"), text)
    assert isinstance(wrong, Mismatch)
    assert wrong.output == "x"
    assert "each 1.5 times the right value" in wrong.explanation


async def test_an_output_may_ask_for_zeros(worker: Worker, tmp_path: Path) -> None:
    code = HONEST.replace("out[i] =", "out[i] +=")
    assert isinstance(await verdict(worker, tmp_path, code), Mismatch)
    assert isinstance(await verdict(worker, tmp_path, code, directives=(("out", "zero"),)), Passed)


async def test_integers_several_outputs_and_extra_arguments(worker: Worker, tmp_path: Path) -> None:
    text = """
import torch
N = 500
def reference(x):
    return x.abs(), (x > 0)
def inputs():
    return (torch.randint(-9, 9, (N,), dtype=torch.int32),)
def arguments(x):
    return {"count": x.numel()}
"""
    code = """
    void both(const int* x, int* a, bool* positive, int64_t count) {
        for (int64_t i = 0; i < count; i++) { a[i] = abs(x[i]); positive[i] = x[i] > 0; }
    }
    """
    passed = await verdict(worker, tmp_path, code, text)
    assert isinstance(passed, Passed), passed
    assert passed.results[0].statistics is None
    wrong = await verdict(worker, tmp_path, code.replace("positive[i] = x[i] > 0;", ""), text)
    assert isinstance(wrong, Mismatch)
    assert "left unwritten" in wrong.explanation


async def test_not_a_number_and_infinity_where_they_are_due(worker: Worker, tmp_path: Path) -> None:
    text = ADD.replace("x + y", "torch.where(x > 1, torch.log(-x), y / torch.zeros_like(y))")
    code = HONEST.replace("x[i] + y[i]", "x[i] > 1 ? NAN : y[i] / 0.0f")
    assert isinstance(await verdict(worker, tmp_path, code, text), Passed)
    assert isinstance(await verdict(worker, tmp_path, code.replace("NAN", "INFINITY"), text), Mismatch)
    assert isinstance(await verdict(worker, tmp_path, code.replace("y[i] /", "fabsf(y[i]) /"), text), Mismatch)


PROBLEMS = {
    "missing": (None, "no-reference", 0),
    "syntax": ("import torch\ndef reference(x:\n    pass\n", "reference-syntax", 1),
    "raises at import": ("import torch\n\nraise ValueError('boom')\n", "reference-raised", 2),
    "raises in the call": (ADD.replace("return x + y", "return x @ y.view(2, 3)"), "reference-raised", 4),
    "no inputs": ("def reference(x):\n    return x\n", "incomplete-reference", 0),
    "nothing": (ADD.replace("return x + y", "pass"), "incomplete-reference", 0),
    "random": (ADD.replace("return x + y", "return torch.dropout(x + y, 0.5, True)"), "random-reference", 0),
    "exits": (ADD.replace("return x + y", "raise SystemExit(0)"), "reference-raised", 4),
    "dies": (ADD.replace("return x + y", "import os; os._exit(0)"), "reference-crashed", 0),
    "unmatched": (ADD.replace("N = 1000", "A, B = 1000, 3").replace("(N)", "(A)"), "unmatched-argument", 0),
}


@pytest.mark.parametrize("case", PROBLEMS)
async def test_a_bad_reference_is_a_problem_at_its_line(worker: Worker, tmp_path: Path, case: str) -> None:
    text, code, line = PROBLEMS[case]
    path = tmp_path / "reference.py"
    if text is not None:
        path.write_text(text)
    verdicts, _ = await judge(worker, path, build(tmp_path, HONEST))
    (problem,) = verdicts
    assert isinstance(problem, Problem), problem
    assert problem.code == code
    assert problem.hint
    assert "Traceback" not in problem.message
    assert problem.location is not None
    assert problem.location.span.start.line == line
    assert problem.location.path == (tmp_path / "kernel.cpp" if code == "unmatched-argument" else path)


async def test_a_shape_that_the_reference_refuses_is_noted(worker: Worker, tmp_path: Path) -> None:
    text = ADD.replace("return x + y", "assert x.numel() % 8 == 0\n    return x + y")
    passed = await verdict(worker, tmp_path, HONEST, text)
    assert isinstance(passed, Passed)
    assert any(note.startswith("N=67 dropped: the reference refuses it") for note in passed.notes)
