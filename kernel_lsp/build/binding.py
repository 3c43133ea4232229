"""The generated unit that binds a bare function over `torch::Tensor` to Python."""

from __future__ import annotations

import re
from pathlib import Path

from kernel_lsp.build.content import Source
from kernel_lsp.domain import Function, KernelUnit, Location, Parameter, Problem, TypeKind

_LITERAL = re.compile(r"[-+]?(?:\d[\w.]*(?:[eE][-+]?\w+)?|\.\d\w*)|true|false|(?:std|c10|at|torch)::nullopt")

BINDING_PATH = Path("kernel_lsp_binding.cpp")
"""Where messages about the generated unit are; no such file is ever written."""

_KNOWN = re.compile(
    r"(?:const|volatile|unsigned|signed|char|short|int|long|float|double|bool|void|auto|size_t|ptrdiff_t|u?int\d+_t"
    r"|std|torch|at|c10|Tensor|TensorList|IntArrayRef|ArrayRef|OptionalIntArrayRef|Scalar|ScalarType"
    r"|optional|nullopt|vector|tuple|pair|array|string|string_view|\d+)"
)
"""Names that mean the same in the generated unit as in the user's file."""

_QUALIFIED = re.compile(
    r"(?<![\w:])(?:(?P<torch>Tensor|TensorList|IntArrayRef|ScalarType|Scalar)|(?P<std>vector|tuple|optional|string|pair|array))\b"
)


def binding_source(unit: KernelUnit) -> Source | Problem | None:
    """The unit that declares `unit`'s entry and binds it; None where it has no entry.

    It is a file of its own, so that nothing in it can clash with the user's macros or names.
    """
    entry = unit.entry
    if entry is None:
        return None
    if problem := _obstacle(unit, entry):
        return problem
    returns = _spelled(entry.returns)
    types = ", ".join(_spelled(parameter.type) for parameter in entry.parameters)
    *namespaces, name = entry.qualified_name.split("::")
    opening = "".join(f"namespace {namespace} {{ " for namespace in namespaces)
    arguments = ""
    if all(parameter.name for parameter in entry.parameters):
        arguments = "".join(f", {_argument(parameter)}" for parameter in entry.parameters)
    text = f"""#include <torch/extension.h>

{opening}{returns} {name}({types});{" }" * len(namespaces)}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{
  m.def("{unit.entry_name or name}", static_cast<{returns} (*)({types})>(&::{entry.qualified_name}){arguments});
}}
"""
    return Source(path=BINDING_PATH, text=text)


def _argument(parameter: Parameter) -> str:
    """Name and default; a default that is no plain literal is left to the caller, who must then give a value."""
    default = parameter.default or ""
    return f'pybind11::arg("{parameter.name}")' + (f" = {default}" if _LITERAL.fullmatch(default) else "")


def _obstacle(unit: KernelUnit, entry: Function) -> Problem | None:
    location = Location(path=unit.path, span=entry.name_span)
    if entry.is_static:
        return Problem(
            code="no-linkage",
            message=f"`{entry.name}` is static, so no other unit can call it and it cannot be bound to Python",
            hint="drop `static` (or the anonymous namespace) around it, or add PYBIND11_MODULE to the file",
            location=location,
        )
    if entry.is_template:
        return Problem(
            code="template-entry",
            message=f"`{entry.name}` is a template, which has no one signature to bind to Python",
            hint="add a function over torch::Tensor that calls it",
            location=location,
        )
    for text in (entry.returns, *(parameter.type for parameter in entry.parameters)):
        unknown = next((word for word in re.findall(r"[A-Za-z_]\w*", text) if not _KNOWN.fullmatch(word)), None)
        if unknown is not None or "..." in text:
            return Problem(
                code="unbindable-type",
                message=f"`{entry.name}` has `{text}` in its signature, which has no counterpart in Python",
                hint="add PYBIND11_MODULE to the file, or use tensors, numbers, strings and lists of them",
                location=location,
            )
    if entry.returns_kind is TypeKind.POINTER:
        return Problem(
            code="unbindable-type",
            message=f"`{entry.name}` returns a pointer, whose size Python cannot know",
            hint="return a tensor, or write into one that is passed in",
            location=location,
        )
    return None


def _spelled(type_text: str) -> str:
    """A type with the namespaces that the user's `using` lines may have left out."""
    text = re.sub(r"\b(?:static|inline|extern|constexpr|virtual)\b|\[\[.*?\]\]", "", type_text)
    return _QUALIFIED.sub(lambda m: f"torch::{m[0]}" if m["torch"] else f"std::{m[0]}", text).strip()
