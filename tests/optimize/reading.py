"""Short ways to read C++ snippets in tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kernel_lsp.optimize import skills
from kernel_lsp.optimize.dependence import Dependence
from kernel_lsp.optimize.rewriting import Declined
from kernel_lsp.optimize.syntax import Code, ForLoop
from kernel_lsp.source.edits import apply
from kernel_lsp.source.features import features
from kernel_lsp.source.parse import parse

PATH = Path("/kernels/kernel.cpp")
LIBRARY = skills.load()


def code_of(text: str) -> Code:
    return Code(parse(PATH, text))


def loop_over(code: Code, name: str) -> ForLoop:
    """The first counted loop over a variable of that name."""
    loops = [code.loop(node) for node in code.loops()]
    return next(loop for loop in loops if isinstance(loop, ForLoop) and loop.name == name)


def carried(text: str, name: str) -> str | None:
    code = code_of(text)
    return Dependence(code).carried(loop_over(code, name))


def rewritten(skill: str, text: str, parameters: Mapping[str, int] | None = None) -> str | Declined:
    """The text after a skill, with its first parameter values where none are given."""
    found = LIBRARY.named(skill)
    assert found is not None
    source = parse(PATH, text)
    chosen = {**next(iter(found.rule.combinations())), **(parameters or {})}
    edits = found.apply(source, features(source), None, chosen)
    return edits if isinstance(edits, Declined) else apply(text, edits)
