from __future__ import annotations

from pathlib import Path

import pytest

from kernel_lsp.domain import BindingStyle, KernelUnit, Language, Span
from kernel_lsp.source.pairing import dependents, entry_choices, read_unit
from tests.source.reading import KERNELS

MODEL = "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
REFERENCE = "def reference(x):\n    return x\n"
KERNEL = "#include <torch/extension.h>\ntorch::Tensor scale(torch::Tensor x) { return x; }\n"

BINDER = (
    "#include <torch/extension.h>\ntorch::Tensor scale(torch::Tensor x);\n"
    'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &scale); }\n'
)


def write(folder: Path, **files: str) -> None:
    """`a__cpp="…"` writes a.cpp."""
    for name, text in files.items():
        path = folder / name.replace("__", ".").replace("_IN_", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def unit(path: Path, entry: str | None = None) -> KernelUnit:
    return read_unit(path, path.read_text(encoding="utf-8"), entry=entry)


def code(found: KernelUnit) -> str | None:
    return None if found.problem is None else found.problem.code


# --- reference ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["scale.py", "scale_ref.py", "scale_reference.py", "reference.py"])
@pytest.mark.parametrize("content", [MODEL, REFERENCE, MODEL + "def broken(:\n", "from lib import Model\n"])
def test_a_reference_beside_the_kernel(tmp_path: Path, name: str, content: str) -> None:
    write(tmp_path, scale__cpp=KERNEL)
    (tmp_path / name).write_text(content)
    found = unit(tmp_path / "scale.cpp")
    assert (found.reference, found.problem) == (tmp_path / name, None)


def test_the_kernels_own_name_comes_first(tmp_path: Path) -> None:
    write(tmp_path, scale__cpp=KERNEL, scale__py=REFERENCE, scale_ref__py=MODEL, reference__py=MODEL)
    assert unit(tmp_path / "scale.cpp").reference == tmp_path / "scale.py"


def test_a_python_file_that_is_no_reference_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path, scale__cpp=KERNEL, scale__py="import torch\n\nx = reference_count = 1\n", scale_ref__py=REFERENCE)
    assert unit(tmp_path / "scale.cpp").reference == tmp_path / "scale_ref.py"


def test_without_a_reference_it_says_which_file_to_add(tmp_path: Path) -> None:
    write(tmp_path, scale__cpp=KERNEL, scale__py="print('a wrapper')\n")
    found = unit(tmp_path / "scale.cpp")
    assert found.problem is not None
    assert found.problem.code == "no-reference"
    assert "scale.py" in found.problem.hint
    assert "neither `Model` nor `reference`" in found.problem.message
    assert found.problem.location is not None
    assert found.entry is not None
    assert found.problem.location.span == found.entry.name_span


def test_a_directive_names_the_reference(tmp_path: Path) -> None:
    write(
        tmp_path, kernels_IN_scale__cpp="// kernel-lsp: reference=../refs/any.py\n" + KERNEL, refs_IN_any__py="x = 1\n"
    )
    found = unit(tmp_path / "kernels" / "scale.cpp")
    assert (found.reference, found.problem) == (tmp_path / "refs" / "any.py", None)
    assert found.directives == (("reference", "../refs/any.py"),)


def test_a_directive_that_names_nothing(tmp_path: Path) -> None:
    write(tmp_path, scale__cpp="\n// kernel-lsp: reference=gone.py\n" + KERNEL, scale__py=REFERENCE)
    found = unit(tmp_path / "scale.cpp")
    assert code(found) == "no-reference"
    assert found.problem is not None
    assert found.problem.location is not None
    assert found.problem.location.span == Span.line(1)
    assert "gone.py" in found.problem.message


# --- style and entry ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "style", "entry", "entry_name"),
    [
        ("softmax_extension.cpp", BindingStyle.PYBIND, "softmax_forward", "forward"),
        ("roi_align.cpp", BindingStyle.TORCH_LIBRARY, "roi_align_forward", "vision_ops::roi_align"),
        ("gru_cell.cpp", BindingStyle.PYBIND, "gru_cell", "gru_cell"),
        ("reduce.cu", BindingStyle.TENSOR_FUNCTIONS, "row_sum", "row_sum"),
        ("line_ends.cpp", BindingStyle.EXTERN_C, "scale", "scale"),
    ],
)
def test_kernels_as_repositories_have_them(name: str, style: BindingStyle, entry: str, entry_name: str) -> None:
    path = KERNELS / name
    found = read_unit(path, path.read_bytes().decode())
    assert found.entry is not None
    assert (found.style, found.entry.name, found.entry_name) == (style, entry, entry_name)
    assert found.language is (Language.CUDA if name.endswith(".cu") else Language.CPP)


