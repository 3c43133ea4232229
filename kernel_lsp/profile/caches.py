"""The caches of this machine's processors, as the kernel describes them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

SYSTEM = Path("/sys/devices/system/cpu")

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """A data or unified cache."""

    level: int
    size: int
    """Bytes."""
    ways: int | None
    """Associativity; None where the kernel does not say."""
    line: int | None
    """Bytes of a line; None where the kernel does not say."""
    shared_by: str
    """The processors that share it: `0-7`."""


def read_caches(root: Path = SYSTEM) -> tuple[Cache, ...]:
    """Every data or unified cache once, lowest level first; empty where the kernel does not say."""
    found: set[Cache] = set()
    for folder in root.glob("cpu[0-9]*/cache/index[0-9]*"):
        size = re.fullmatch(r"(\d+)([KMG]?)", _text(folder / "size"))
        level = _number(folder / "level")
        kind = _text(folder / "type")
        if size and level and kind != "Instruction":
            found.add(
                Cache(
                    level=level,
                    size=int(size[1]) * _UNITS[size[2]],
                    ways=_number(folder / "ways_of_associativity"),
                    line=_number(folder / "coherency_line_size"),
                    shared_by=_text(folder / "shared_cpu_list"),
                )
            )
    return tuple(sorted(found, key=lambda cache: (cache.level, cache.size, cache.shared_by)))


def last_level(caches: tuple[Cache, ...]) -> tuple[Cache, ...]:
    """The caches of the highest level."""
    highest = max((cache.level for cache in caches), default=0)
    return tuple(cache for cache in caches if cache.level == highest)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


def _number(path: Path) -> int | None:
    """A positive number; the kernel writes 0 for what it does not know."""
    text = _text(path)
    return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else None
