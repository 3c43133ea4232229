"""Servers of the end-to-end tests: real processes that share one cache, so that later tests build nothing twice."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.e2e.editor import CLIENTS, Editor

HERE = Path(__file__).parent

Begin: TypeAlias = Callable[..., Awaitable[Editor]]


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of every server: a cache of its own, and none of the worker's chance settings."""
    return {**os.environ, "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))}


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A fresh copy of the kernels, in a folder whose name has a space and a letter that is not ASCII."""
    return Path(shutil.copytree(HERE / "kernels", tmp_path / "my kernels µ"))


@pytest.fixture
async def begin(environment: dict[str, str], workspace: Path) -> AsyncIterator[Begin]:
    """Starts an editor on the workspace; all of them are ended afterwards."""
    editors: list[Editor] = []

    async def start(client: str = CLIENTS[0], **options: object) -> Editor:
        editor = Editor()
        editors.append(editor)
        await editor.begin(client, workspace, environment, **options)
        return editor

    yield start
    for editor in editors:
        await editor.end()
