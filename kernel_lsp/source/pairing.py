"""A kernel file with all that is needed to judge it: its entry, how Python reaches that, its reference."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kernel_lsp.domain import BindingStyle, Function, KernelUnit, Location, Problem, Span, TypeKind
from kernel_lsp.source.directives import directives
from kernel_lsp.source.edits import digest
from kernel_lsp.source.neighbours import (
    SourceFile,
    is_reference,
    local_headers,
    local_modules,
    read_text,
    reference_names,
    siblings,
    source_file,
)
from kernel_lsp.source.skeleton import reference_skeleton

__all__ = ["dependents", "entry_choices", "read_unit", "reference_skeleton"]

_TENSORS = frozenset({TypeKind.TENSOR, TypeKind.TENSOR_LIST, TypeKind.OPTIONAL_TENSOR})


def read_unit(path: Path, text: str, *, entry: str | None = None) -> KernelUnit:
    """The kernel in `text`, the content of `path`.

    `entry`, Python's name or C++'s, overrides the directive and the guess. Looks at the files beside it (and a
    `setup.py` above) but runs and changes nothing. What is missing is told in `KernelUnit.problem`.
    """
    said = directives(text)
    source = source_file(path, text)
    named = _named_sources(path, said)
    others = siblings(source) if named is None else named
    style, choices = _choices(source, others)
    wanted = entry or next((value for key, value in said if key == "entry"), None)
    choice, entry_problem = _chosen(source, choices, wanted, others)
    function = None if choice is None else choice.function
    reference, reference_problem = _reference(path, said, text, function)
    # Without any function to judge a reference would be of no use.
    order = (reference_problem, entry_problem) if choices else (entry_problem, reference_problem)
    absent = next((other for other in _listed(path, said) if not other.is_file()), None)
    problem = order[0] or order[1] or (None if absent is None else _no_source(path, absent, text))
    return KernelUnit(
        path=path,
        text=text,
        digest=digest(text),
        language=source.parsed.language,
        style=style,
        entry=function,
        entry_name=None if choice is None else choice.python_name,
        siblings=tuple(other.path for other in others),
        reference=reference,
        directives=said,
        problem=problem,
    )


def entry_choices(path: Path, text: str) -> tuple[str, ...]:
    """Python's names of the functions that a directive `entry=` could name, in the order of the file."""
    named = _named_sources(path, directives(text))
    source = source_file(path, text)
    _, choices = _choices(source, siblings(source) if named is None else named)
    return tuple(dict.fromkeys(choice.python_name for choice in choices))


def dependents(path: Path, candidates: Iterable[Path]) -> tuple[Path, ...]:
    """Which of the kernels `candidates` must be checked again once `path` has changed, appeared or gone.

    `path` may be a reference, a module that one imports, a header reached by includes, or another source of the same
    extension.
    """
    changed = os.path.realpath(path)
    return tuple(
        candidate
        for candidate in candidates
        if (text := read_text(candidate)) is not None
        and any(os.path.realpath(near) == changed for near in _near(candidate, text))
    )


def _near(path: Path, text: str) -> Iterable[Path]:
    """Every file that the judgement of a kernel rests on, there or not; itself left out."""
    yield from reference_names(path)
    said = directives(text)
    unit = read_unit(path, text)
    if unit.reference is not None:
        yield unit.reference
        yield from local_modules(unit.reference)
    yield from (_beside(path, value) for key, value in said if key == "reference")
    yield from _listed(path, said)
    yield from unit.siblings
    for member in (path, *unit.siblings):
        member_text = text if member == path else read_text(member)
        if member_text is not None:
            yield from local_headers(member, source_file(member, member_text).found.includes)


# --- entry --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """A function that could be the entry."""

    python_name: str
    function: Function
    is_root: bool
    """No other choice calls it."""


