"""How long people wait: server start, keystroke to findings, save to verdict beside `cpp_extension.load`.

    python -m benchmarks.loop [--json FILE] [--runs N] [--skip-peer]

Each figure stands beside its peer from the same run, on the same file, with the same edit.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.record import Figure, write
from kernel_lsp.domain import Built, Judged, Passed, Timed
from kernel_lsp.engine import Engine
from kernel_lsp.settings import OnSave, Settings

EXAMPLES = Path(__file__).parent.parent / "examples" / "cpu"
KERNEL = EXAMPLES / "row_softmax" / "row_softmax.cpp"

PEER = """
import sys, time, torch
from torch.utils.cpp_extension import load
source, build = sys.argv[1:]
begun = time.perf_counter()
load("peer", [source], build_directory=build, extra_cflags=["-O3", "-march=native", "-fopenmp"])
print(time.perf_counter() - begun)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--skip-peer", action="store_true", help="leave out cpp_extension.load (40 s a build)")
    options = parser.parse_args()
    figures = [server_start(options.runs), *keystrokes()]
    with tempfile.TemporaryDirectory(prefix="kernel-lsp-bench-") as folder:
        figures += asyncio.run(saves(Path(folder), options.runs))
        if not options.skip_peer:
            figures += peer(Path(folder))
    for figure in figures:
        print(figure)
    ours, theirs = by_name(figures, "save to verdict, one line changed"), by_name(figures, "cpp_extension.load, one")
    if ours and theirs:
        print(f"save to verdict is {theirs.median / ours.median:.1f}x faster than cpp_extension.load alone")
    if options.json:
        write(options.json, figures)


def by_name(figures: list[Figure], start: str) -> Figure | None:
    return next((figure for figure in figures if figure.name.startswith(start)), None)


def server_start(runs: int) -> Figure:
    """From starting the process to its answer to `initialize`."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": {}}})
    request = f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
    samples = []
    for _ in range(runs):
        begun = time.perf_counter()
        server = subprocess.Popen(
            [sys.executable, "-m", "kernel_lsp", "serve", "--stdio"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert server.stdin and server.stdout
        server.stdin.write(request)
        server.stdin.flush()
        assert server.stdout.readline().startswith(b"Content-")
        samples.append(time.perf_counter() - begun)
        maps = Path(f"/proc/{server.pid}/maps").read_text(encoding="utf-8")
        assert "libtorch" not in maps, "the server must not load torch"
        server.stdin.close()
        server.wait(timeout=20)
        server.stdout.close()
    return Figure(name="server start to `initialize` answered", unit="s", samples=tuple(samples))


def keystrokes(lines: int = 2000, count: int = 200) -> list[Figure]:
    """Static findings after each of `count` edits all over a file of `lines` lines: something typed, and taken back."""
    kernels = [path.read_text(encoding="utf-8") for path in sorted(EXAMPLES.glob("*/*.cpp"))]
    original = ""
    while original.count("\n") < lines:
        original += kernels[len(original) % len(kernels)]
    path = Path("/typing/kernel.cpp")
    engine = Engine(Settings(), trusted=False)
    figures = []
    for what, typed in (("a character", "x"), ("a new line", "\n")):
        text = original
        engine.static_findings(path, text)
        samples = []
        for number in range(count):
            if number % 2 == 0:
                place = original.index(";", len(original) * (number * 37 % 100) // 100)
                text = original[:place] + typed + original[place:]
            else:
                text = original
            begun = time.perf_counter()
            engine.static_findings(path, text)
            samples.append(1e3 * (time.perf_counter() - begun))
        name = f"typing {what} to static findings, {original.count(chr(10))} lines"
        worst = sorted(samples)[int(0.95 * len(samples))]
        figures.append(Figure(name=name, unit="ms", samples=tuple(samples)))
        figures.append(Figure(name="  its 95th percentile", unit="ms", samples=(worst,)))
    asyncio.run(engine.close())
    return figures


async def saves(folder: Path, runs: int) -> list[Figure]:
    """One line of the kernel changed, then saved: to compiled, to verdict, to time against eager."""
    settings = replace(Settings(), cache_dir=str(folder / "cache"), compiled_baseline=False)
    engine = Engine(settings)
    kernel = copied(folder / "ours")
    steps: dict[str, list[float]] = {}
    reopened: list[float] = []
    first: list[float] = []
    for number in range(runs + 1):
        edit(kernel, number)
        taken = await save(engine, kernel)
        if number == 0:
            first.append(taken["verdict"])
            continue
        for step, seconds in taken.items():
            steps.setdefault(step, []).append(seconds)
        reopened.append((await save(engine, kernel))["verdict"])
    await engine.close()
    named = {"built": "save to built", "verdict": "save to verdict", "timed": "save to time beside eager"}
    return [
        Figure(name="first save of all: cold cache, worker not started, to verdict", unit="s", samples=tuple(first)),
        *(
            Figure(name=f"{named[step]}, one line changed", unit="s", samples=tuple(samples))
            for step, samples in steps.items()
        ),
        Figure(name="save to verdict, unchanged", unit="s", samples=tuple(reopened)),
    ]


async def save(engine: Engine, kernel: Path) -> dict[str, float]:
    begun = time.perf_counter()
    taken: dict[str, float] = {}
    async for event in engine.check(engine.unit(kernel), OnSave.VERIFY):
        step = {Built: "built", Judged: "verdict", Timed: "timed"}.get(type(event))
        if isinstance(event, Judged):
            assert isinstance(event.verdict, Passed), event.verdict
        if step:
            taken.setdefault(step, time.perf_counter() - begun)
    return taken


def peer(folder: Path) -> list[Figure]:
    """torch's own loader on the same file with the same edit; without the time that `import torch` takes."""
    kernel = copied(folder / "theirs")
    build = folder / "theirs-build"
    build.mkdir()
    samples = []
    for number in range(2):
        edit(kernel, number)
        done = subprocess.run(
            [sys.executable, "-c", PEER, str(kernel), str(build)], capture_output=True, text=True, check=True
        )
        samples.append(float(done.stdout.split()[-1]))
    return [
        Figure(name="cpp_extension.load, cold", unit="s", samples=(samples[0],)),
        Figure(name="cpp_extension.load, one line changed", unit="s", samples=(samples[1],)),
    ]


def copied(folder: Path) -> Path:
    folder.mkdir()
    for path in KERNEL.parent.iterdir():
        if path.is_file():
            (folder / path.name).write_bytes(path.read_bytes())
    return folder / KERNEL.name


def edit(kernel: Path, number: int) -> None:
    """Change one line: a constant that nothing reads, so the answer stays right and the tokens differ."""
    text = (KERNEL.parent / KERNEL.name).read_text(encoding="utf-8")
    kernel.write_text(text + f"\nstatic constexpr int edited = {number};\n", encoding="utf-8")


if __name__ == "__main__":
    main()
