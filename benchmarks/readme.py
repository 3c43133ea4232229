"""Writes the figures in results/ into README.md, between their marks, so that none is ever typed by hand.

python -m benchmarks.readme
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"


def main() -> None:
    README.write_text(filled(README.read_text(encoding="utf-8")), encoding="utf-8")


def filled(text: str) -> str:
    """`text` with each `<!-- name -->` … `<!-- /name -->` holding the table of `results/name.json`."""
    for name, table in TABLES.items():
        document = json.loads((ROOT / "results" / f"{name}.json").read_text(encoding="utf-8"))
        inside = f"<!-- {name} -->\n{table(document)}\n{_source(document)}\n<!-- /{name} -->"
        text = re.sub(f"<!-- {name} -->.*?<!-- /{name} -->", lambda _, new=inside: new, text, flags=re.DOTALL)
    return text


def demo(document: Mapping[str, Any]) -> str:
    rows = ["| kernel | initial | best | × initial | × torch eager | × torch.compile |", "|---|---|---|---|---|---|"]
    for row in document["rows"]:
        ratios = [_interval(row[key]) for key in ("speedup", "over_eager", "over_compiled")]
        times = [f"{row[key] / 1e3:.2f} ms" for key in ("initial_us", "best_us")]
        rows.append(f"| {' | '.join([row['name'], *times, *ratios])} |")
    rows.append(f"| geometric mean | | | {document['geometric_mean']:.2f}× | | |")
    return "\n".join(rows)


def bench(document: Mapping[str, Any]) -> str:
    rows = ["| | median | range |", "|---|---|---|"]
    for figure in document["figures"]:
        samples, digits = figure["samples"], 1 if figure["unit"] in ("ms", "%") else 2
        low, mid, high = (f"{value:.{digits}f}" for value in (min(samples), figure["median"], max(samples)))
        spread = f"{low}–{high}" if len(samples) > 1 else ""
        rows.append(f"| {figure['name'].strip()} | {mid} {figure['unit']} | {spread} |")
    return "\n".join(rows)


TABLES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {"demo": demo, "bench": bench}


def _interval(ratio: Mapping[str, float] | None) -> str:
    return "" if ratio is None else f"{ratio['mid']:.2f} ({ratio['low']:.2f}–{ratio['high']:.2f})"


def _source(document: Mapping[str, Any]) -> str:
    device, date = document["device"], document["date"][:10]
    return f"\n`{document['command']}`, commit {document['commit']}, {device}, {date}."


if __name__ == "__main__":
    main()
