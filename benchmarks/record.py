"""Where a figure comes from: written beside every result."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    name: str
    unit: str
    samples: tuple[float, ...]
    """Raw, in the order taken."""

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    def __str__(self) -> str:
        low, high = min(self.samples), max(self.samples)
        return f"{self.name:<58} {self.median:>9.3f} {self.unit:<4} ({low:.3f} to {high:.3f}, {len(self.samples)} runs)"


def earlier(path: Path) -> dict[str, float]:
    """Medians of an earlier run by name; empty where there is none."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {figure["name"]: figure["median"] for figure in document["figures"]}


def write(path: Path, figures: list[Figure], **extra: object) -> None:
    """The figures with command, commit, device and date."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "command": "python -m " + " ".join(["benchmarks." + Path(sys.argv[0]).stem, *sys.argv[1:]]),
        "commit": _git("rev-parse", "--short", "HEAD") + ("+changes" if _git("status", "--porcelain") else ""),
        "device": f"{_processor()}, {len(os.sched_getaffinity(0))} cores",
        "python": platform.python_version(),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "figures": [asdict(figure) | {"median": figure.median} for figure in figures],
        **extra,
    }
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
