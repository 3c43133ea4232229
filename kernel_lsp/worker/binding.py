"""Which value each of the kernel's parameters gets: by name, then by position, else a clear refusal.

The order: the reference file's `arguments()`, the reference's inputs, the model's state and what it was made with,
the module's constants, position among what is left, default arguments. What a function that returns nothing leaves
unmatched and may write is an output.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from kernel_lsp.domain import BoundArgument, Function, Location, Parameter, Problem, Role, TypeKind
from kernel_lsp.worker import reference as ref
from kernel_lsp.worker.call import takes_stream

OUTPUT_NAMES = frozenset(
    ("out", "output", "outputs", "y", "result", "results", "res", "dst", "dest", "o", "ret", "c_out", "out_ptr")
)

_TENSORS = (TypeKind.TENSOR, TypeKind.POINTER, TypeKind.OPTIONAL_TENSOR)
_NUMBERS = (TypeKind.INTEGER, TypeKind.FLOAT, TypeKind.BOOL)
_NOTHING = re.compile(r"(?:(?:std|c10|at|torch)::)?(?:nullopt|None)|(?:c10|std)::optional<.*>\(?\)?|\{\}|nullptr|NULL")

_POINTEES = {
    "float": torch.float32,
    "double": torch.float64,
    "int": torch.int32,
    "int32_t": torch.int32,
    "unsigned": torch.int32,
    "uint32_t": torch.int32,
    "long": torch.int64,
    "long long": torch.int64,
    "int64_t": torch.int64,
    "ssize_t": torch.int64,
    "ptrdiff_t": torch.int64,
    "size_t": torch.int64,
    "uint64_t": torch.int64,
    "short": torch.int16,
    "int16_t": torch.int16,
    "uint16_t": torch.int16,
    "signed char": torch.int8,
    "int8_t": torch.int8,
    "char": torch.int8,
    "unsigned char": torch.uint8,
    "uint8_t": torch.uint8,
    "bool": torch.bool,
}
"""Element types that a pointer may point to; unsigned ones take torch's signed type of that width."""


class Unbound(Exception):
    """The arguments cannot be matched; `problem` says which and names the choices."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """One parameter's value for one workload."""

    argument: BoundArgument
    value: Any
    """For an output, a tensor of the right shape and type whose content does not matter."""
    input: int | None = None
    """Which of the reference's inputs it is."""
    output: int | None = None
    """Which of the reference's outputs it receives."""


def bind(
    entry: Function,
    instance: ref.Instance,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    *,
    source: Path,
    changes_inputs: bool = False,
) -> tuple[Bound, ...]:
    """A value for each parameter of `entry`, in order.

    `outputs` are the reference's results in order, without inputs that it changed and handed back;
    `changes_inputs` says that it also writes its inputs, so that a function without result may be in place.

    Raises:
        Unbound, BadReference
    """
    binder = _Binder(entry, instance, inputs, outputs, source)
    binder.streams()
    binder.by_name("arguments()", Role.SCALAR, ref.extra_arguments(instance, inputs))
    binder.inputs_by_name()
    binder.by_name("model", Role.STATE, _state(instance))
    binder.by_name("constant", Role.SCALAR, ref.constants(instance.reference), numbers_only=True)
    binder.outputs()
    binder.by_position()
    binder.by_default()
    return binder.result(changes_inputs)


