"""Units over `extern "C"` kernels, built by the real builder."""

from __future__ import annotations

import re
from pathlib import Path

from kernel_lsp.build.builder import Builder
from kernel_lsp.build.toolchain import Toolchain, discover
from kernel_lsp.domain import (
    BindingStyle,
    Build,
    Function,
    KernelUnit,
    Language,
    Parameter,
    Span,
    TypeKind,
)
from kernel_lsp.messages import Subject
from kernel_lsp.settings import Settings
from kernel_lsp.source.edits import digest

COLUMN_SUMS = """\
#include <cstddef>
#include "square.h"

extern "C" void column_sums(const float* x, float* out, long rows, long columns) {
#pragma omp parallel for
  for (long j = 0; j < columns; ++j) {
    float sum = 0;
    for (long i = 0; i < rows; ++i) {
      sum += square(x[i * columns + j]);
    }
    out[j] = sum;
  }
}
"""

ROW_SUMS = COLUMN_SUMS.replace("column_sums", "row_sums").replace("x[i * columns + j]", "x[j * rows + i]")

SQUARE = """\
static inline float square(float value) {
  return value * value;
}
"""


def extern_c_unit(path: Path, text: str) -> KernelUnit:
    """`text` at `path` beside `square.h`, its one function the entry; a reference that nobody reads is named."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    (path.parent / "square.h").write_text(SQUARE, encoding="utf-8")
    found = re.search(r'extern "C" void (\w+)\((.*?)\)', text)
    assert found is not None
    parameters = []
    for declared in found[2].split(", "):
        kind = TypeKind.POINTER if "*" in declared else TypeKind.INTEGER
        type_text, _, name = declared.rpartition(" ")
        parameters.append(Parameter(name=name, type=type_text, kind=kind, is_const="const" in declared))
    entry = Function(
        name=found[1],
        qualified_name=found[1],
        returns="void",
        returns_kind=TypeKind.VOID,
        parameters=tuple(parameters),
        span=Span.line(3),
        name_span=Span.line(3),
        body_span=Span.line(3),
        is_extern_c=True,
    )
    return KernelUnit(
        path=path,
        text=text,
        digest=digest(text),
        language=Language.CPP,
        style=BindingStyle.EXTERN_C,
        entry=entry,
        entry_name=entry.name,
        siblings=(),
        reference=path.with_suffix(".py"),
        directives=(),
        problem=None,
    )


async def built(unit: KernelUnit, settings: Settings) -> tuple[Build, Subject, Toolchain]:
    toolchain = await discover(settings)
    assert isinstance(toolchain, Toolchain)
    build = await Builder(toolchain, settings, settings.cache_folder / "builds").build(unit)
    assert build.artifact is not None, build
    assert unit.entry is not None
    subject = Subject(
        name="kernel",
        artifact=build.artifact,
        entry=unit.entry,
        entry_name=unit.entry_name or unit.entry.name,
        directives=(),
        path=unit.path,
    )
    return build, subject, toolchain
