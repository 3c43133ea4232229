"""What is said while typing is what a whole look at the same text says."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_lsp.diagnose import diagnose, from_text
from kernel_lsp.source.features import features
from kernel_lsp.source.parse import parse
from tests.diagnose.evidence import KERNELS

PATH = Path("kernel.cpp")
TEXTS = [path.read_text(encoding="utf-8") for path in sorted(KERNELS.glob("*.cpp"))]


@pytest.mark.parametrize("text", TEXTS)
def test_function_by_function_as_over_the_whole(text: str) -> None:
    assert from_text(parse(PATH, text)) == diagnose(features(parse(PATH, text)), path=PATH)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from(["\n", "x", "{", "}", "for (;;) ", ""])), max_size=6))
def test_also_after_edits_that_move_and_break_it(edits: list[tuple[float, str]]) -> None:
    text = "\n".join(TEXTS[:6])
    parsed = parse(PATH, text)
    from_text(parsed)
    for place, typed in edits:
        at = int(place * len(text))
        text = text[:at] + typed + text[at + (not typed) :]
        parsed = parse(PATH, text, parsed)
        assert from_text(parsed) == diagnose(features(parse(PATH, text)), path=PATH)


def test_a_body_that_did_not_change_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\n".join(TEXTS[:6])
    parsed = parse(PATH, text)
    before = from_text(parsed)
    assert before
    monkeypatch.setattr("kernel_lsp.diagnose.typing.diagnose", None)
    after = from_text(parse(PATH, "\n\n" + text, parsed))
    assert [finding.span.start.line - 2 for finding in after] == [finding.span.start.line for finding in before]


def test_memory_stays_flat_over_ten_thousand_edits() -> None:
    text = TEXTS[0]
    parsed = parse(PATH, text)
    sizes = []
    for number in range(10_000):
        place = text.index(";", len(text) * (number * 37 % 90) // 100)
        parsed = parse(PATH, f"{text[:place]} + v{number}{text[place:]}", parsed)
        from_text(parsed)
        if number in (4_999, 9_999):
            gc.collect()
            sizes.append(int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6)
    assert sizes[1] - sizes[0] < 5, f"{sizes[0]:.1f} MB after half of them, {sizes[1]:.1f} MB after all"
