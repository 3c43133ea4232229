"""The examples are what they say they are, and every one matches its reference."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from kernel_lsp.domain import BindingStyle, Judged, Passed, Timed
from kernel_lsp.engine import Engine
from kernel_lsp.fronts.demo import examples
from kernel_lsp.fronts.running import closing
from kernel_lsp.settings import OnSave, Settings
from kernel_lsp.source.pairing import read_unit

FOLDER = Path(__file__).parents[2] / "examples" / "cpu"

STYLES = {
    "column_stats": BindingStyle.PYBIND,
    "conv2d": BindingStyle.TENSOR_FUNCTIONS,
    "gelu": BindingStyle.PYBIND,
    "layer_norm": BindingStyle.TORCH_LIBRARY,
    "matmul_ijk": BindingStyle.EXTERN_C,
    "nms": BindingStyle.TENSOR_FUNCTIONS,
    "pairwise_distance": BindingStyle.PYBIND,
    "row_softmax": BindingStyle.PYBIND,
}


def test_every_example_has_a_row_in_the_readme() -> None:
    assert [path.stem for path in examples(FOLDER)] == sorted(STYLES)
    page = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    for name in STYLES:
        assert f"[`{name}`](cpu/{name})" in page


@pytest.mark.parametrize("name", STYLES)
def test_an_example_reads_as_a_kernel_with_its_reference(name: str) -> None:
    path = FOLDER / name / f"{name}.cpp"
    unit = read_unit(path, path.read_text(encoding="utf-8"))
    assert unit.problem is None
    assert unit.style is STYLES[name]
    assert unit.entry is not None
    assert unit.entry.name == name
    assert unit.reference == path.with_suffix(".py")
    assert [sibling.name for sibling in unit.siblings] == (["bindings.cpp"] if name == "column_stats" else [])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    cache = tmp_path_factory.mktemp("cache")
    made = Engine(replace(Settings(), cache_dir=str(cache), compiled_baseline=False))
    yield made
    await made.close()


@pytest.mark.torch
@pytest.mark.compiler
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", STYLES)
async def test_an_example_passes(name: str, engine: Engine) -> None:
    verdict = timing = None
    async with closing(engine.check(engine.unit(FOLDER / name / f"{name}.cpp"), OnSave.VERIFY)) as events:
        async for event in events:
            if isinstance(event, Judged):
                verdict = event.verdict
            if isinstance(event, Timed):
                timing = event.timing
                break
    assert isinstance(verdict, Passed), verdict
    # More than the shapes and the seed of the file itself.
    assert len(verdict.results) > 1
    assert timing is not None
    assert timing.speedup("eager") is not None
