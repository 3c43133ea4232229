"""Prints how long a keystroke takes: `python -m tests.source.typing_latency [LINES]`."""

from __future__ import annotations

import itertools
import re
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from kernel_lsp.source.features import features
from kernel_lsp.source.parse import parse
from tests.source.reading import kernel_texts

PATH = Path("kernel.cpp")
ROUNDS = 40


def long_text(lines: int) -> str:
    """Real kernels one after the other, each in a namespace of its own."""
    texts = [text for name, text in kernel_texts().items() if name.endswith(".cpp")]
    parts = ["#include <torch/extension.h>\n"]
    for number in range(10_000):
        if sum(part.count("\n") for part in parts) >= lines:
            break
        body = re.sub(r"(?m)^#include.*$", "", texts[number % len(texts)])
        parts.append(f"namespace part{number} {{\n{body}\n}}\n")
    return "".join(parts)


def measure(name: str, step: Callable[[], object], rounds: int = ROUNDS) -> None:
    times: list[float] = []
    for _ in range(rounds):
        start = time.perf_counter()
        step()
        times.append((time.perf_counter() - start) * 1e3)
    times.sort()
    print(f"{name:28} median {statistics.median(times):6.1f} ms   p95 {times[int(0.95 * len(times))]:6.1f} ms")


def main(lines: int = 2000) -> None:
    text = long_text(lines)
    print(f"{text.count(chr(10))} lines, {len(text.encode())} bytes")
    measure("open: parse", lambda: parse(PATH, text), 10)
    measure("open: parse and features", lambda: features(parse(PATH, text)), 10)
    for name, typed in (("a character", "x"), ("a line", "\n")):
        measure(f"typing {name}", typist(text, typed))


def typist(text: str, typed: str) -> Callable[[], object]:
    """Types `typed` after some semicolon with every call."""
    source = parse(PATH, text)
    features(source)
    places = itertools.cycle([match.end() for match in re.finditer(";", text)][::37])

    def step() -> None:
        nonlocal source
        place = next(places)
        source = parse(PATH, source.text[:place] + typed + source.text[place:], source)
        features(source)

    return step


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