class _Binder:
    def __init__(
        self, entry: Function, instance: ref.Instance, inputs: Sequence[Any], outputs: Sequence[Any], source: Path
    ) -> None:
        self._entry = entry
        self._instance = instance
        self._inputs = inputs
        self._outputs = outputs
        self._source = source
        self._bound: dict[int, Bound] = {}
        self._used: set[int] = set()
        """Indices of the inputs that have a parameter."""
        self._offered: list[str] = []

    def by_name(self, origin: str, role: Role, values: Mapping[str, Any], *, numbers_only: bool = False) -> None:
        by_key = {_key(name): (name, value) for name, value in values.items()}
        self._offered += values
        for index, parameter in self._open():
            name, value = by_key.get(_key(parameter.name), ("", _Missing))
            if value is not _Missing and _fits(parameter, value) and not (numbers_only and parameter.kind in _TENSORS):
                separator = "." if origin == "model" else " "
                self._take(index, role, f"{origin}{separator}{name}", value)

    def streams(self) -> None:
        """The kernel's child knows its current stream; nothing is handed over."""
        for index, parameter in self._open():
            if takes_stream(parameter):
                argument = BoundArgument(parameter=parameter.name, role=Role.SCALAR, source="the current stream")
                self._bound[index] = Bound(argument=argument, value=None)

    def inputs_by_name(self) -> None:
        names = self._input_names()
        self._offered += names
        by_key = {_key(name): i for i, name in enumerate(names)}
        for index, parameter in self._open():
            i = by_key.get(_key(parameter.name))
            if i is not None and i not in self._used and _fits(parameter, self._inputs[i]):
                self._take_input(index, i)

    def outputs(self) -> None:
        """What the kernel may write and nothing else explains receives the reference's results, in order."""
        tensors = [v for v in self._outputs if isinstance(v, torch.Tensor)]
        candidates = [
            index
            for index, p in self._open()
            if p.kind in (TypeKind.TENSOR, TypeKind.POINTER)
            and not p.is_const
            and (self._returns_nothing or _is_output(p))
        ]
        left_over = len([i for i in range(len(self._inputs)) if i not in self._used and self._is_tensor_input(i)])
        others = len([1 for i, p in self._open() if p.kind in _TENSORS and i not in candidates])
        # Inputs whose names say nothing may be among the candidates: as many as inputs are left without a parameter.
        surplus = len(candidates) - len(tensors)
        if surplus > 0 and surplus <= left_over - others:
            named = [index for index in candidates if _is_output(self._entry.parameters[index])]
            candidates = named if len(named) == len(tensors) else candidates[surplus:]
        for output, index in enumerate(candidates[: len(tensors)]):
            parameter = self._entry.parameters[index]
            value = tensors[output]
            self._check_pointee(parameter, value, f"output {output}")
            self._bound[index] = Bound(
                argument=BoundArgument(parameter=parameter.name, role=Role.OUTPUT, source=f"output {output}"),
                value=value,
                output=output,
            )

    def by_position(self) -> None:
        """Tensors among tensors, numbers of one kind among their like; only where the counts agree."""
        unused = [i for i in range(len(self._inputs)) if i not in self._used]
        for kinds in (_TENSORS, (TypeKind.TENSOR_LIST,), *((kind,) for kind in _NUMBERS), (TypeKind.INTEGER_LIST,)):
            parameters = [(index, p) for index, p in self._open() if p.kind in kinds]
            fitting = [i for i in unused if parameters and _fits(parameters[0][1], self._inputs[i])]
            required = [(index, p) for index, p in parameters if p.default is None]
            for chosen in (parameters, required):
                if chosen and len(chosen) == len(fitting):
                    for (index, _), i in zip(chosen, fitting, strict=True):
                        self._take_input(index, i)
                    break
        self._state_by_position()
        self._constants_by_position()

    def by_default(self) -> None:
        for index, parameter in self._open():
            if parameter.default is not None and (value := _literal(parameter.default)) is not _Missing:
                self._take(index, Role.SCALAR, f"default {parameter.default}", value)

    def result(self, changes_inputs: bool) -> tuple[Bound, ...]:
        if missing := [parameter for _, parameter in self._open()]:
            raise Unbound(self._unmatched(missing[0]))
        bound = tuple(self._bound[index] for index in range(len(self._entry.parameters)))
        received = {b.output for b in bound if b.output is not None}
        tensors = [v for v in self._outputs if isinstance(v, torch.Tensor)]
        in_place = changes_inputs and any(
            b.input is not None and not p.is_const for b, p in zip(bound, self._entry.parameters, strict=True)
        )
        if self._returns_nothing and len(received) < len(tensors) and not in_place:
            raise Unbound(
                self._problem(
                    "no-output",
                    f"`{self._entry.name}` returns nothing and has no parameter to receive "
                    + ("the result" if len(tensors) == 1 else f"result {len(received)} of {len(tensors)}"),
                    "return it, or add a non-const parameter named `out`",
                )
            )
        return bound

    # --------------------------------------------------------------------------------------------------------

    @property
    def _returns_nothing(self) -> bool:
        # A status code that a C function returns is no result where there are pointers to write through.
        writable = any(p.kind is TypeKind.POINTER and not p.is_const for p in self._entry.parameters)
        return self._entry.returns_kind is TypeKind.VOID or (
            writable and self._entry.returns_kind in (TypeKind.INTEGER, TypeKind.BOOL)
        )

    def _open(self) -> list[tuple[int, Parameter]]:
        return [(i, p) for i, p in enumerate(self._entry.parameters) if i not in self._bound]

    def _input_names(self) -> tuple[str, ...]:
        names = self._instance.parameter_names[: len(self._inputs)]
        return names + tuple(f"input{i}" for i in range(len(names), len(self._inputs)))

    def _is_tensor_input(self, i: int) -> bool:
        return isinstance(self._inputs[i], torch.Tensor)

    def _take(self, index: int, role: Role, source: str, value: Any) -> None:
        parameter = self._entry.parameters[index]
        self._check_pointee(parameter, value, source)
        self._bound[index] = Bound(
            argument=BoundArgument(parameter=parameter.name, role=role, source=source),
            value=_converted(parameter, value),
        )

    def _take_input(self, index: int, i: int) -> None:
        parameter = self._entry.parameters[index]
        name, value = self._input_names()[i], self._inputs[i]
        self._check_pointee(parameter, value, f"input {name}")
        self._used.add(i)
        self._bound[index] = Bound(
            argument=BoundArgument(parameter=parameter.name, role=Role.INPUT, source=f"input {name}"),
            value=_converted(parameter, value),
            input=i,
        )

    def _state_by_position(self) -> None:
        model = self._instance.model
        if model is None:
            return
        left = [(index, p) for index, p in self._open() if p.kind in _TENSORS and p.default is None]
        taken = {b.argument.source for b in self._bound.values()}
        state = [(name, value) for name, value in model.named_parameters() if f"model.{name}" not in taken]
        state = [(name, value) for name, value in state if f"model.{name.replace('.', '_')}" not in taken]
        if left and len(left) == len(state):
            for (index, _), (name, value) in zip(left, state, strict=True):
                self._take(index, Role.STATE, f"model.{name}", value.detach())

    def _constants_by_position(self) -> None:
        taken = {b.argument.source for b in self._bound.values()}
        for kind, of in ((TypeKind.INTEGER, int), (TypeKind.FLOAT, float)):
            left = [(index, p) for index, p in self._open() if p.kind is kind and p.default is None]
            values = [
                (name, value)
                for name, value in ref.constants(self._instance.reference).items()
                if type(value) is of and f"constant {name}" not in taken
            ]
            if left and len(left) == len(values):
                for (index, _), (name, value) in zip(left, values, strict=True):
                    self._take(index, Role.SCALAR, f"constant {name}", value)

    def _check_pointee(self, parameter: Parameter, value: Any, source: str) -> None:
        if parameter.kind is not TypeKind.POINTER or not isinstance(value, torch.Tensor):
            return
        pointee = pointee_of(parameter.type)
        wanted = _POINTEES.get(pointee)
        if pointee != "void" and wanted is not None and wanted is not value.dtype:
            has = str(value.dtype).removeprefix("torch.")
            raise Unbound(
                self._problem(
                    "wrong-type",
                    f"`{parameter.name}` takes `{parameter.type}`, but {source} holds {has}",
                    f"take a pointer to {has}, or give it in `arguments()` of {self._instance.reference.path.name}",
                )
            )

    def _unmatched(self, parameter: Parameter) -> Problem:
        choices = ", ".join(f"`{name}`" for name in dict.fromkeys(self._offered)) or "nothing"
        shown = parameter.name or "an unnamed parameter"
        file = self._instance.reference.path.name
        return self._problem(
            "unmatched-argument",
            f"nothing in {file} matches the parameter `{shown}` of `{self._entry.name}`; it offers {choices}",
            f'rename it, or add `def arguments(...): return {{"{parameter.name or "name"}": …}}` to {file}',
        )

    def _problem(self, code: str, message: str, hint: str) -> Problem:
        return Problem(
            code=code,
            message=message,
            hint=hint,
            location=Location(path=self._source, span=self._entry.name_span),
        )