def test_a_lambda_bound_in_place_is_an_entry(tmp_path: Path) -> None:
    text = (KERNELS / "gru_cell.cpp").read_text()
    found = read_unit(tmp_path / "cell.cpp", text, entry="gru_cell")
    assert found.entry is not None
    assert [p.name for p in found.entry.parameters] == ["x", "h", "w"]
    other = read_unit(tmp_path / "cell.cpp", text, entry="gru_cell_bias").entry
    assert other is not None
    assert [p.name for p in other.parameters] == ["x", "h", "w", "bias"]


@pytest.mark.parametrize(
    ("functions", "entry"),
    [
        ("Tensor a(Tensor x) { return x; }", "a"),
        ("Tensor helper(Tensor x) { return x; } Tensor kernel(Tensor x) { return helper(x); }", "kernel"),
        ("Tensor forward(Tensor x) { return x; } Tensor backward(Tensor g) { return g; }", "forward"),
        ("Tensor gelu_forward(Tensor x) { return x; } Tensor gelu_backward(Tensor g) { return g; }", "gelu_forward"),
        ("Tensor op(Tensor x) { return x; } Tensor other(Tensor g) { return g; }", "op"),
        ("static Tensor hidden(Tensor x) { return x; } Tensor shown(Tensor g) { return g; }", "shown"),
        ("template <class T> Tensor any(Tensor x) { return x; } Tensor one(Tensor g) { return any<float>(g); }", "one"),
        ("namespace n { Tensor deep(Tensor x) { return x; } }", "deep"),
        ("struct S { Tensor method(Tensor x) { return x; } }; Tensor free_one(Tensor g) { return g; }", "free_one"),
        ("void out(Tensor& y, const Tensor& x) { y.copy_(x); }", "out"),
        ("int size(int n) { return n; } Tensor one(Tensor g) { return g; }", "one"),
    ],
)
def test_the_entry_among_tensor_functions(tmp_path: Path, functions: str, entry: str) -> None:
    found = read_unit(tmp_path / "op.cpp", f"#include <torch/extension.h>\nusing torch::Tensor;\n{functions}\n")
    assert found.style is BindingStyle.TENSOR_FUNCTIONS
    assert found.entry is not None
    assert found.entry.name == entry


TWO = "torch::Tensor first(torch::Tensor x) { return x; }\ntorch::Tensor second(torch::Tensor x) { return x; }\n"


def test_several_entries_are_told_with_the_directive_for_each(tmp_path: Path) -> None:
    write(tmp_path, op__cpp=TWO, op__py=REFERENCE)
    found = unit(tmp_path / "op.cpp")
    assert found.problem is not None
    assert found.problem.code == "ambiguous-entry"
    assert "`// kernel-lsp: entry=first`" in found.problem.hint
    assert "`// kernel-lsp: entry=second`" in found.problem.hint
    assert found.problem.location is not None
    assert found.problem.location.span == Span.line(0, 14, 19)


def test_the_choices_that_a_directive_has(tmp_path: Path) -> None:
    write(tmp_path, op__cpp=TWO, scale__cpp=KERNEL, bindings__cpp=BINDER)
    assert entry_choices(tmp_path / "op.cpp", TWO) == ("first", "second")
    assert entry_choices(tmp_path / "scale.cpp", KERNEL) == ("forward",)
    assert entry_choices(tmp_path / "empty.cpp", "") == ()


def test_a_directive_or_the_caller_chooses(tmp_path: Path) -> None:
    write(tmp_path, op__cpp="// kernel-lsp: entry=second\n" + TWO, op__py=REFERENCE)
    assert unit(tmp_path / "op.cpp").entry_name == "second"
    assert unit(tmp_path / "op.cpp", entry="first").entry_name == "first"


def test_a_directive_that_names_no_function(tmp_path: Path) -> None:
    write(tmp_path, op__cpp=TWO + "// kernel-lsp: entry=third\n", op__py=REFERENCE)
    found = unit(tmp_path / "op.cpp")
    assert found.problem is not None
    assert (found.problem.code, found.entry) == ("no-entry", None)
    assert "`first`, `second`" in found.problem.hint


def test_nothing_to_reach(tmp_path: Path) -> None:
    write(tmp_path, op__cpp="static void f(const float* x, int n) {}\n")
    found = unit(tmp_path / "op.cpp")
    assert code(found) == "no-entry"
    assert found.problem is not None
    assert 'extern "C"' in found.problem.hint


def test_bare_device_functions(tmp_path: Path) -> None:
    found = read_unit(tmp_path / "k.cu", "__global__ void add(const float* x, float* y, int n) { y[0] = x[0]; }\n")
    assert found.style is BindingStyle.GLOBAL
    assert found.entry_name == "add"


