"""Layers win in order; what is wrong is reported and its default kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kernel_lsp.settings import OnSave, Settings, load


def test_layers_win_in_order(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.kernel-lsp]\ntimeout-s = 5\npython = "a"\non-save = "off"\n')
    (tmp_path / "kernel-lsp.toml").write_text('python = "b"\n')
    settings, problems = load(tmp_path, {"onSave": "verify"})
    assert problems == ()
    assert (settings.timeout_s, settings.python, settings.on_save) == (5.0, "b", OnSave.VERIFY)


def test_a_wrong_entry_is_reported_and_the_rest_holds(tmp_path: Path) -> None:
    (tmp_path / "kernel-lsp.toml").write_text('on-save = "sometimes"\npython = "b"\nno-such = 1\ntimeout-s = -1\n')
    settings, problems = load(tmp_path)
    assert settings == Settings(python="b")
    assert [p.code for p in problems] == ["bad-setting"] * 3


def test_a_broken_file_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "kernel-lsp.toml").write_text("= nonsense")
    settings, (problem,) = load(tmp_path)
    assert settings == Settings()
    assert "kernel-lsp.toml" in problem.message


@given(st.dictionaries(st.text(), st.none() | st.integers() | st.text() | st.lists(st.integers())))
def test_no_layer_raises(layer: dict[str, Any]) -> None:
    load(None, layer)
