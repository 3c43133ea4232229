"""Tensors to files of raw bytes and back, laid out so that a step past either end shows.

A tensor's file is a whole number of pages: padding, the elements ending within 63 bytes of the file's end (torch
promises 64-byte alignment of fresh tensors, and kernels may rely on it), padding. The kernel's child maps it shared
between two pages that may not be touched, so a far step faults, a near write changes padding that the judge reads
afterwards, and a near read meets NaN. The judge reads the same file, so nothing that the kernel's child says is
needed to know what became of the memory.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable
from pathlib import Path

import torch

from kernel_lsp.worker.exchange import Mapping, Opaque, Scalar, Sequence, StoredTensor, Value

ALIGNMENT = 64
PAGE = mmap.PAGESIZE
NAN_BYTE = 0xFF
"""All bits set is a NaN in every floating type, and -1 in every signed integer."""

DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
        torch.complex64,
        torch.complex128,
    )
}

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_MAP_FIXED = 0x10
_PROT_NONE = 0
_MAP_FAILED = ctypes.c_void_p(-1).value


class BadTensor(Exception):
    """A description that does not fit its file: the kernel's child is not itself any more."""


def dtype_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def store(tensor: torch.Tensor, folder: Path, name: str, *, fill: int | None = None, margin: int = 0) -> StoredTensor:
    """Write `tensor`, strides kept, gaps and padding all NaN; with `fill`, that byte in place of its elements.

    With `margin`, there are that many bytes of padding before it and as many after its last byte, for memory that has
    no pages to guard it.
    """
    tensor = tensor.detach()
    if any(stride == 0 and n > 1 for n, stride in zip(tensor.shape, tensor.stride(), strict=True)):
        tensor = tensor.contiguous()
    size = tensor.element_size()
    reach = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    span = reach * size if tensor.numel() else 0
    room = -(-span // ALIGNMENT) * ALIGNMENT
    total = span + 2 * margin if margin else max(-(-room // PAGE), 1) * PAGE
    offset = margin or total - room
    content = torch.full((total,), NAN_BYTE, dtype=torch.uint8)
    if span:
        elements = content[offset : offset + span]
        if fill is not None:
            elements.fill_(fill)
        else:
            elements.view(tensor.dtype).as_strided(tensor.shape, tensor.stride()).copy_(tensor)
    with (folder / name).open("wb") as file:
        file.write(_bytes_of(content))
    return StoredTensor(
        file=name,
        dtype=dtype_name(tensor),
        shape=tuple(tensor.shape),
        strides=tuple(tensor.stride()),
        offset=offset,
        span=span,
    )


def read_file(stored: StoredTensor, folder: Path) -> torch.Tensor:
    """The file's bytes, padding included, as they are now.

    Raises:
        BadTensor: where there is no such file or its size does not fit the description.
    """
    if "/" in stored.file or stored.file in ("", ".", ".."):
        raise BadTensor(stored.file)
    dtype = DTYPES.get(stored.dtype)
    size = 0 if dtype is None else dtype.itemsize
    reach = sum((n - 1) * s for n, s in zip(stored.shape, stored.strides, strict=False)) + 1
    count = 1
    for n in stored.shape:
        count *= n
    fits = (
        dtype is not None
        and len(stored.shape) == len(stored.strides)
        and all(n >= 0 for n in stored.shape)
        and all(s >= 0 for s in stored.strides)
        and stored.offset >= 0
        and stored.span == (reach * size if count else 0)
    )
    if not fits:
        raise BadTensor(stored.file)
    try:
        descriptor = os.open(folder / stored.file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            total = os.fstat(descriptor).st_size
            if stored.offset + stored.span > total:
                raise BadTensor(stored.file)
            content = torch.empty(total, dtype=torch.uint8)
            if file.readinto(_bytes_of(content)) != total:
                raise BadTensor(stored.file)
    except OSError as error:
        raise BadTensor(f"{stored.file}: {error.strerror}") from None
    return content


def elements(stored: StoredTensor, content: torch.Tensor) -> torch.Tensor:
    """The described tensor in a file's bytes."""
    dtype = DTYPES[stored.dtype]
    if stored.span == 0:
        return torch.empty(stored.shape, dtype=dtype)
    raw = content[stored.offset : stored.offset + stored.span]
    if raw.data_ptr() % dtype.itemsize:
        raw = raw.clone()
    if dtype is torch.bool:
        # A byte that is neither 0 nor 1 is no bool; torch would take it for one.
        raw = torch.where(raw > 1, torch.zeros_like(raw), raw)
    return raw.view(dtype).as_strided(stored.shape, stored.strides)


def map_guarded(stored: StoredTensor, folder: Path) -> torch.Tensor:
    """The described tensor over the file itself: what is written to it is written to the file."""
    dtype = DTYPES[stored.dtype]
    if stored.span == 0:
        return torch.empty(stored.shape, dtype=dtype)
    descriptor = os.open(folder / stored.file, os.O_RDWR)
    try:
        total = _total(stored)
        reserved = _libc.mmap(None, total + 2 * PAGE, _PROT_NONE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        if reserved == _MAP_FAILED:
            raise MemoryError("no address space left for an argument")
        address = _libc.mmap(
            reserved + PAGE, total, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | _MAP_FIXED, descriptor, 0
        )
        if address == _MAP_FAILED:
            raise MemoryError("no memory left for an argument")
    finally:
        os.close(descriptor)
    buffer = (ctypes.c_char * stored.span).from_address(address + stored.offset)
    flat = torch.frombuffer(buffer, dtype=dtype)
    return flat.as_strided(stored.shape, stored.strides)


def unmap(stored: StoredTensor, tensor: torch.Tensor) -> None:
    """Give a guarded tensor's memory back; nothing may refer to it any more."""
    if stored.span:
        _libc.munmap(tensor.data_ptr() - stored.offset - PAGE, _total(stored) + 2 * PAGE)


def _total(stored: StoredTensor) -> int:
    """Bytes of a tensor's file, where it holds elements: it ends with the alignment's rest after them."""
    return stored.offset + -(-stored.span // ALIGNMENT) * ALIGNMENT


def describe(value: object, keep: Callable[[torch.Tensor], StoredTensor]) -> Value:
    """A value of any structure, its tensors handed to `keep`."""
    if isinstance(value, torch.Tensor):
        return keep(value) if dtype_name(value) in DTYPES and value.layout is torch.strided else _opaque(value)
    if value is None:
        return Scalar(kind="none", text="")
    if type(value) in (bool, int, float, str):
        return Scalar(kind=type(value).__name__, text=str(value))
    if isinstance(value, (tuple, list)):
        return Sequence(
            kind="tuple" if isinstance(value, tuple) else "list", items=tuple(describe(v, keep) for v in value)
        )
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return Mapping(keys=tuple(value), items=tuple(describe(v, keep) for v in value.values()))
    return _opaque(value)


def revive(value: Value, take: Callable[[StoredTensor], torch.Tensor]) -> object:
    """The value that was described, its tensors got from `take`.

    Raises:
        BadTensor: where a number's text is none, or `take` raises it.
    """
    match value:
        case StoredTensor():
            return take(value)
        case Scalar(kind=kind, text=text):
            return _number(kind, text)
        case Sequence(kind=kind, items=items):
            revived = [revive(item, take) for item in items]
            return tuple(revived) if kind == "tuple" else revived
        case Mapping(keys=keys, items=items):
            return {key: revive(item, take) for key, item in zip(keys, items, strict=False)}
        case Opaque():
            return value


def _opaque(value: object) -> Opaque:
    return Opaque(type=f"{type(value).__module__}.{type(value).__qualname__}")


def _number(kind: str, text: str) -> object:
    try:
        match kind:
            case "none":
                return None
            case "bool":
                return text == "True"
            case "int":
                return int(text)
            case "float":
                return float(text)
            case "str":
                return text
    except ValueError:
        pass
    raise BadTensor(f"{text:.40} is no {kind}")


def _bytes_of(content: torch.Tensor) -> memoryview:
    """The memory of a flat tensor of bytes."""
    return memoryview((ctypes.c_char * content.numel()).from_address(content.data_ptr())).cast("B")


def raw_bytes(tensor: torch.Tensor) -> bytes:
    """A contiguous tensor's elements in row-major order, native byte order."""
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())