def _choices(source: SourceFile, others: tuple[SourceFile, ...]) -> tuple[BindingStyle, list[_Choice]]:
    """How Python reaches this file's functions, and those that it can reach."""
    bound = _bound(source, (source, *others))
    if bound:
        return bound
    functions = [definition for definition in source.found.definitions if not definition.in_class]
    tensors = [d for d in functions if _takes_tensors(d.function)]
    reachable = [d for d in tensors if not d.function.is_static and not d.function.is_template]
    for style, found in (
        (BindingStyle.TENSOR_FUNCTIONS, reachable),
        (BindingStyle.EXTERN_C, [d for d in functions if d.function.is_extern_c]),
        (BindingStyle.GLOBAL, [d for d in functions if d.function.is_global]),
        # Not reachable as they are; the build says what to change.
        (BindingStyle.TENSOR_FUNCTIONS, tensors),
    ):
        if found:
            return style, _as_choices(source, [(d.function.name, d.function) for d in found])
    return BindingStyle.TENSOR_FUNCTIONS, []


def _takes_tensors(function: Function) -> bool:
    return not function.is_global and any(parameter.kind in _TENSORS for parameter in function.parameters)


def _bound(source: SourceFile, members: tuple[SourceFile, ...]) -> tuple[BindingStyle, list[_Choice]] | None:
    """What the blocks of this and the other sources bind of this file."""
    every = [binding for member in members for binding in member.bindings]
    schemas = {binding.python_name for binding in every if binding.has_schema}
    defined = {d.function.name: d.function for d in source.found.definitions if not d.in_class}
    exact = {d.function.qualified_name: d.function for d in source.found.definitions if not d.in_class}
    pybind: list[tuple[str, Function]] = []
    operators: list[tuple[str, Function]] = []
    own = {id(binding) for binding in source.bindings}
    for binding in every:
        function = binding.function if id(binding) in own else None
        if binding.target is not None:
            function = exact.get(binding.target) or defined.get(binding.target.rpartition("::")[2])
        if function is None or (binding.is_operator and binding.python_name not in schemas):
            continue
        (operators if binding.is_operator else pybind).append((binding.python_name, function))
    has_block = any(block.macro == "PYBIND11_MODULE" for member in members for block in member.found.blocks)
    if pybind or (has_block and not operators):
        return BindingStyle.PYBIND, _as_choices(source, pybind)
    if operators:
        return BindingStyle.TORCH_LIBRARY, _as_choices(source, operators)
    return None


def _as_choices(source: SourceFile, functions: list[tuple[str, Function]]) -> list[_Choice]:
    bodies = [
        (definition.function, source.parsed.data[definition.body.start_byte : definition.body.end_byte])
        for definition in source.found.definitions
    ]
    return [
        _Choice(python_name=name, function=function, is_root=not _is_called(function, functions, bodies))
        for name, function in functions
    ]


def _is_called(function: Function, functions: list[tuple[str, Function]], bodies: list[tuple[Function, bytes]]) -> bool:
    call = re.compile(rb"\b" + re.escape(function.name.encode()) + rb"\s*(?:<[^;{}]*>)?\s*\(")
    callers = {other.qualified_name for _, other in functions} - {function.qualified_name}
    return any(caller.qualified_name in callers and call.search(body) for caller, body in bodies)


def _chosen(
    source: SourceFile, choices: list[_Choice], wanted: str | None, others: tuple[SourceFile, ...]
) -> tuple[_Choice | None, Problem | None]:
    name = source.path.name
    if not choices:
        return None, _no_entry(source, others)
    listed = _listing([choice.python_name for choice in choices])
    if wanted is not None:
        found = next((choice for choice in choices if _is_called_so(choice, wanted)), None)
        if found is not None:
            return found, None
        return None, Problem(
            code="no-entry",
            message=f"{name} has no function `{wanted}` that Python can reach",
            hint=f"it can reach {listed}",
            location=Location(path=source.path, span=_directive_line(source.parsed.text, "entry")),
        )
    found = _preferred(source.path.stem, choices)
    if found is not None:
        return found, None
    hints = " or ".join(f"`// kernel-lsp: entry={choice.python_name}`" for choice in choices[:6])
    return None, Problem(
        code="ambiguous-entry",
        message=f"{name} has several functions that could be judged: {listed}",
        hint=f"name one with {hints}",
        location=Location(path=source.path, span=choices[0].function.name_span),
    )


