"""A first Torch reference for a kernel that has none, to be filled in by its author."""

from __future__ import annotations

import keyword
import re

from kernel_lsp.domain import Function, KernelUnit, Parameter, TypeKind

_OUTPUT_NAME = re.compile(r"(?:out|output|outputs|result|res|dst|dest|y|ret)(?:_?\w*)?|\w+_(?:out|output|result)")
_VECTOR_NAME = re.compile(r"(?:weight|bias|gamma|beta|scale|shift|mean|var|running_\w+|w|b)s?")
_IMAGE_NAME = re.compile(r"(?:image|img|input|feature)s?")
_SIDE = 256
"""Large enough to be timed, small enough to be judged at once."""


def reference_skeleton(unit: KernelUnit) -> str:
    """Python text: a `reference` that takes what the entry takes, `inputs` of guessed shapes, and, for sizes that a
    C function is told, `arguments` that reads them off the inputs.
    """
    entry = unit.entry
    name = unit.path.stem if entry is None else entry.name
    if entry is None:
        taken: list[Parameter] = []
        sizes: list[Parameter] = []
    else:
        outputs = _outputs(entry)
        in_c = any(p.kind is TypeKind.POINTER for p in entry.parameters)
        sizes = [p for p in entry.parameters if in_c and p.kind is TypeKind.INTEGER]
        taken = [p for p in entry.parameters if p.name and p not in outputs and p not in sizes]
    if not taken:
        taken = [Parameter(name="x", type="torch::Tensor", kind=TypeKind.TENSOR, is_const=True)]
    dimensions = max(1, min(len(sizes), 4)) if sizes else 2
    signature = ", ".join(_declared(parameter) for parameter in _defaults_last(taken))
    lines = [
        f'"""What `{name}` in {unit.path.name} must compute, and the inputs that it is judged and timed on."""',
        "",
        "import torch",
        "",
        "",
        f"def reference({signature}):",
        "    # The kernel's arguments are bound to these by name. Return what the kernel returns or writes.",
        f'    raise NotImplementedError("write `{name}` in Torch here")',
        "",
        "",
        "def inputs():",
        "    return [",
        *(f"        {_value(parameter, dimensions)},  # {parameter.name}" for parameter in _defaults_last(taken)),
        "    ]",
    ]
    if sizes:
        names = ", ".join(_python_name(parameter.name) for parameter in _defaults_last(taken))
        first = next((p for p in taken if _is_tensor(p)), taken[0])
        lines += [
            "",
            "",
            f"def arguments({names}):",
            "    # What the kernel is told besides: correct these where they are not what it means.",
            "    return {",
            *(f'        "{p.name}": {_size(p, place, len(sizes), first)},' for place, p in enumerate(sizes)),
            "    }",
        ]
    return "\n".join(lines) + "\n"


def _outputs(entry: Function) -> list[Parameter]:
    """Parameters that the kernel writes its result into, by the look of them."""
    written = [
        p
        for p in entry.parameters
        if not p.is_const and (p.kind is TypeKind.POINTER or (p.kind is TypeKind.TENSOR and _is_named_output(p)))
    ]
    return written if entry.returns_kind in (TypeKind.VOID, TypeKind.INTEGER) else []


def _is_named_output(parameter: Parameter) -> bool:
    return _OUTPUT_NAME.fullmatch(parameter.name) is not None


def _is_tensor(parameter: Parameter) -> bool:
    return parameter.kind in (TypeKind.TENSOR, TypeKind.POINTER, TypeKind.OPTIONAL_TENSOR)


def _defaults_last(parameters: list[Parameter]) -> list[Parameter]:
    return sorted(parameters, key=lambda parameter: _default(parameter) is not None)


def _declared(parameter: Parameter) -> str:
    default = _default(parameter)
    name = _python_name(parameter.name)
    return name if default is None else f"{name}={default}"


def _python_name(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name


def _default(parameter: Parameter) -> str | None:
    """The default argument in Python, where it is one that can be said there."""
    text = parameter.default
    if text is None:
        return None
    if text in ("true", "false"):
        return text.capitalize()
    if "nullopt" in text or text in ("{}", "nullptr"):
        return "None"
    number = re.fullmatch(r"(-?[\d.]+(?:[eE][+-]?\d+)?)[fFuUlL]*", text)
    return None if number is None else number[1]


def _value(parameter: Parameter, dimensions: int) -> str:
    shape = ", ".join([str(_SIDE)] * dimensions)
    if _VECTOR_NAME.fullmatch(parameter.name):
        shape = str(_SIDE)
    elif _IMAGE_NAME.fullmatch(parameter.name) and dimensions == 4:
        shape = "8, 16, 64, 64"
    match parameter.kind:
        case TypeKind.TENSOR | TypeKind.OPTIONAL_TENSOR:
            return f"torch.randn({shape})"
        case TypeKind.POINTER:
            return _of_element(parameter.type, shape)
        case TypeKind.TENSOR_LIST:
            return f"[torch.randn({shape})]"
        case TypeKind.INTEGER:
            return _default(parameter) or "1"
        case TypeKind.FLOAT:
            return _default(parameter) or "1.0"
        case TypeKind.BOOL:
            return _default(parameter) or "True"
        case TypeKind.INTEGER_LIST:
            return "[1, 1]"
        case TypeKind.STRING:
            return '""'
        case _:
            return _default(parameter) or "None"


def _of_element(pointer: str, shape: str) -> str:
    size = f"({shape})" if "," in shape else f"({shape},)"
    if "double" in pointer:
        return f"torch.randn({shape}, dtype=torch.float64)"
    if re.search(r"u?int8_t|unsigned char", pointer):
        return f"torch.randint(0, 128, {size}, dtype=torch.uint8)"
    if re.search(r"int64_t|long", pointer):
        return f"torch.randint(0, {_SIDE}, {size})"
    if re.search(r"\bint\b|int32_t", pointer):
        return f"torch.randint(0, {_SIDE}, {size}, dtype=torch.int32)"
    if "bool" in pointer:
        return f"torch.rand({shape}) < 0.5"
    return f"torch.randn({shape})"


def _size(parameter: Parameter, place: int, count: int, tensor: Parameter) -> str:
    name = _python_name(tensor.name)
    if not _is_tensor(tensor):
        return str(_SIDE)
    return f"{name}.numel()" if count == 1 else (f"{name}.size({place})" if place < 4 else "1")
