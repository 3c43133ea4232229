"""CUDA kernels: build after an edit beside torch's own loader, and, with a GPU, save to verdict.

    python -m benchmarks.cuda [--json FILE] [--peers N]

Without a GPU only the builds are measured. `--peers` limits the examples that `cpp_extension.load` compiles, which
takes 45 to 150 s each; 0 leaves it out.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.record import Figure, write
from benchmarks.saving import copied, loaded
from kernel_lsp.domain import Built, Judged, Passed, Profiled, Route, Timed
from kernel_lsp.engine import Engine
from kernel_lsp.settings import OnSave, Settings

EXAMPLES = Path(__file__).parent.parent / "examples" / "cuda"
RUNS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--peers", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kernel-lsp-bench-") as name:
        figures, gpu = asyncio.run(ours(Path(name)))
        for path in examples()[: options.peers]:
            kernel = copied(path, Path(name) / "load")
            seconds, _ = loaded("load", kernel, Path(name) / "load", ())
            figures.append(told(Figure(name=f"cpp_extension.load, {path.stem}", unit="s", samples=(seconds,))))
    if options.json:
        write(options.json, figures, gpu=gpu)


def examples() -> list[Path]:
    return sorted(path for path in EXAMPLES.glob("*/*.cu") if path.stem == path.parent.name)


def body_edited(text: str, number: int) -> str:
    """One statement more in the first kernel."""
    kernel = re.search(r"__global__[^{;]*\{", text)
    assert kernel is not None
    return f"{text[: kernel.end()]} static_cast<void>({number});{text[kernel.end() :]}"


def told(figure: Figure) -> Figure:
    print(figure, flush=True)
    return figure


async def ours(folder: Path) -> tuple[list[Figure], str | None]:
    engine = Engine(replace(Settings(), cache_dir=str(folder / "cache"), compiled_baseline=False))
    gpu = await engine.gpu()
    print(f"GPU: {gpu or 'none: builds only'}")
    figures = []
    routes: list[Route] = []
    for path in examples():
        kernel = copied(path, folder / "ours")
        await saved(engine, kernel, 0, routes)
        taken = [await saved(engine, kernel, number) for number in range(1, RUNS + 1)]
        for step in ("built", "verdict", "timed", "profiled"):
            if samples := tuple(steps[step] for steps in taken if step in steps):
                figures.append(told(Figure(name=f"save to {step}, {path.stem}", unit="s", samples=samples)))
        if warm := tuple(steps["verdict"] - steps["built"] for steps in taken if "verdict" in steps):
            figures.append(told(Figure(name=f"verdict in the warm worker, {path.stem}", unit="s", samples=warm)))
    apart = 100 * sum(route is Route.SPLIT for route in routes) / len(routes)
    figures.append(told(Figure(name="examples built in two units", unit="%", samples=(apart,))))
    await engine.close()
    return figures, gpu


async def saved(engine: Engine, kernel: Path, number: int, routes: list[Route] | None = None) -> dict[str, float]:
    text = body_edited(kernel.read_text(encoding="utf-8"), number)
    begun = time.perf_counter()
    taken: dict[str, float] = {}
    async for event in engine.check(engine.unit(kernel, text), OnSave.PROFILE):
        step = {Built: "built", Judged: "verdict", Timed: "timed", Profiled: "profiled"}.get(type(event))
        if isinstance(event, Built):
            assert event.build.artifact is not None, event.build
            if routes is not None:
                routes.append(event.build.route)
        if isinstance(event, Judged) and not isinstance(event.verdict, Passed):
            if await engine.gpu() is None:
                continue
            raise SystemExit(f"{kernel.name}: {event.verdict}")
        if step:
            taken.setdefault(step, time.perf_counter() - begun)
    return taken


if __name__ == "__main__":
    main()