def _no_entry(source: SourceFile, others: tuple[SourceFile, ...]) -> Problem:
    name = source.path.name
    message = f"{name} has no function that Python can reach"
    hint = 'define a function over torch::Tensor, or mark one over raw pointers as `extern "C"`'
    for binding in source.bindings:
        target = "" if binding.target is None else binding.target.rpartition("::")[2]
        home = next((other.path.name for other in others if target in other.defined), None)
        if home is not None:
            message = f"{name} only binds `{binding.python_name}`, which {home} defines"
            hint = f"open {home}: it is built together with {name}"
            break
    return Problem(code="no-entry", message=message, hint=hint, location=Location(path=source.path, span=Span.line(0)))


def _is_called_so(choice: _Choice, name: str) -> bool:
    function = choice.function
    return name in (choice.python_name, choice.python_name.rpartition("::")[2], function.name, function.qualified_name)


def _preferred(stem: str, choices: list[_Choice]) -> _Choice | None:
    """`forward`, the file's own name, the only one that ends in `_forward`, the only one no other calls."""
    names = [choice.python_name.rpartition("::")[2] for choice in choices]
    tests = (
        [name == "forward" for name in names],
        [name == stem for name in names],
        [choice.function.name == stem for choice in choices],
        [name.endswith(("_forward", "_fwd")) for name in names],
        [choice.is_root for choice in choices],
        [True] * len(choices),
    )
    for test in tests:
        passed = [choice for choice, holds in zip(choices, test, strict=True) if holds]
        if len({choice.python_name for choice in passed}) == 1:
            return passed[0]
    return None


def _listing(names: list[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:8])
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")


# --- reference and other files ------------------------------------------------------------------------------


def _reference(
    path: Path, said: tuple[tuple[str, str], ...], text: str, entry: Function | None
) -> tuple[Path | None, Problem | None]:
    named = next((value for key, value in said if key == "reference"), None)
    if named is not None:
        reference = _beside(path, named)
        if reference.is_file():
            return reference, None
        return None, Problem(
            code="no-reference",
            message=f"there is no reference {named}",
            hint=f"add it, or correct `// kernel-lsp: reference={named}`; the path starts at {path.name}'s folder",
            location=Location(path=path, span=_directive_line(text, "reference")),
        )
    unlike: list[str] = []
    for reference in reference_names(path):
        content = read_text(reference)
        if content is None:
            continue
        if is_reference(content):
            return reference, None
        unlike.append(reference.name)
    message = f"{path.name} has no Torch reference to be judged against"
    if unlike:
        message += f": {unlike[0]} defines neither `Model` nor `reference`"
    return None, Problem(
        code="no-reference",
        message=message,
        hint=f"add {path.stem}.py beside it, or name one with `// kernel-lsp: reference=…`",
        location=Location(path=path, span=Span.line(0) if entry is None else entry.name_span),
    )


def _beside(path: Path, name: str) -> Path:
    return Path(os.path.normpath(path.parent / Path(name).expanduser()))


def _listed(path: Path, said: tuple[tuple[str, str], ...]) -> list[Path]:
    """What `sources=` directives name."""
    names = [name.strip() for key, value in said if key == "sources" for name in value.split(",")]
    return [_beside(path, name) for name in names if name]


def _named_sources(path: Path, said: tuple[tuple[str, str], ...]) -> tuple[SourceFile, ...] | None:
    """The other sources that the file itself names; None where it names none."""
    if not any(key == "sources" for key, _ in said):
        return None
    return tuple(
        source_file(other, text)
        for other in _listed(path, said)
        if os.path.realpath(other) != os.path.realpath(path) and (text := read_text(other)) is not None
    )


def _no_source(path: Path, other: Path, text: str) -> Problem:
    return Problem(
        code="no-source",
        message=f"there is no source {other.name}, which `// kernel-lsp: sources=` names",
        hint=f"correct the path; it starts at {path.name}'s folder",
        location=Location(path=path, span=_directive_line(text, "sources")),
    )


def _directive_line(text: str, key: str) -> Span:
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text)):
        if any(name == key for name, _ in directives(line)):
            return Span.line(number)
    return Span.line(0)
