"""How long the rules take on a 2,000-line file: `python -m tests.diagnose.latency`. The budget is 10 ms."""

from __future__ import annotations

import statistics
import time

from kernel_lsp.diagnose import diagnose
from tests.diagnose.evidence import KERNELS, read


def long_file(lines: int = 2000) -> str:
    """The test kernels, over and over under other names."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(KERNELS.glob("*.cpp"))]
    parts: list[str] = []
    while sum(part.count("\n") for part in parts) < lines:
        parts.append(f"namespace part{len(parts)} {{\n{texts[len(parts) % len(texts)]}}}\n")
    return "".join(parts)


def main() -> None:
    features = read(long_file())
    times = []
    for _ in range(50):
        start = time.perf_counter()
        findings = diagnose(features)
        times.append((time.perf_counter() - start) * 1e3)
    print(f"{len(features.loops)} loops, {len(features.accesses)} accesses, {len(findings)} findings")
    print(f"median {statistics.median(times):.1f} ms, worst {max(times):.1f} ms")


if __name__ == "__main__":
    main()