@pytest.mark.parametrize(
    ("block", "name"),
    [
        ('PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &scale); }', "run"),
        ('PYBIND11_MODULE(ext, mod) { mod.def("run", scale, "doc").def("x", &other); }', "run"),
        ('PYBIND11_MODULE(ext, m) { m.def("run", torch::wrap_pybind_function(scale)); }', "run"),
        ('PYBIND11_MODULE(ext, m) { m.def("run", py::overload_cast<torch::Tensor>(&scale)); }', "run"),
        ('TORCH_LIBRARY(ops, m) { m.def("run(Tensor x) -> Tensor", &scale); }', "ops::run"),
        ('TORCH_LIBRARY(ops, m) { m.def("run", &scale); }', "ops::run"),
        ('TORCH_LIBRARY(ops, m) { m.def("run(Tensor x) -> Tensor"); }\n'
         'TORCH_LIBRARY_IMPL(ops, CPU, m) { m.impl("run", TORCH_FN(scale)); }', "ops::run"),
        ('TORCH_LIBRARY_IMPL(ops, CPU, m) { m.impl("run", &scale); }\n'
         'TORCH_LIBRARY_FRAGMENT(ops, m) { m.def(R"(run(Tensor x) -> Tensor)"); }', "ops::run"),
        ('TORCH_LIBRARY(ops, m) { m.def("run(Tensor x)" " -> Tensor"); m.impl("run", c10::DispatchKey::CPU, &scale); }',
         "ops::run"),
        ('TORCH_LIBRARY(ops, m) { m.def("run(Tensor x) -> Tensor", torch::dispatch(c10::kCPU, TORCH_FN(scale))); }',
         "ops::run"),
    ],
)  # fmt: skip
def test_bindings_in_the_file(tmp_path: Path, block: str, name: str) -> None:
    write(tmp_path, scale__cpp=f"{KERNEL}\n{block}\n", scale__py=REFERENCE)
    found = unit(tmp_path / "scale.cpp")
    assert (found.entry_name, found.problem) == (name, None)
    assert found.entry is not None
    assert found.entry.name == "scale"
    assert found.style is (BindingStyle.PYBIND if "PYBIND" in block else BindingStyle.TORCH_LIBRARY)


def test_an_implementation_without_any_schema_is_bound_as_a_function(tmp_path: Path) -> None:
    write(tmp_path, scale__cpp=KERNEL + 'TORCH_LIBRARY_IMPL(ops, CPU, m) { m.impl("scale", &scale); }\n')
    found = unit(tmp_path / "scale.cpp")
    assert (found.style, found.entry_name) == (BindingStyle.TENSOR_FUNCTIONS, "scale")


# --- other files --------------------------------------------------------------------------------------------


def test_the_binding_in_another_file(tmp_path: Path) -> None:
    write(
        tmp_path, scale__cpp=KERNEL, bindings__cpp=BINDER, unrelated__cpp="int f() { return 1; }", scale__py=REFERENCE
    )
    found = unit(tmp_path / "scale.cpp")
    assert (found.style, found.entry_name, found.problem) == (BindingStyle.PYBIND, "forward", None)
    assert found.siblings == (tmp_path / "bindings.cpp",)


def test_the_file_that_only_binds_points_to_the_other(tmp_path: Path) -> None:
    write(tmp_path, scale__cpp=KERNEL, bindings__cpp=BINDER)
    found = unit(tmp_path / "bindings.cpp")
    assert found.siblings == (tmp_path / "scale.cpp",)
    assert found.problem is not None
    assert found.problem.code == "no-entry"
    assert "scale.cpp" in found.problem.message


def test_the_schema_in_another_file(tmp_path: Path) -> None:
    write(
        tmp_path,
        scale__cpp=KERNEL + 'TORCH_LIBRARY_IMPL(ops, CPU, m) { m.impl("scale", &scale); }\n',
        ops__cpp='#include <torch/library.h>\nTORCH_LIBRARY(ops, m) { m.def("scale(Tensor x) -> Tensor"); }\n',
    )
    found = unit(tmp_path / "scale.cpp")
    assert (found.style, found.entry_name) == (BindingStyle.TORCH_LIBRARY, "ops::scale")
    assert found.siblings == (tmp_path / "ops.cpp",)


def test_what_the_binder_and_the_kernel_need_comes_along(tmp_path: Path) -> None:
    write(
        tmp_path,
        scale__cpp='#include "common.h"\n' + KERNEL.replace("return x", "return twice(x)"),
        common__h="#pragma once\n#include <torch/extension.h>\ntorch::Tensor twice(torch::Tensor x);\nint unused();\n",
        common__cpp='#include "common.h"\ntorch::Tensor twice(torch::Tensor x) { return x + x; }\n',
        unused__cpp="int unused() { return 1; }\n",
        bindings__cpp=BINDER.replace("PYBIND", "torch::Tensor more(torch::Tensor x);\nPYBIND").replace(
            "m.def", 'm.def("more", &more); m.def'
        ),
        more__cpp="#include <torch/extension.h>\ntorch::Tensor more(torch::Tensor x) { return x; }\n",
    )
    names = {path.name for path in unit(tmp_path / "scale.cpp").siblings}
    assert names == {"bindings.cpp", "common.cpp", "more.cpp"}


