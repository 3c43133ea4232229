"""Short ways to read a text in tests."""

from __future__ import annotations

from pathlib import Path

from kernel_lsp.domain import Access, Features
from kernel_lsp.source.features import features
from kernel_lsp.source.parse import ParsedSource, parse

KERNELS = Path(__file__).parent / "kernels"


def parsed(text: str, name: str = "kernel.cpp") -> ParsedSource:
    return parse(Path(name), text)


def read(text: str, name: str = "kernel.cpp") -> Features:
    return features(parsed(text, name))


def in_function(body: str, parameters: str = "const float* x, float* y, int n, int m") -> Features:
    return read(f"void f({parameters}) {{\n{body}\n}}\n")


def strides(access: Access) -> dict[str, str]:
    return dict(access.strides)


def access(found: Features, array: str, *, write: bool = False) -> Access:
    """The only access of that array, of that kind."""
    (one,) = (a for a in found.accesses if a.array == array and a.is_write == write)
    return one


def kernel_texts() -> dict[str, str]:
    return {path.name: path.read_bytes().decode() for path in sorted(KERNELS.iterdir()) if path.is_file()}
