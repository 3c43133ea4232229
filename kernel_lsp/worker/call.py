"""Loading a built kernel and calling it, for each kind of artifact. Runs in the kernel's child only."""

from __future__ import annotations

import ctypes
import importlib.util
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch

from kernel_lsp.domain import Artifact, ArtifactKind, Function, Parameter, TypeKind

Kernel: TypeAlias = Callable[..., Any]

_STREAM = re.compile(r"(?:const\s+)?(?:cudaStream_t|CUstream|CUstream_st\s*\*)")


class NotLoaded(Exception):
    """The artifact or its entry cannot be had; the message says why."""


def load(artifact: Artifact, entry: Function, entry_name: str) -> Kernel:
    """The entry, to be called with the bound values in order.

    Raises:
        NotLoaded, and whatever the library's own initialisers raise.
    """
    match artifact.kind:
        case ArtifactKind.PYTHON_MODULE:
            return _from_module(artifact, entry_name)
        case ArtifactKind.TORCH_LIBRARY:
            return _from_operators(artifact, entry_name)
        case ArtifactKind.C_LIBRARY:
            return _from_library(artifact, entry)


def _from_module(artifact: Artifact, entry_name: str) -> Kernel:
    spec = importlib.util.spec_from_file_location(artifact.name, artifact.path)
    if spec is None or spec.loader is None:
        raise NotLoaded(f"{artifact.path.name} is no extension module of this Python")
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError as error:
        raise NotLoaded(str(error)) from None
    kernel = getattr(module, entry_name, None)
    if not callable(kernel):
        names = ", ".join(name for name in vars(module) if not name.startswith("_")) or "nothing"
        raise NotLoaded(f"the module has no function `{entry_name}`; it has {names}")
    return kernel  # type: ignore[no-any-return]


def _from_operators(artifact: Artifact, entry_name: str) -> Kernel:
    try:
        torch.ops.load_library(artifact.path)
    except OSError as error:
        raise NotLoaded(str(error)) from None
    namespace, _, operator = entry_name.rpartition("::")
    try:
        packet = getattr(getattr(torch.ops, namespace or artifact.name), operator)
    except (AttributeError, RuntimeError):
        raise NotLoaded(f"no operator `{namespace or artifact.name}::{operator}` is registered") from None
    overloads = packet.overloads()
    # One overload, called directly, spares the search for the matching one at every call.
    return getattr(packet, overloads[0]) if len(overloads) == 1 else packet  # type: ignore[no-any-return]


def _from_library(artifact: Artifact, entry: Function) -> Kernel:
    try:
        library = ctypes.CDLL(str(artifact.path))
        function = library[entry.name]
    except OSError as error:
        raise NotLoaded(str(error)) from None
    except AttributeError:
        raise NotLoaded(f'the library exports no `{entry.name}`; is it inside `extern "C"`?') from None
    function.argtypes = [_c_type(parameter) for parameter in entry.parameters]
    function.restype = None if entry.returns_kind is TypeKind.VOID else _number_type(entry.returns)
    streams = [index for index, parameter in enumerate(entry.parameters) if takes_stream(parameter)]

    def call(*values: Any) -> Any:
        given = _c_values(values)
        for index in streams:
            given[index] = torch.cuda.current_stream().cuda_stream
        return function(*given)

    return call


def takes_stream(parameter: Parameter) -> bool:
    """A launcher's parameter for the stream to launch on."""
    return bool(_STREAM.fullmatch(parameter.type.strip()))


def _c_values(values: Sequence[Any]) -> list[Any]:
    return [value.data_ptr() if isinstance(value, torch.Tensor) else value for value in values]


def _c_type(parameter: Parameter) -> Any:
    if parameter.kind is TypeKind.POINTER or takes_stream(parameter):
        return ctypes.c_void_p
    return _number_type(parameter.type)


_C_NUMBERS: dict[str, Any] = {
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    "bool": ctypes.c_bool,
    "char": ctypes.c_char,
    "signed char": ctypes.c_byte,
    "unsigned char": ctypes.c_ubyte,
    "short": ctypes.c_short,
    "unsigned short": ctypes.c_ushort,
    "int": ctypes.c_int,
    "unsigned": ctypes.c_uint,
    "unsigned int": ctypes.c_uint,
    "long": ctypes.c_long,
    "long int": ctypes.c_long,
    "unsigned long": ctypes.c_ulong,
    "long long": ctypes.c_longlong,
    "unsigned long long": ctypes.c_ulonglong,
    "size_t": ctypes.c_size_t,
    "ssize_t": ctypes.c_ssize_t,
    "ptrdiff_t": ctypes.c_ssize_t,
    **{f"int{bits}_t": getattr(ctypes, f"c_int{bits}") for bits in (8, 16, 32, 64)},
    **{f"uint{bits}_t": getattr(ctypes, f"c_uint{bits}") for bits in (8, 16, 32, 64)},
}


def _number_type(type_: str) -> Any:
    bare = " ".join(re.sub(r"\b(const|volatile)\b|std::", " ", type_).split())
    if bare not in _C_NUMBERS:
        raise NotLoaded(f'a parameter or result of type `{type_}` cannot cross an `extern "C"` call here')
    return _C_NUMBERS[bare]
