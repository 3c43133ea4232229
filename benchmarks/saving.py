"""How long a save takes: to the build, to the verdict, to the time beside Torch; and torch's own loaders beside it."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.record import Figure
from kernel_lsp.domain import Built, Judged, Passed, Route, Timed
from kernel_lsp.engine import Engine
from kernel_lsp.settings import OnSave, Settings

EXAMPLES = Path(__file__).parent.parent / "examples" / "cpu"
SMALL = "row_softmax"
"""The kernel whose every step is shown."""

RUNS = 5

LOAD = """
import resource, sys, time, torch
from torch.utils.cpp_extension import load, load_inline
how, name, source, build, *flags = sys.argv[1:]
begun = time.perf_counter()
if how == "load":
    load(name, [source], build_directory=build, extra_cflags=flags, is_python_module=False)
else:
    load_inline(name, open(source).read(), build_directory=build, extra_cflags=flags, is_python_module=False)
seconds = time.perf_counter() - begun
print(seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6)
"""


def examples() -> list[Path]:
    return sorted(path for path in EXAMPLES.glob("*/*.cpp") if path.stem == path.parent.name)


def edited(text: str, number: int) -> str:
    """One line more in the kernel's body; it does nothing, so that the answer stays right."""
    first_loop = re.search(r"^( +)for \(", text, re.MULTILINE)
    assert first_loop is not None
    return f"{text[: first_loop.start()]}{first_loop[1]}static_cast<void>({number});\n{text[first_loop.start() :]}"


async def ours(folder: Path) -> list[Figure]:
    """Every step for one kernel, then build and verdict after an edit for each of the others."""
    engine = Engine(replace(Settings(), cache_dir=str(folder / "cache"), compiled_baseline=False))
    kernel = copied(EXAMPLES / SMALL / f"{SMALL}.cpp", folder)
    first = await _saved(engine, kernel, 0)
    figures = [Figure(name="first save: cold cache, no worker yet, to verdict", unit="s", samples=(first["verdict"],))]
    steps: dict[str, list[float]] = {}
    same: list[float] = []
    commented: list[float] = []
    for number in range(1, RUNS + 1):
        for step, seconds in (await _saved(engine, kernel, number)).items():
            steps.setdefault(step, []).append(seconds)
        same.append((await _saved(engine, kernel, number))["timed"])
        commented.append((await _saved(engine, kernel, number, above=f"// note {number}\n"))["timed"])
    figures += [
        Figure(name="save to built, a line of the body changed", unit="s", samples=tuple(steps["built"])),
        Figure(name="save to verdict, a line of the body changed", unit="s", samples=tuple(steps["verdict"])),
        Figure(
            name="  of which in the warm worker",
            unit="s",
            samples=tuple(v - b for v, b in zip(steps["verdict"], steps["built"], strict=True)),
        ),
        Figure(name="save to time beside eager, a line of the body changed", unit="s", samples=tuple(steps["timed"])),
        Figure(name="save to all that is known, text unchanged", unit="s", samples=tuple(same)),
        Figure(name="save to all that is known, a comment changed", unit="s", samples=tuple(commented)),
    ]
    routes: list[Route] = []
    for path in examples():
        kernel = copied(path, folder / "all")
        await _saved(engine, kernel, 0, until=Built, routes=routes)
        builds = [(await _saved(engine, kernel, n, until=Built))["built"] for n in range(1, RUNS + 1)]
        verdict = (await _saved(engine, kernel, RUNS + 1))["verdict"]
        figures.append(Figure(name=f"save to built, {path.stem}", unit="s", samples=tuple(builds)))
        figures.append(Figure(name=f"save to verdict, {path.stem}", unit="s", samples=(verdict,)))
    quick = sum(route is not Route.WHOLE for route in routes)
    figures.append(
        Figure(name="examples built without torch's headers", unit="%", samples=(100 * quick / len(routes),))
    )
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
    figures.append(
        Figure(name="peak memory of one process of ours, compilers included", unit="GB", samples=(children,))
    )
    await engine.close()
    return figures


async def _saved(
    engine: Engine,
    kernel: Path,
    number: int,
    *,
    above: str = "",
    until: type | None = None,
    routes: list[Route] | None = None,
) -> dict[str, float]:
    """Seconds from a save of the `number`th edit to each step."""
    text = above + edited(kernel.read_text(encoding="utf-8"), number)
    begun = time.perf_counter()
    taken: dict[str, float] = {}
    async for event in engine.check(engine.unit(kernel, text), OnSave.VERIFY):
        step = {Built: "built", Judged: "verdict", Timed: "timed"}.get(type(event))
        if isinstance(event, Judged):
            assert isinstance(event.verdict, Passed), event.verdict
        if isinstance(event, Built) and routes is not None:
            routes.append(event.build.route)
        if step:
            taken.setdefault(step, time.perf_counter() - begun)
        if until is not None and isinstance(event, until):
            break
    return taken


def theirs(folder: Path, flags: tuple[str, ...], *, one: bool) -> list[Figure]:
    """`cpp_extension.load` and `load_inline` on the same files with the same edit, without importing torch.

    They compile the whole file for every edit, so one compile in a fresh folder stands for that.
    """
    figures = []
    memory = []
    paths = [path for path in examples() if not one or path.stem == SMALL]
    for path in paths:
        kernel = copied(path, folder / "load")
        kernel.write_text(edited(kernel.read_text(encoding="utf-8"), 1), encoding="utf-8")
        seconds, peak = loaded("load", kernel, folder / "load", flags)
        memory.append(peak)
        figures.append(Figure(name=f"cpp_extension.load, {path.stem}", unit="s", samples=(seconds,)))
        if path.stem == SMALL:
            bare = kernel.with_name("inline.cpp")
            bare.write_text(kernel.read_text(encoding="utf-8"), encoding="utf-8")
            seconds, _ = loaded("load_inline", bare, folder / "inline", flags)
            figures.append(Figure(name=f"cpp_extension.load_inline, {path.stem}", unit="s", samples=(seconds,)))
    figures.append(Figure(name="peak memory of the compiler under cpp_extension", unit="GB", samples=tuple(memory)))
    return figures


def loaded(how: str, kernel: Path, folder: Path, flags: tuple[str, ...]) -> tuple[float, float]:
    """Seconds, and the compiler's peak memory in GB."""
    build = folder / f"build-{kernel.stem}"
    build.mkdir(parents=True)
    command = [sys.executable, "-c", LOAD, how, kernel.stem, str(kernel), str(build), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{how} of {kernel.name} failed:\n{done.stderr[-2000:]}")
    seconds, peak = done.stdout.split()[-2:]
    return float(seconds), float(peak)


def copied(path: Path, folder: Path) -> Path:
    target = folder / path.stem
    target.mkdir(parents=True)
    for source in path.parent.iterdir():
        if source.is_file():
            (target / source.name).write_bytes(source.read_bytes())
    return target / path.name
