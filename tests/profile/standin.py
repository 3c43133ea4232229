"""A worker for tests without torch: it calls `extern "C"` kernels over float arrays in a process of its own."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from kernel_lsp import process
from kernel_lsp.domain import Problem, Samples, TensorShape, TypeKind
from kernel_lsp.messages import Captured, CapturedArgument, Hello, Sampled, Subject

CALLER = r"""
import ctypes, json, sys, time
library, entry, kinds, values, seconds = sys.argv[1:]
kinds, values, seconds = json.loads(kinds), json.loads(values), float(seconds)
function = getattr(ctypes.CDLL(library), entry)
arguments = []
for kind, value in zip(kinds, values):
    if kind == "pointer":
        arguments.append((ctypes.c_float * value)(*([1.0] * value)))
    else:
        arguments.append(ctypes.c_long(value))
function(*arguments)
print("ready", flush=True)
sys.stdin.readline()
calls, begin = [], time.perf_counter()
cpu = time.process_time()
while time.perf_counter() - begin < seconds:
    start = time.perf_counter()
    function(*arguments)
    calls.append((time.perf_counter() - start) * 1e6)
print(json.dumps({"us": calls, "cpu_us": (time.process_time() - cpu) * 1e6}), flush=True)
sys.stdin.readline()
"""


class StandIn:
    """What `collect` asks of `evaluate.Worker`: `hello`, `sample` and `capture`."""

    def __init__(self, *values: int, threads: int = 1) -> None:
        self.values = values
        """Of each argument: a number, or how many floats a pointer points to."""
        self.hello = Hello(python=sys.executable, torch="", threads=threads)
        self.pid = 0
        self.captured_elements: list[int] = []

    async def sample(
        self,
        *,
        reference: Path,
        subject: Subject,
        seconds: float,
        watch: Callable[[int], AbstractAsyncContextManager[None]],
    ) -> Sampled | Problem:
        kinds = json.dumps([p.kind.value for p in subject.entry.parameters])
        child = await process.start(
            [
                sys.executable,
                "-c",
                CALLER,
                subject.artifact.path,
                subject.entry_name,
                kinds,
                json.dumps(self.values),
                str(seconds),
            ],
            env={"OMP_NUM_THREADS": str(self.hello.threads)},
            stdin=asyncio.subprocess.PIPE,
            stderr=None,  # type: ignore[arg-type]
        )
        assert child.stdin is not None
        assert child.stdout is not None
        self.pid = child.pid
        try:
            assert await child.stdout.readline() == b"ready\n"
            async with watch(child.pid):
                child.stdin.write(b"go\n")
                result = json.loads(await child.stdout.readline())
        finally:
            await process.end(child)
        calls = Samples(subject="kernel", us=tuple(result["us"]))
        return Sampled(job=1, calls=calls, cpu_us=result["cpu_us"])

    async def capture(
        self, *, reference: Path, subject: Subject, directory: Path, max_elements: int
    ) -> Captured | Problem:
        self.captured_elements.append(max_elements)
        arguments = []
        for position, (parameter, value) in enumerate(zip(subject.entry.parameters, self.values, strict=True)):
            is_tensor = parameter.kind is TypeKind.POINTER
            if is_tensor:
                (directory / f"{position}.bin").write_bytes(b"\0\0\x80\x3f" * value)
            arguments.append(
                CapturedArgument(
                    parameter=parameter.name,
                    tensor=TensorShape(dtype="float32", shape=(value,)) if is_tensor else None,
                    file=f"{position}.bin" if is_tensor else None,
                    number=None if is_tensor else str(value),
                    is_output=is_tensor and not parameter.is_const,
                )
            )
        return Captured(job=1, arguments=tuple(arguments))