class _Missing:
    pass


def pointee_of(type_: str) -> str:
    """`const float *__restrict__` → `float`; `std::` and qualifiers dropped."""
    bare = re.sub(r"\b(const|volatile|restrict|__restrict__|__restrict|struct)\b|\*|&|\[\d*\]|std::", " ", type_)
    words = bare.split()
    if words[:1] == ["unsigned"] and words[1:] == ["int"]:
        words = ["unsigned"]
    if len(words) > 1 and words[-1] == "int":
        words = words[:-1]
    return " ".join(words)


def _state(instance: ref.Instance) -> dict[str, Any]:
    """The model's parameters, buffers, attributes and init arguments under every name a kernel may use for them."""
    if instance.model is None:
        return {}
    full: dict[str, Any] = dict(instance.init)
    for prefix, module in instance.model.named_modules():
        before = f"{prefix}." if prefix else ""
        for name, value in vars(module).items():
            if not name.startswith("_") and name != "training":
                full[f"{before}{name}"] = value
    full.update({name: value.detach() for name, value in instance.model.named_buffers()})
    full.update({name: value.detach() for name, value in instance.model.named_parameters()})
    last: dict[str, list[str]] = {}
    for name in full:
        last.setdefault(name.rpartition(".")[2], []).append(name)
    short = {bare: full[names[0]] for bare, names in last.items() if len(names) == 1}
    return {**short, **{name.replace(".", "_"): value for name, value in full.items()}}


