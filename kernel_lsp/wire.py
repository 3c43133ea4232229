"""Frozen dataclasses to JSON and back, strictly: what travels between the server and the worker.

Written here and not taken from a library because both ends need it, and the worker's end runs under the user's
interpreter, where torch is the only package we may count on. Reading is strict: an unknown field, a missing one
or a value of another type raises `WireError`, so a forged or damaged message is refused, never half believed.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import math
import struct
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

TAG = "class"
"""Key that names the member of a union. No field can have that name: it is a word of the language."""

MAX_FRAME = 64 * 1024 * 1024
"""Bytes; a longer frame is refused before it is read."""

_HEADER = struct.Struct(">I")


class WireError(ValueError):
    """A message that does not have the declared shape."""


def to_plain(value: Any) -> Any:
    """`value` as JSON-ready data; each dataclass carries its class name under `class`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {TAG: type(value).__name__, **fields}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, (tuple, list)):
        return [to_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value


def from_plain(kind: Any, data: Any) -> Any:
    """`data` as a value of `kind`, a dataclass, an enum, a tuple, a union of those or a plain type.

    Raises:
        WireError: where `data` is not of that shape.
    """
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _member(typing.get_args(kind), data)
    if origin is tuple:
        return _tuple(typing.get_args(kind), data)
    if dataclasses.is_dataclass(kind):
        return _instance(typing.cast(type, kind), data)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        try:
            return kind(data)
        except ValueError as error:
            raise WireError(str(error)) from None
    if kind is Path and isinstance(data, str):
        return Path(data)
    if kind is float:
        return _float(data)
    if kind in (int, str, bool) and type(data) is kind:
        return data
    raise WireError(f"expected {kind}, got {type(data).__name__}")


def dumps(value: Any) -> str:
    return json.dumps(to_plain(value), ensure_ascii=False, allow_nan=False)


def loads(kind: type[T] | Any, text: str | bytes) -> T:
    try:
        data = json.loads(text)
    except ValueError as error:
        raise WireError(f"not JSON: {error}") from None
    return typing.cast(T, from_plain(kind, data))


def frame(value: Any) -> bytes:
    """One message with its length before it."""
    body = dumps(value).encode()
    return _HEADER.pack(len(body)) + body


def body_length(header: bytes) -> int:
    """Length announced by the four bytes before a message."""
    (length,) = _HEADER.unpack(header)
    if length > MAX_FRAME:
        raise WireError(f"a message of {length} bytes")
    return int(length)


HEADER_BYTES = _HEADER.size


def _float(data: Any) -> float:
    if type(data) in (int, float):
        return float(data)
    if data in ("inf", "-inf", "nan"):
        return float(data)
    raise WireError(f"expected a number, got {data!r:.40}")


def _tuple(arguments: tuple[Any, ...], data: Any) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise WireError(f"expected a list, got {type(data).__name__}")
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(from_plain(arguments[0], item) for item in data)
    if len(arguments) != len(data):
        raise WireError(f"expected {len(arguments)} items, got {len(data)}")
    return tuple(from_plain(kind, item) for kind, item in zip(arguments, data, strict=True))


def _member(members: tuple[Any, ...], data: Any) -> Any:
    if data is None and type(None) in members:
        return None
    if isinstance(data, dict):
        for member in members:
            if dataclasses.is_dataclass(member) and getattr(member, "__name__", "") == data.get(TAG):
                return from_plain(member, data)
        raise WireError(f"no member {data.get(TAG)!r:.40} here")
    for member in members:
        if member is type(None) or dataclasses.is_dataclass(member):
            continue
        try:
            return from_plain(member, data)
        except WireError:
            continue
    raise WireError(f"no member fits {type(data).__name__}")


def _instance(kind: type, data: Any) -> Any:
    if not isinstance(data, dict) or data.get(TAG) != kind.__name__:
        raise WireError(f"expected a {kind.__name__}")
    hints = _hints(kind)
    given = {key: value for key, value in data.items() if key != TAG}
    if unknown := given.keys() - hints.keys():
        raise WireError(f"{kind.__name__} has no {sorted(unknown)}")
    try:
        return kind(**{name: from_plain(hints[name], value) for name, value in given.items()})
    except TypeError as error:
        raise WireError(f"{kind.__name__}: {error}") from None


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)
