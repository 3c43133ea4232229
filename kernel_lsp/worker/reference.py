"""A reference file: what to compute, on which inputs, in which of its shapes.

Two styles: KernelBench's (`Model`, `get_inputs()`, `get_init_inputs()`) and plain (`reference(...)`, `inputs()`);
optional in both: `workloads()`, further tuples of inputs, and `arguments(*inputs)`, extra values by parameter name.
Whatever goes wrong in the user's code becomes a `BadReference` with the line it happened on.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import inspect
import sys
import traceback
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from kernel_lsp.domain import Location, Problem, Span

MODULE = "kernel_lsp_reference"

_CPU = torch.device("cpu")

INPUT_MAKERS = ("get_inputs", "inputs")
SIZED_FUNCTIONS = (*INPUT_MAKERS, "get_init_inputs")
"""Functions whose literal sizes may be varied along with the module's constants."""

_WIDENED = (torch.float32, torch.float16, torch.bfloat16)


class BadReference(Exception):
    """The reference cannot be used; `problem` says why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A reference file, read and parsed but not run."""

    path: Path
    tree: ast.Module
    sizes: Mapping[str, int]
    """What may be varied: `rows` for a module-level `rows = 1024`, `1024` for that literal in the inputs' function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A reference file that was run, with sizes as given or varied."""

    path: Path
    module: types.ModuleType
    inputs: Callable[[], Any]

    @property
    def has_model(self) -> bool:
        return hasattr(self.module, "Model")


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A reference ready to be called: its model, where it has one, initialised under a known seed."""

    reference: Reference
    model: torch.nn.Module | None
    init: Mapping[str, Any]
    """Arguments that the model was made with, by name."""
    device: torch.device = _CPU
    """Where its model is and its inputs belong."""

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the reference's own inputs, in order; `*args` has none."""
        function = self.reference.module.reference if self.model is None else type(self.model).forward
        names = [
            p.name
            for p in inspect.signature(function).parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        return tuple(names if self.model is None else names[1:])

    def call(self, inputs: Sequence[Any]) -> Any:
        """What the reference gives for `inputs`, which it may change. State is left as it was.

        Raises:
            BadReference
        """
        with guarded(self.reference.path, "the reference raised"), torch.no_grad(), at_home(self.device):
            if self.model is None:
                return self.reference.module.reference(*inputs)
            return copy.deepcopy(self.model)(*inputs)

    def call_in_float64(self, inputs: Sequence[Any]) -> Any:
        """The same in float64, for inputs that are `widened` already.

        Raises:
            BadReference: also where the reference insists on another type.
        """
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            what = "the reference cannot run in float64"
            with guarded(self.reference.path, what), torch.no_grad(), at_home(self.device), _Widening():
                if self.model is None:
                    return self.reference.module.reference(*inputs)
                return copy.deepcopy(self.model).double()(*inputs)
        finally:
            torch.set_default_dtype(before)


def read(path: Path) -> Source:
    """Read and parse.

    Raises:
        BadReference: where it is not there or no Python.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadReference(
            Problem(
                code="no-reference",
                message=f"the reference {path.name} cannot be read: {reason}",
                hint="put it back, or name another with `// kernel-lsp: reference=…`",
                location=Location(path=path, span=Span.line(0)),
            )
        ) from None
    try:
        tree = ast.parse(text, filename=str(path))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        raise BadReference(
            Problem(
                code="reference-syntax",
                message=f"{path.name} is no valid Python: {getattr(error, 'msg', error)}",
                hint="mend the reference and save",
                location=Location(path=path, span=Span.line(line - 1)),
            )
        ) from None
    return Source(path=path, tree=tree, sizes=_sizes(tree))


def run(source: Source, sizes: Mapping[str, int] | None = None) -> Reference:
    """Execute the file, with `sizes` in place of its own where given.

    Raises:
        BadReference
    """
    tree = source.tree if not sizes else _Resized(sizes).visit(copy.deepcopy(source.tree))
    module = types.ModuleType(MODULE)
    module.__file__ = str(source.path)
    sys.modules[MODULE] = module
    folder = str(source.path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    with guarded(source.path, "the reference raised"):
        exec(compile(tree, str(source.path), "exec", dont_inherit=True), module.__dict__)
    makers = [function for name in INPUT_MAKERS if callable(function := getattr(module, name, None))]
    if not callable(getattr(module, "Model", None)) and not callable(getattr(module, "reference", None)):
        raise BadReference(_lacks(source.path, "neither `Model` nor `reference`", "define `reference(...)` in it"))
    if not makers:
        raise BadReference(
            _lacks(source.path, "no `inputs()`", "define `inputs()` returning the tuple that the reference takes")
        )
    return Reference(path=source.path, module=module, inputs=makers[0])


def instantiate(reference: Reference, seed: int, device: torch.device = _CPU) -> Instance:
    """The reference with its model made under `seed` (on the CPU, so that a seed means the same values everywhere).

    Raises:
        BadReference
    """
    if not reference.has_model:
        return Instance(reference=reference, model=None, init={}, device=device)
    torch.manual_seed(seed)
    kind = reference.module.Model
    with guarded(reference.path, "making the model raised"), torch.no_grad():
        given: Any = getattr(reference.module, "get_init_inputs", tuple)()
        positional, named = ((), given) if isinstance(given, dict) else (as_inputs(given), {})
        model = kind(*positional, **named)
        bound = inspect.signature(kind.__init__).bind(None, *positional, **named)
    if not isinstance(model, torch.nn.Module):
        raise BadReference(_lacks(reference.path, "a `Model` that is no `torch.nn.Module`", "derive it from one"))
    del bound.arguments[next(iter(bound.arguments))]
    with guarded(reference.path, f"moving the model to {device.type} raised"):
        model = model.to(device)
    return Instance(reference=reference, model=model, init=dict(bound.arguments), device=device)


def make_inputs(instance: Instance, seed: int) -> tuple[Any, ...]:
    """The reference's inputs under `seed`, in the order of its parameters.

    Raises:
        BadReference
    """
    torch.manual_seed(seed)
    _seed_others(seed)
    with guarded(instance.reference.path, "making the inputs raised"), torch.no_grad():
        given = instance.reference.inputs()
        if isinstance(given, dict):
            given = [given[name] for name in instance.parameter_names if name in given]
        inputs = as_inputs(given)
    if not inputs and instance.parameter_names:
        raise BadReference(
            _lacks(instance.reference.path, "an `inputs()` that gives nothing", "return the reference's inputs")
        )
    return inputs


def extra_workloads(instance: Instance, seed: int) -> tuple[tuple[Any, ...], ...]:
    """What the file's own `workloads()` gives beyond its inputs.

    Raises:
        BadReference
    """
    make = getattr(instance.reference.module, "workloads", None)
    if not callable(make):
        return ()
    torch.manual_seed(seed)
    _seed_others(seed)
    with guarded(instance.reference.path, "`workloads()` raised"), torch.no_grad():
        return tuple(
            tuple(w[name] for name in instance.parameter_names if name in w) if isinstance(w, dict) else as_inputs(w)
            for w in make()
        )


def extra_arguments(instance: Instance, inputs: Sequence[Any]) -> Mapping[str, Any]:
    """What the file's own `arguments(*inputs)` names.

    Raises:
        BadReference
    """
    make = getattr(instance.reference.module, "arguments", None)
    if not callable(make):
        return {}
    with guarded(instance.reference.path, "`arguments()` raised"), torch.no_grad():
        given = make(*inputs)
    if not isinstance(given, dict):
        raise BadReference(_lacks(instance.reference.path, "an `arguments()` that returns no dict", "return a dict"))
    return {str(name): value for name, value in given.items()}


def constants(reference: Reference) -> Mapping[str, int | float]:
    """Numbers at the module's top level."""
    return {
        name: value
        for name, value in vars(reference.module).items()
        if type(value) in (int, float, bool) and not name.startswith("__")
    }


def as_inputs(given: Any) -> tuple[Any, ...]:
    return tuple(given) if isinstance(given, (list, tuple)) else (given,)


def widened(value: Any) -> Any:
    """A copy of `value` with floating tensors in float64, through lists, tuples and dicts."""
    if isinstance(value, torch.Tensor):
        return value.to(torch.float64, copy=True) if value.dtype in _WIDENED else value.clone()
    if isinstance(value, (list, tuple)):
        return type(value)(widened(item) for item in value)
    if isinstance(value, dict):
        return {key: widened(item) for key, item in value.items()}
    return value


def placed(value: Any, device: torch.device) -> Any:
    """`value` with its tensors on `device`; those that are there already stay themselves."""
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, (list, tuple)):
        return type(value)(placed(item, device) for item in value)
    if isinstance(value, dict):
        return {key: placed(item, device) for key, item in value.items()}
    return value


