"""What `perf script` and `perf stat -j` print, as data. Pure; what is not understood is left out, whatever the text."""

from __future__ import annotations

import json
import math
import re
from collections import Counter as Tally
from collections.abc import Sequence
from dataclasses import dataclass

from kernel_lsp.domain import Counter

SCRIPT_FIELDS = "pid,tid,ip,sym,dso"
"""What `perf script -F` is asked for; `parse_script` reads nothing else."""

_MAPPING = re.compile(
    r"PERF_RECORD_MMAP2? (?P<pid>-?\d+)/-?\d+: "
    r"\[(?P<start>0x[0-9a-f]+)\((?P<length>0x[0-9a-f]+)\) @ (?P<offset>0x[0-9a-f]+|0)\b[^\]]*\]: \S+ (?P<path>.+)$"
)

_SAMPLE = re.compile(r"^\s*(?P<pid>\d+)/\d+\s+(?P<ip>[0-9a-f]+)\s+(?P<place>.*\))\s*$")
"""The place is `symbol (object)`; either may hold brackets and spaces."""

_UNKNOWN = "[unknown]"

_LEAST_RUNNING = 5.0
"""Percent of the time that a multiplexed counter must have run for perf's extrapolation to be worth anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where samples fell: one instruction of one shared object."""

    object: str
    """Path of the shared object or program, or perf's name for what is none: `[vdso]`."""
    offset: int | None
    """Place of the instruction in that file, in bytes; None where its mapping is not known."""
    symbol: str
    """The demangled function; empty where there are no symbols."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mapping:
    start: int
    end: int
    offset: int
    path: str


def parse_script(text: str) -> dict[Address, int]:
    """Samples by address, from `perf script -F pid,tid,ip,sym,dso --show-mmap-events`.

    A line cut off at the end, as where the output was capped, is left out: samples come in the order of time, so
    the ones before it are a fair sample of the first part of the recording.
    """
    mappings: dict[int, list[_Mapping]] = {}
    tally: Tally[tuple[int, int, str]] = Tally()
    for line in text.split("\n"):
        if found := _MAPPING.search(line):
            start = int(found["start"], 16)
            mappings.setdefault(int(found["pid"]), []).append(
                _Mapping(
                    start=start,
                    end=start + int(found["length"], 16),
                    offset=int(found["offset"], 16),
                    path=found["path"],
                )
            )
        elif found := _SAMPLE.match(line):
            tally[int(found["pid"]), int(found["ip"], 16), found["place"]] += 1
    addresses: dict[Address, int] = {}
    for (pid, ip, place), count in tally.items():
        address = _address(mappings.get(pid, ()), ip, place)
        addresses[address] = addresses.get(address, 0) + count
    return addresses


def _address(mappings: Sequence[_Mapping], ip: int, place: str) -> Address:
    mapping = next((m for m in reversed(mappings) if m.start <= ip < m.end), None)
    if mapping is None:
        symbol, _, name = place.removesuffix(")").rpartition("(")
    else:
        # The mapping knows where a path with brackets begins.
        symbol, name = place.removesuffix(f"({mapping.path})"), mapping.path
    symbol = symbol.strip()
    return Address(
        object=name,
        offset=None if mapping is None else ip - mapping.start + mapping.offset,
        symbol="" if symbol == _UNKNOWN else symbol,
    )


def parse_counters(text: str, calls: int) -> tuple[Counter, ...]:
    """Counters per call, from the lines of `perf stat -j` over `calls` calls.

    What the machine cannot count (`<not supported>`, `<not counted>`) is absent, never zero. On processors with two
    kinds of cores, which count apart, the kinds are added up.
    """
    totals: dict[str, float] = {}
    for line in text.splitlines():
        try:
            entry = json.loads(line)
            name, value = _event_name(str(entry["event"])), float(str(entry["counter-value"]))
            running = float(entry.get("pcnt-running", 100.0))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
        if name and math.isfinite(value) and value >= 0 and running >= _LEAST_RUNNING:
            totals[name] = totals.get(name, 0.0) + value
    if calls <= 0:
        return ()
    return tuple(Counter(name=name, value=total / calls, unit="per call") for name, total in totals.items())


def _event_name(event: str) -> str:
    """`cycles` for `cycles:u` and for `cpu_core/cycles/u`."""
    found = re.fullmatch(r"\w+/([^/]+)/\w*", event)
    return re.sub(r":[a-zA-Z]+$", "", found[1] if found else event)
