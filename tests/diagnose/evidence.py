"""Evidence made to measure for tests: profiles, cache counts and remarks on the lines that a test names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kernel_lsp.domain import (
    Build,
    Features,
    LineCache,
    LineSamples,
    Location,
    Loop,
    Profile,
    Roofline,
    Route,
    Span,
    VectorRemark,
)
from kernel_lsp.source.features import features
from kernel_lsp.source.parse import parse

PATH = Path("/work/kernel.cpp")
KERNELS = Path(__file__).parent / "kernels"


def read(text: str, path: Path = PATH) -> Features:
    return features(parse(path, text))


def kernel(name: str) -> Features:
    return read((KERNELS / f"{name}.cpp").read_text(encoding="utf-8"))


def line_of(text: str, marker: str) -> int:
    """Zero-based line of the only occurrence of `marker`."""
    assert text.count(marker) == 1, marker
    return text[: text.index(marker)].count("\n")


def at(line: int, path: Path = PATH) -> Location:
    return Location(path=path, span=Span.line(line))


def profile(
    shares: Mapping[int, float],
    *,
    samples: int = 1000,
    busy_threads: float | None = 1.0,
    threads: int | None = 8,
    cache: tuple[LineCache, ...] = (),
    outside: tuple[tuple[str, float], ...] = (),
    path: Path = PATH,
) -> Profile:
    lines = sorted(shares.items(), key=lambda item: -item[1])
    return Profile(
        unit_digest="",
        tool="perf",
        samples=samples,
        lines=tuple(
            LineSamples(location=at(line, path), count=round(share * samples), share=share) for line, share in lines
        ),
        outside=outside,
        cache=cache,
        counters=(),
        busy_threads=busy_threads,
        threads=threads,
        problems=(),
    )


def hot(text_features: Features, **more: object) -> Profile:
    """All samples spread evenly over the bodies of the innermost loops."""
    lines = sorted({line for loop in text_features.loops if loop.is_innermost for line in body_lines(loop)})
    return profile({line: 1 / len(lines) for line in lines}, **more)  # type: ignore[arg-type]


def body_lines(loop: Loop) -> range:
    return range(loop.body_span.start.line, loop.body_span.end.line + 1)


def cache(line: int, *, reads: int = 1000, writes: int = 0, d1_misses: int = 0, ll_misses: int = 0) -> LineCache:
    return LineCache(
        location=at(line),
        instructions=4 * (reads + writes),
        reads=reads,
        writes=writes,
        d1_misses=d1_misses,
        ll_misses=ll_misses,
    )


def build(remarks: Mapping[int, str]) -> Build:
    """Remarks by line; a text that names a width is a vectorised loop's."""
    return Build(
        unit_digest="",
        artifact=None,
        route=Route.PLAIN,
        route_reason="",
        messages=(),
        remarks=tuple(
            VectorRemark(location=at(line), vectorized="byte" in reason, reason=reason)
            for line, reason in remarks.items()
        ),
        seconds=0.1,
        cached=False,
    )


def roofline(memory: float, compute: float | None = None) -> Roofline:
    return Roofline(compulsory_bytes=48_000_000, flops=None, time_us=1840.0, memory_share=memory, compute_share=compute)