def at_home(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Inside, tensors made without naming a device are on `device`: a reference may be written for either."""
    return contextlib.nullcontext() if device.type == "cpu" else device


def cloned(value: Any) -> Any:
    """A copy of `value` with tensors of their own, strides kept."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone(memory_format=torch.preserve_format)
    if isinstance(value, (list, tuple)):
        return type(value)(cloned(item) for item in value)
    if isinstance(value, dict):
        return {key: cloned(item) for key, item in value.items()}
    return value


class guarded:
    """Turns what user code raises inside the block into `BadReference` at the file's own line."""

    def __init__(self, path: Path, what: str) -> None:
        self._path = path
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: types.TracebackType | None) -> None:
        if error is None or isinstance(error, BadReference):
            return
        frames = [f for f in traceback.extract_tb(trace) if f.filename == str(self._path)]
        line = (frames[-1].lineno or 1) if frames else 1
        if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
            raise BadReference(out_of_memory(self._path, line)) from None
        text = str(error).strip().split("\n", 1)[0]
        ending = isinstance(error, (SystemExit, KeyboardInterrupt))
        raise BadReference(
            Problem(
                code="reference-raised",
                message=f"{self._what} {type(error).__name__}{': ' if text else ''}{text[:300]}",
                hint="take out what ends the process" if ending else "run the reference by itself and mend it",
                location=Location(path=self._path, span=Span.line(line - 1)),
            )
        ) from None


