from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernel_lsp.build.builder import Builder
from kernel_lsp.build.thin import INCLUDE_DIR, declines, standalone
from kernel_lsp.build.toolchain import Toolchain, TorchInstall
from kernel_lsp.domain import Artifact, ArtifactKind, Build, Route
from kernel_lsp.settings import Settings

from .conftest import DATA, unit_of

pytestmark = [pytest.mark.compiler, pytest.mark.torch]

ROW_SUM = """\
#include <torch/extension.h>
#define N 4
using torch::Tensor;
Tensor row_sum(const Tensor& x, int64_t times, float scale = 1.0f) {
  auto y = torch::zeros({x.size(0)}, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "row_sum", [&] {
    const scalar_t* p = x.data_ptr<scalar_t>();
    for (int64_t i = 0; i < x.size(0); ++i)
      for (int64_t j = 0; j < x.size(1); ++j)
        y.data_ptr<scalar_t>()[i] += p[i * x.size(1) + j] * scale * times;
  });
  return y;
}
"""

OPERATORS = """\
#include <ATen/ATen.h>
#include <torch/library.h>
at::Tensor doubled(const at::Tensor& x, int64_t n, double s) { return x * at::full({}, n * s, x.options()); }
void into(const at::Tensor& x, at::Tensor& out) { out.copy_(x); }
int64_t wrong(int64_t n) { return n; }
TORCH_LIBRARY(my_ops, m) {
  m.def("doubled(Tensor x, int n, float s=1.0) -> Tensor");
  m.def("into(Tensor x, Tensor(a!) out) -> ()");
  m.def("inferred", &doubled);
  m.def("wrong(float n) -> int", &wrong);
}
TORCH_LIBRARY_IMPL(my_ops, CPU, m) {
  m.impl("doubled", &doubled);
  m.impl("into", TORCH_FN(into));
}
"""


def artifact_of(build: Build) -> Artifact:
    assert build.artifact is not None, build
    return build.artifact


def run(*command: str | Path) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def differences(thin: Any, whole: Any) -> list[tuple[str, Any, Any]]:
    """Cases that came out differently, but for the class of an exception, which the C ABI cannot carry."""
    found = []
    for name, outcomes in whole.items():
        for one, other in zip(thin[name], outcomes, strict=True):
            if one == other:
                continue
            both_raised = all(isinstance(part, str) for part in (*one[:1], *other[:1]))
            if both_raised and other[1].endswith(one[1]):
                continue
            found.append((name, one, other))
    return found


async def test_the_thin_layer_gives_what_torchs_own_headers_give(builder: Builder, toolchain: Toolchain) -> None:
    """The one whole build of the suite; it is kept in the user's own cache, so that it is made once."""
    path = DATA / "api.cpp"
    unit = unit_of(path, path.read_text())
    thin = await builder.build(unit)
    assert thin.route is Route.THIN, thin.route_reason
    keeping = Builder(toolchain, Settings(flags=("-O1", "-fopenmp")), Settings().cache_folder / "tests")
    whole = await keeping.build(unit, Route.WHOLE)
    assert whole.route is Route.WHOLE
    results = [
        json.loads(run(toolchain.python, DATA / "compare.py", a.kind.value, a.name, a.path))
        for a in (artifact_of(thin), artifact_of(whole))
    ]
    assert differences(*results) == []
    assert results[0]["scale"][0][0][0] == "torch.float32"


async def test_a_bare_function_is_bound_and_called(builder: Builder, toolchain: Toolchain, tmp_path: Path) -> None:
    build = await builder.build(unit_of(tmp_path / "rows.cpp", ROW_SUM))
    artifact = artifact_of(build)
    assert (build.route, artifact.kind) == (Route.THIN, ArtifactKind.TORCH_LIBRARY)
    code = f"""
import torch
torch.ops.load_library({str(artifact.path)!r})
f = torch.ops.{artifact.name}.row_sum
x = torch.randn(3, 4)
assert torch.allclose(f(x, 2), 2 * x.sum(1))
assert torch.allclose(f(x.double(), times=2, scale=0.5), x.double().sum(1))
"""
    run(toolchain.python, "-c", code)


async def test_loops_in_a_dispatch_keep_their_lines(builder: Builder, toolchain: Toolchain, tmp_path: Path) -> None:
    build = await builder.build(unit_of(tmp_path / "rows.cpp", ROW_SUM))
    objdump = run("objdump", "--dwarf=decodedline", artifact_of(build).path)
    assert re.search(r"^rows\.cpp\s+10\s", objdump, re.MULTILINE)


async def test_operators_of_a_torch_library(builder: Builder, toolchain: Toolchain, tmp_path: Path) -> None:
    build = await builder.build(unit_of(tmp_path / "ops.cpp", OPERATORS))
    artifact = artifact_of(build)
    assert (build.route, artifact.kind, artifact.name) == (Route.THIN, ArtifactKind.TORCH_LIBRARY, "my_ops")
    code = f"""
import torch
torch.ops.load_library({str(artifact.path)!r})
ops, x, out = torch.ops.my_ops, torch.randn(3, 4), torch.empty(3, 4)
assert torch.allclose(ops.doubled(x, 2), 2 * x)
assert ops.into(x, out) is None and torch.equal(x, out)
assert str(ops.inferred.default._schema) == "my_ops::inferred(Tensor _0, int _1, float _2) -> Tensor"
try:
    ops.wrong(1.0)
except RuntimeError as error:
    assert "schema" in str(error)
else:
    raise AssertionError
"""
    run(toolchain.python, "-c", code)