def test_two_versions_of_a_kernel_in_one_folder_stay_apart(tmp_path: Path) -> None:
    own = KERNEL + 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("scale", &scale); }\n'
    write(tmp_path, scale_v1__cpp=own, scale_v2__cpp=own, scale_v3__cpp=KERNEL)
    assert unit(tmp_path / "scale_v1.cpp").siblings == ()
    third = unit(tmp_path / "scale_v3.cpp")
    assert (third.siblings, third.style) == ((), BindingStyle.TENSOR_FUNCTIONS)


@pytest.mark.parametrize(
    "sources",
    [
        "['csrc/scale.cpp', 'csrc/bind/module.cpp']",
        "sources",
        "[os.path.join(here, 'csrc', 'scale.cpp'), os.path.join(here, 'csrc', 'bind', 'module.cpp')]",
        "['csrc/scale.cpp'] + glob.glob('csrc/bind/*.cpp')",
    ],
)
def test_sources_that_setup_py_lists(tmp_path: Path, sources: str) -> None:
    setup = (
        "import glob, os\nfrom setuptools import setup\nfrom torch.utils.cpp_extension import CppExtension\n"
        "here = os.path.dirname(__file__)\nsources = ['csrc/scale.cpp']\nsources = sources and "
        "['csrc/scale.cpp', 'csrc/bind/module.cpp']\n".replace("sources and ", "")
        + f"setup(ext_modules=[CppExtension('ext', {sources})])\nraise SystemExit('must not run')\n"
    )
    write(tmp_path, csrc_IN_scale__cpp=KERNEL, csrc_IN_bind_IN_module__cpp=BINDER, setup__py=setup)
    assert unit(tmp_path / "csrc" / "scale.cpp").siblings == (tmp_path / "csrc" / "bind" / "module.cpp",)


def test_a_setup_py_that_cannot_be_read_is_no_hindrance(tmp_path: Path) -> None:
    write(tmp_path, scale__cpp=KERNEL, bindings__cpp=BINDER, setup__py="def broken(:\n")
    assert unit(tmp_path / "scale.cpp").siblings == (tmp_path / "bindings.cpp",)


def test_a_directive_names_the_sources(tmp_path: Path) -> None:
    write(
        tmp_path,
        scale__cpp="// kernel-lsp: sources=sub/bind.cpp\n" + KERNEL,
        sub_IN_bind__cpp=BINDER,
        bindings__cpp=BINDER,
        scale__py=REFERENCE,
    )
    found = unit(tmp_path / "scale.cpp")
    assert found.siblings == (tmp_path / "sub" / "bind.cpp",)
    (tmp_path / "sub" / "bind.cpp").unlink()
    assert code(unit(tmp_path / "scale.cpp")) == "no-source"


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    assert code(read_unit(tmp_path / "gone" / "scale.cpp", KERNEL)) == "no-reference"


# --- dependents ---------------------------------------------------------------------------------------------


def test_who_must_be_checked_again(tmp_path: Path) -> None:
    write(
        tmp_path,
        scale__cpp='#include "a.h"\n' + KERNEL,
        scale__py="from shared import x\n" + REFERENCE,
        shared__py="x = 1\n",
        a__h='#pragma once\n#include "b/b.h"\n#include "a.h"\n',
        b_IN_b__h='#include "../a.h"\n#include "gone.h"\n',
        bindings__cpp=BINDER,
        other__cpp='extern "C" void other(float* x) {}\n',
    )
    kernels = [tmp_path / "scale.cpp", tmp_path / "other.cpp"]
    for name in ("scale.py", "shared.py", "a.h", "b/b.h", "bindings.cpp", "scale_ref.py"):
        assert dependents(tmp_path / name, kernels) == (kernels[0],), name
    assert dependents(tmp_path / "reference.py", kernels) == tuple(kernels)
    assert dependents(tmp_path / "unrelated.h", kernels) == ()
    assert dependents(tmp_path / "a.h", [tmp_path / "gone.cpp"]) == ()


def test_a_header_that_includes_itself_through_a_link(tmp_path: Path) -> None:
    write(tmp_path, scale__cpp='#include "a.h"\n' + KERNEL, a__h='#include "link.h"\n')
    (tmp_path / "link.h").symlink_to(tmp_path / "a.h")
    assert dependents(tmp_path / "a.h", [tmp_path / "scale.cpp"]) == (tmp_path / "scale.cpp",)
