"""Device code and host side built apart give what the whole file gives, on every CUDA example."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from kernel_lsp.build.builder import Builder  # noqa: E402
from kernel_lsp.build.toolchain import Toolchain, discover  # noqa: E402
from kernel_lsp.domain import Route  # noqa: E402
from kernel_lsp.settings import Settings  # noqa: E402
from kernel_lsp.source.pairing import read_unit  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here"),
]

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "cuda").glob("*/*.cu"))

CALL = """
import importlib.util, inspect, pickle, sys
import torch
from kernel_lsp.worker.call import load
artifact, entry, name, reference, target = pickle.loads(bytes.fromhex(sys.argv[1]))
spec = importlib.util.spec_from_file_location("reference", reference)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
torch.manual_seed(7)
inputs = module.get_inputs() if hasattr(module, "get_inputs") else module.inputs()
inputs = [x.cuda() for x in inputs]
if hasattr(module, "Model"):
    model = module.Model(*module.get_init_inputs()).cuda()
    expected, state = model(*inputs), {**dict(model.named_parameters()), **vars(model)}
    names = list(inspect.signature(model.forward).parameters)
else:
    expected, state = module.reference(*inputs), {}
    names = list(inspect.signature(module.reference).parameters)
state.update(zip(names, inputs))
if hasattr(module, "arguments"):
    state.update(module.arguments(*inputs))
out = torch.full_like(expected, 0)
state.setdefault("out", out)
state.setdefault("stream", torch.cuda.current_stream().cuda_stream)
given = [state.get(p.name, inputs[i] if i < len(inputs) else None) for i, p in enumerate(entry.parameters)]
with torch.no_grad():
    result = load(artifact, entry, name)(*given)
torch.cuda.synchronize()
result = out if result is None else result
torch.save((result.cpu(), expected.detach().cpu()), target)
"""


@pytest.fixture
async def toolchain() -> Toolchain:
    found = await discover(Settings())
    assert isinstance(found, Toolchain)
    return found


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
async def test_both_ways_give_the_same(path: Path, toolchain: Toolchain, tmp_path: Path) -> None:
    builder = Builder(toolchain, replace(Settings(), flags=("-O2",)), tmp_path / "cache")
    unit = read_unit(path, path.read_text(encoding="utf-8"))
    assert unit.problem is None
    results = []
    for route in (None, Route.WHOLE):
        build = await builder.build(unit, route)
        assert build.artifact is not None, (build.messages, build.problem)
        assert (build.route is Route.SPLIT) == (route is None), build.route_reason
        target = tmp_path / f"{build.route.value}.pt"
        what = (build.artifact, unit.entry, unit.entry_name, unit.reference, target)
        done = subprocess.run(  # noqa: ASYNC221 - nothing else is going on
            [sys.executable, "-c", CALL, pickle.dumps(what).hex()], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
        results.append(torch.load(target))
        print(path.stem, build.route.value, f"{build.seconds:.1f} s")
    (apart, expected), (whole, _) = results
    # The same code; but atomics add in any order.
    torch.testing.assert_close(apart, whole, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(apart, expected, rtol=1e-3, atol=1e-3)
