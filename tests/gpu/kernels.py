"""Subjects for the GPU: launchers out of one library, and Python functions over CUDA tensors that stand in for one."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import subprocess
import time
from pathlib import Path

from kernel_lsp.domain import Artifact, ArtifactKind, Device, Problem, Verdict
from kernel_lsp.evaluate import Worker
from kernel_lsp.messages import Effort, Subject, TimingPlan, TimingTaken
from tests.gpu.conftest import SEEN
from tests.worker.kernels import function, judge, python_kernel, reference

SOURCE = Path(__file__).with_name("kernels.cu")


def build(folder: Path, runtime: str = "shared") -> Path:
    """The library of all launchers; with a `static` runtime its errors are hidden from ours."""
    library = folder / f"kernels-{runtime}.so"
    began = time.monotonic()
    command = ["nvcc", "-O2", "-std=c++17", "-lineinfo", "-shared", "-Xcompiler", "-fPIC", "-arch=native"]
    subprocess.run([*command, "-cudart", runtime, "-o", str(library), str(SOURCE)], check=True, timeout=170)
    SEEN.append(f"nvcc, {runtime} runtime: {time.monotonic() - began:.1f} s")
    return library


def launcher(library: Path, name: str) -> Subject:
    """The launcher `name` of the library."""
    signature = re.search(rf"^(void {name}\([^)]*\)) \{{", SOURCE.read_text(), re.MULTILINE)
    assert signature, name
    entry = function(signature[1])
    return Subject(
        name="kernel",
        artifact=Artifact(
            path=library,
            kind=ArtifactKind.C_LIBRARY,
            name="",
            digest=hashlib.sha256(library.read_bytes()).hexdigest(),
        ),
        entry=entry,
        entry_name=name,
        directives=(),
        path=SOURCE,
        device=Device.CUDA,
    )


def standin(folder: Path, code: str, signature: str) -> Subject:
    return dataclasses.replace(python_kernel(folder, code, signature), device=Device.CUDA)


async def look(
    worker: Worker,
    folder: Path,
    subject: Subject,
    text: str,
    effort: Effort = Effort.QUICK,
    *,
    timing: TimingPlan | None = None,
    others: tuple[Subject, ...] = (),
) -> tuple[Verdict | Problem, list[TimingTaken]]:
    """The last word on `subject`, written down for the summary, and its timings."""
    began = time.monotonic()
    verdicts, taken = await judge(worker, reference(folder, text), subject, effort, timing=timing, others=others)
    seconds = time.monotonic() - began
    SEEN.append(f"{seconds:6.2f} s  {subject.entry.name}, {effort.value}: {_short(verdicts[-1])}")
    for timed in taken:
        for samples in timed.timing.samples:
            SEEN.append(f"          {samples.subject}: {samples.median_us:.2f} us, spread {samples.spread:.3f}")
        SEEN.extend(f"          note: {note}" for note in timed.timing.notes)
    return verdicts[-1], taken


def _short(verdict: Verdict | Problem) -> str:
    words = re.sub(r"\b(workload|binding|results|statistics)=.*", "…", repr(verdict))
    notes = getattr(verdict, "notes", ())
    results = getattr(verdict, "results", ())
    names = [result.workload.name for result in results]
    return f"{words[:300]}{f' {names}' if names else ''}{f' notes: {notes}' if notes else ''}"
