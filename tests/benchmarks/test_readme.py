from __future__ import annotations

from benchmarks.readme import README, filled


def test_the_readme_holds_the_committed_figures() -> None:
    text = README.read_text(encoding="utf-8")
    assert filled(text) == text, "run `python -m benchmarks.readme`"