async def test_two_artifacts_live_in_one_process(builder: Builder, toolchain: Toolchain, tmp_path: Path) -> None:
    texts = [ROW_SUM, ROW_SUM.replace("+= p", "-= p")]
    built = [artifact_of(await builder.build(unit_of(tmp_path / f"k{i}.cpp", t))) for i, t in enumerate(texts)]
    code = f"""
import torch
x = torch.randn(3, 4)
for name, path, sign in ({built[0].name!r}, {str(built[0].path)!r}, 1), ({built[1].name!r}, {str(built[1].path)!r}, -1):
    torch.ops.load_library(path)
    assert torch.allclose(getattr(torch.ops, name).row_sum(x, 1), sign * x.sum(1))
"""
    run(toolchain.python, "-c", code)


async def test_a_users_own_mistake_is_told_at_once(builder: Builder, tmp_path: Path) -> None:
    build = await builder.build(unit_of(tmp_path / "rows.cpp", ROW_SUM.replace("times;", "tmes;")))
    assert (build.artifact, build.route) == (None, Route.THIN)
    (message,) = build.messages
    assert "‘tmes’" in message.text
    assert message.location is not None
    line = ROW_SUM.replace("times;", "tmes;").splitlines()[message.location.span.start.line]
    assert line[message.location.span.start.column :].startswith("tmes;")


async def test_the_old_type_call_is_explained_at_once(builder: Builder, tmp_path: Path) -> None:
    build = await builder.build(unit_of(tmp_path / "rows.cpp", ROW_SUM.replace("x.scalar_type()", "x.type()")))
    assert (build.artifact, build.route) == (None, Route.THIN)
    assert "`.scalar_type()`" in build.messages[0].text


async def test_extern_c_functions_may_use_torchs_threads(
    builder: Builder, toolchain: Toolchain, tmp_path: Path
) -> None:
    text = """\
#include <torch/extension.h>
extern "C" int threads() { return at::get_num_threads(); }
"""
    artifact = artifact_of(await builder.build(unit_of(tmp_path / "t.cpp", text)))
    assert artifact.kind is ArtifactKind.C_LIBRARY
    code = f"import ctypes, torch; print(ctypes.CDLL({str(artifact.path)!r}).threads() == torch.get_num_threads())"
    assert run(toolchain.python, "-c", code) == "True\n"


async def test_an_artifact_runs_without_torch(builder: Builder, toolchain: Toolchain, tmp_path: Path) -> None:
    artifact = artifact_of(await builder.build(unit_of(tmp_path / "rows.cpp", ROW_SUM)))
    library, program = tmp_path / standalone.LIBRARIES[0], tmp_path / "program"
    common = [toolchain.compiler, "-O1", "-std=c++17", "-I", INCLUDE_DIR, f"-Wl,-rpath,{tmp_path}"]
    shared = ["-fPIC", "-shared", f"-Wl,-soname,{library.name}"]
    run(*common, *shared, standalone.SOURCE, "-o", library)
    run(*common, standalone.FOLDER / "main.cpp", library, "-ldl", "-o", program)
    (tmp_path / standalone.LIBRARIES[1]).symlink_to(library.name)
    (tmp_path / "0.bin").write_bytes(bytes(48))

    def call(entry: str, *words: str) -> subprocess.CompletedProcess[str]:
        command = [str(program), str(artifact.path), f"{artifact.name}::{entry}", *words]
        environment = {"LD_LIBRARY_PATH": str(tmp_path)}
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)

    assert call("row_sum", "0.bin 48 float32 3,4", "2", "0.5").returncode == 0
    assert call("row_sum", "- 48 float32 3,4", "2", "0.5").returncode == 0
    raised = call("row_sum", "- 48 int32 3,4", "2", "0.5")
    assert (raised.returncode, "not implemented for 'Int'" in raised.stderr) == (4, True)
    assert call("other").returncode == 3


def test_what_is_known_to_be_beyond_the_layer_is_not_tried() -> None:
    torch = TorchInstall(version="2.13.0", root=Path("/t"), cxx11_abi=True, standard="c++20")
    assert "torch::autograd" in declines(torch, "struct F : torch::autograd::Function<F> {};")
    assert "py::array" in declines(torch, "void f(py::array_t<float> x);")
    assert "requires_grad" in declines(torch, "torch::zeros({1}, torch::requires_grad(true))")
    assert not declines(torch, "torch::TensorOptions().requires_grad(false)")
    assert "several functions as f" in declines(torch, 'm.def("f", &a); m.def("f", &b);')
    assert not declines(torch, ROW_SUM)


def test_an_older_torch_has_no_thin_layer() -> None:
    torch = TorchInstall(version="2.4.1+cu121", root=Path("/t"), cxx11_abi=False, standard="c++17")
    assert "older" in declines(torch, ROW_SUM)


def test_the_interpreter_of_these_tests_is_the_workers(toolchain: Toolchain) -> None:
    assert toolchain.python == Path(sys.executable)
