from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from kernel_lsp.build.builder import Builder
from kernel_lsp.build.toolchain import Toolchain, discover
from kernel_lsp.domain import KernelUnit
from kernel_lsp.settings import Settings
from kernel_lsp.source.pairing import read_unit

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def toolchain() -> Toolchain:
    found = asyncio.run(discover(Settings()))
    assert isinstance(found, Toolchain), found
    return found


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all tests, so that the thin layer is precompiled once."""
    return tmp_path_factory.mktemp("builds")


@pytest.fixture
def builder(toolchain: Toolchain, shared_cache: Path) -> Builder:
    return Builder(toolchain, Settings(flags=("-O3", "-fopenmp")), shared_cache)


def unit_of(path: Path, text: str, *, siblings: tuple[Path, ...] = ()) -> KernelUnit:
    """The unit of `text` at `path`; the file itself need not hold it."""
    unit = read_unit(path, text)
    assert unit.digest == hashlib.sha256(text.encode()).hexdigest()
    return replace(unit, siblings=siblings) if siblings else unit