class _Widening(TorchFunctionMode):  # type: ignore[misc]
    """Makes explicit requests for a narrower floating type mean float64, so that the truth is not rounded."""

    _CASTS = (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in self._CASTS:
            return args[0].double()
        args = tuple(torch.float64 if isinstance(a, torch.dtype) and a in _WIDENED else a for a in args)
        kwargs = {
            name: torch.float64 if isinstance(value, torch.dtype) and value in _WIDENED else value
            for name, value in (kwargs or {}).items()
        }
        return func(*args, **kwargs)


class _Resized(ast.NodeTransformer):
    """Other numbers for module-level constants and for literals in the functions that make inputs."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = sizes

    def visit_Module(self, node: ast.Module) -> ast.Module:
        for statement in node.body:
            for name, value in _constant(statement):
                if (new := self._sizes.get(name)) is not None:
                    value.value = new
            if isinstance(statement, ast.FunctionDef) and statement.name in SIZED_FUNCTIONS:
                for literal in _literals(statement):
                    if (new := self._sizes.get(str(literal.value))) is not None:
                        literal.value = new
        return node


def _sizes(tree: ast.Module) -> dict[str, int]:
    found: dict[str, int] = {}
    for statement in tree.body:
        found.update({name: int(value.value) for name, value in _constant(statement)})  # type: ignore[arg-type]
        if isinstance(statement, ast.FunctionDef) and statement.name in SIZED_FUNCTIONS:
            found.update({str(literal.value): int(literal.value) for literal in _literals(statement)})  # type: ignore[arg-type]
    return found


def _constant(statement: ast.stmt) -> list[tuple[str, ast.Constant]]:
    """`N = 8`, `N: int = 8` and `N, M = 8, 16`, as names and literals."""
    pairs: list[tuple[ast.expr, ast.expr]]
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        pairs = [(statement.target, statement.value)]
    elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target, value = statement.targets[0], statement.value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            pairs = list(zip(target.elts, value.elts, strict=True))
        else:
            pairs = [(target, value)]
    else:
        return []
    return [
        (target.id, value)
        for target, value in pairs
        if isinstance(target, ast.Name) and isinstance(value, ast.Constant) and type(value.value) is int
    ]


def _literals(function: ast.FunctionDef) -> list[ast.Constant]:
    return [node for node in ast.walk(function) if isinstance(node, ast.Constant) and type(node.value) is int]


def _seed_others(seed: int) -> None:
    import random

    random.seed(seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed % 2**32)


def out_of_memory(path: Path, line: int = 1) -> Problem:
    """The reference, at one-based `line`, wanted more memory than there is."""
    return Problem(
        code="reference-memory",
        message="the reference does not fit into the memory that an evaluation may take",
        hint="use smaller inputs, or raise `memory-gb` in the settings; on a GPU, end what else holds its memory",
        location=Location(path=path, span=Span.line(line - 1)),
    )


def gives_nothing(reference: Reference) -> Problem:
    """The reference returns nothing and changes nothing."""
    return _lacks(reference.path, "a reference that returns nothing and changes nothing", "return the result from it")


def _lacks(path: Path, what: str, hint: str) -> Problem:
    return Problem(
        code="incomplete-reference",
        message=f"{path.name} has {what}",
        hint=hint,
        location=Location(path=path, span=Span.line(0)),
    )