def _key(name: str) -> str:
    return name.strip("_").casefold()


def _is_output(parameter: Parameter) -> bool:
    return _key(parameter.name) in OUTPUT_NAMES or _key(parameter.name).startswith("out")


def _fits(parameter: Parameter, value: Any) -> bool:
    match parameter.kind:
        case TypeKind.TENSOR | TypeKind.POINTER:
            return isinstance(value, torch.Tensor)
        case TypeKind.OPTIONAL_TENSOR:
            return value is None or isinstance(value, torch.Tensor)
        case TypeKind.TENSOR_LIST:
            return isinstance(value, (list, tuple)) and all(isinstance(v, torch.Tensor) for v in value)
        case TypeKind.INTEGER:
            return _as_number(value) is not None and float(_as_number(value) or 0).is_integer()
        case TypeKind.FLOAT:
            return _as_number(value) is not None
        case TypeKind.BOOL:
            return isinstance(value, (bool, int))
        case TypeKind.INTEGER_LIST:
            return isinstance(value, (list, tuple)) and all(isinstance(v, int) for v in value)
        case TypeKind.STRING:
            return isinstance(value, str)
        case _:
            return value is None or isinstance(value, (bool, int, float, str, torch.Tensor))


def _as_number(value: Any) -> int | float | None:
    """A number; one that a tuple of equal ones stands for, as in a convolution's `stride=(2, 2)`."""
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, tuple) and value and all(type(v) is int and v == value[0] for v in value):
        return int(value[0])
    return None


_CONVERSIONS: dict[TypeKind, Callable[[Any], Any]] = {
    TypeKind.INTEGER: lambda value: int(_as_number(value) or 0),
    TypeKind.FLOAT: lambda value: float(_as_number(value) or 0.0),
    TypeKind.BOOL: bool,
    TypeKind.INTEGER_LIST: list,
}


def _converted(parameter: Parameter, value: Any) -> Any:
    convert = _CONVERSIONS.get(parameter.kind)
    return value if convert is None or value is None else convert(value)


def _literal(text: str) -> Any:
    """The value of a default argument's text; `_Missing` where it is no plain literal."""
    text = text.strip()
    if text in ("true", "false"):
        return text == "true"
    if _NOTHING.fullmatch(text):
        return None
    number = re.fullmatch(r"[-+]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?:[fFuUlL]*)", text)
    if number:
        bare = text if text.lower().startswith("0x") else text.rstrip("fFuUlL")
        try:
            return int(bare, 0)
        except ValueError:
            return float(bare)
    if len(text) > 1 and text[0] == text[-1] == '"':
        return text[1:-1]
    return _Missing
