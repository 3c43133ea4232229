"""Small C kernels built in a fraction of a second, and the messages that describe them."""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from kernel_lsp.domain import (
    Artifact,
    ArtifactKind,
    Function,
    Parameter,
    Problem,
    Span,
    TypeKind,
    Verdict,
)
from kernel_lsp.evaluate import Worker
from kernel_lsp.messages import Effort, Failed, Subject, TimingPlan, TimingTaken, VerdictReached
from kernel_lsp.settings import Settings

NUMBERS = {"int": TypeKind.INTEGER, "int64_t": TypeKind.INTEGER, "float": TypeKind.FLOAT, "double": TypeKind.FLOAT}
OTHERS = {"cudaStream_t": TypeKind.OTHER}


def function(signature: str) -> Function:
    """`void f(const float* x, float* y, int n)`, `torch::Tensor g(torch::Tensor x, double eps = 1e-5)`."""
    head, _, rest = signature.partition("(")
    returns, name = head.rsplit(" ", 1)
    parameters = []
    for text in filter(None, (part.strip() for part in rest.rstrip(") ;").split(","))):
        declared, _, default = (part.strip() for part in text.partition("="))
        match = re.fullmatch(r"(.*?[\s*&])(\w+)", declared)
        assert match
        type_ = match[1].strip()
        if "*" in type_:
            kind = TypeKind.POINTER
        elif "Tensor" in type_:
            kind = TypeKind.TENSOR
        else:
            kind = {**NUMBERS, **OTHERS}[type_]
        parameters.append(
            Parameter(name=match[2], type=type_, kind=kind, is_const="const" in type_, default=default or None)
        )
    kinds = {"void": TypeKind.VOID, "torch::Tensor": TypeKind.TENSOR, **NUMBERS}
    return Function(
        name=name,
        qualified_name=name,
        returns=returns,
        returns_kind=kinds[returns],
        parameters=tuple(parameters),
        span=Span.line(0),
        name_span=Span.line(0),
        body_span=Span.line(0),
        is_extern_c=True,
    )


def build(folder: Path, code: str, *, name: str = "kernel", directives: tuple[tuple[str, str], ...] = ()) -> Subject:
    """The last function in `code`, inside an `extern "C"` of ours, as a subject."""
    source = folder / f"{name}.cpp"
    source.write_text(f'#include <cmath>\n#include <cstdint>\n#include <cstdlib>\nextern "C" {{\n{code}\n}}\n')
    library = folder / f"{name}.so"
    subprocess.run(
        ["g++", "-O2", "-shared", "-fPIC", "-fopenmp", "-o", str(library), str(source)], check=True, timeout=60
    )
    entry = function(re.findall(r"^\s*((?:void|float|int|double) \w+\([^)]*\))\s*\{", code, re.MULTILINE)[-1])
    return Subject(
        name=name,
        artifact=Artifact(
            path=library, kind=ArtifactKind.C_LIBRARY, name="", digest=hashlib.sha256(code.encode()).hexdigest()
        ),
        entry=entry,
        entry_name=entry.name,
        directives=directives,
        path=source,
    )


def reference(folder: Path, text: str, name: str = "reference.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


async def judge(
    worker: Worker,
    path: Path,
    subject: Subject,
    effort: Effort = Effort.FULL,
    *,
    timing: TimingPlan | None = None,
    others: tuple[Subject, ...] = (),
) -> tuple[list[Verdict | Problem], list[TimingTaken]]:
    """All that the worker says of a subject."""
    verdicts: list[Verdict | Problem] = []
    timings: list[TimingTaken] = []
    async for reply in worker.evaluate(
        reference=path, subjects=(subject, *others), effort=effort, timing=timing, seed=None
    ):
        match reply:
            case VerdictReached(verdict=verdict):
                verdicts.append(verdict)
            case TimingTaken():
                timings.append(reply)
            case Failed(problem=problem):
                verdicts.append(problem)
    return verdicts, timings


@asynccontextmanager
async def running(settings: Settings | None = None) -> AsyncIterator[Worker]:
    worker = await Worker.start(settings or Settings(timeout_s=20.0))
    assert isinstance(worker, Worker), worker
    try:
        yield worker
    finally:
        await worker.close()


def python_kernel(folder: Path, code: str, signature: str, *, name: str = "kernel") -> Subject:
    """A kernel over tensors without a compiler: a Python file is loaded as any extension module is."""
    path = folder / f"{name}_module.py"
    path.write_text(f"import torch\n{code}\n")
    entry = function(signature)
    return Subject(
        name=name,
        artifact=Artifact(path=path, kind=ArtifactKind.PYTHON_MODULE, name=f"{name}_module", digest=""),
        entry=entry,
        entry_name=entry.name,
        directives=(),
        path=path,
    )
