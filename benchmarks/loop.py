"""How long people wait: server start, keystroke to findings, save to verdict, each beside its peer in the same run.

    python -m benchmarks.loop [--json FILE] [--quick]

Where FILE holds an earlier run, this one is compared with it before it takes its place.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import saving, typing
from benchmarks.record import Figure, earlier, write
from kernel_lsp.settings import Settings

START_RUNS = 7


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="torch's loaders (40 s a build) on one example only")
    options = parser.parse_args()
    before = {} if options.json is None else earlier(options.json)
    figures: list[Figure] = []

    def told(more: list[Figure]) -> None:
        figures.extend(more)
        for figure in more:
            last = before.get(figure.name)
            print(figure, "" if not last else f"  {figure.median / last:.2f}x the last run's", flush=True)

    told([server_start()])
    told(typing.in_the_engine())
    with tempfile.TemporaryDirectory(prefix="kernel-lsp-bench-") as name:
        folder = Path(name)
        told(asyncio.run(saving.ours(folder / "ours")))
        told(saving.theirs(folder / "theirs", Settings().flags, one=options.quick))
        told(asyncio.run(typing.through_servers(folder / "typing", torch_includes())))
    for line in ratios(figures):
        print(line)
    if options.json:
        write(options.json, figures)


def ratios(figures: list[Figure]) -> list[str]:
    """How many times faster each of ours is than its peer."""
    median = {figure.name: figure.median for figure in figures}
    lines = []
    for name, theirs in median.items():
        if name.startswith("cpp_extension.load, "):
            example = name.partition(", ")[2]
            lines.append(f"{example}: built {theirs / median[f'save to built, {example}']:.0f}x faster than load")
    return lines


def server_start() -> Figure:
    """From starting the process to its answer to `initialize`."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": {}}})
    request = f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
    samples = []
    for _ in range(START_RUNS):
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


def torch_includes() -> list[str]:
    code = "from torch.utils.cpp_extension import include_paths; print(*include_paths(), sep='\\n')"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


if __name__ == "__main__":
    main()
