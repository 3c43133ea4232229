"""Skipped as a whole where there is no GPU; what was seen is printed at the end, right or wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernel_lsp.worker.nvml import first_gpu

SEEN: list[str] = []
"""One line for each verdict, time and rate."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    why = _lacking()
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.gpu)
            if why:
                item.add_marker(pytest.mark.skip(reason=why))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if SEEN:
        terminalreporter.section(f"seen on {first_gpu()}")
        for line in SEEN:
            terminalreporter.write_line(line)


def _lacking() -> str | None:
    if first_gpu() is None:
        return "no NVIDIA GPU here"
    import torch

    return None if torch.version.cuda else f"torch {torch.__version__} is built without CUDA"
