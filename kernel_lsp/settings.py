"""Layered options → one frozen `Settings`.

Later layers win: the defaults below, `[tool.kernel-lsp]` of the workspace's `pyproject.toml`, `kernel-lsp.toml`,
what the editor sends, the command line. Keys are the fields' names with `-` or `_` (the editor's camelCase too).
"""

from __future__ import annotations

import dataclasses
import enum
import re
import sys
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs

from kernel_lsp.domain import Problem

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class OnSave(enum.Enum):
    OFF = "off"
    VERIFY = "verify"
    """Build, judge, time."""
    PROFILE = "profile"
    """And profile, and diagnose from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    python: str = ""
    """Interpreter with the torch that the worker uses; empty: the one that runs the server."""
    compiler: str = ""
    """C++ compiler; empty: `$CXX`, else `g++`."""
    flags: tuple[str, ...] = ("-O3", "-march=native", "-fopenmp")
    """Optimisation flags of every build; what is measured is what these give."""
    on_save: OnSave = OnSave.PROFILE
    compiled_baseline: bool = True
    """Also time the reference under `torch.compile` (its first compilation takes tens of seconds)."""
    cold_cache: bool = True
    """Flush the caches before every timed call."""
    timeout_s: float = 60.0
    """Wall time that one evaluation of a kernel may take."""
    memory_gb: float = 8.0
    """Memory that one evaluation of a kernel may add."""
    optimize_seconds: float = 180.0
    """Wall time that one optimisation may take."""
    patience: int = 12
    """Attempts without gain after which an optimisation stops."""
    cache_dir: str = ""
    """Where builds and the history are kept; empty: the user's cache folder."""
    cache_gb: float = 4.0
    """Builds beyond this are removed, least recently used first."""

    @property
    def cache_folder(self) -> Path:
        """`cache_dir`, or where this user's caches belong."""
        return Path(self.cache_dir) if self.cache_dir else platformdirs.user_cache_path("kernel-lsp")


def load(workspace: Path | None, *layers: Mapping[str, Any]) -> tuple[Settings, tuple[Problem, ...]]:
    """The settings of `workspace` with `layers` on top, and what is wrong with them.

    A wrong entry is reported and its default kept: a typing error in a settings file stops nothing.
    """
    problems: list[Problem] = []
    values: dict[str, Any] = {}
    for layer in (*_files(workspace, problems), *layers):
        for key, value in layer.items():
            name = re.sub(r"(?<=[a-z])([A-Z])", r"_\1", key).replace("-", "_").lower()
            try:
                values[name] = _checked(name, value)
            except ValueError as error:
                problems.append(Problem(code="bad-setting", message=f"setting `{key}`: {error}", hint=_hint(name)))
    return Settings(**values), tuple(problems)


def _files(workspace: Path | None, problems: list[Problem]) -> list[Mapping[str, Any]]:
    layers: list[Mapping[str, Any]] = []
    if workspace is None:
        return layers
    for name, keys in (("pyproject.toml", ("tool", "kernel-lsp")), ("kernel-lsp.toml", ())):
        path = workspace / name
        try:
            table: Any = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            problems.append(
                Problem(code="bad-setting", message=f"{path}: {error}", hint="mend the file; the defaults hold")
            )
            continue
        for key in keys:
            table = table.get(key, {}) if isinstance(table, dict) else {}
        if isinstance(table, dict):
            layers.append(table)
    return layers


def _checked(name: str, value: Any) -> Any:
    hints = typing.get_type_hints(Settings)
    if name not in hints:
        raise ValueError("there is no such setting")
    kind = hints[name]
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(value)
    if kind is float and type(value) in (int, float):
        if value <= 0:
            raise ValueError("must be above zero")
        return float(value)
    if kind in (bool, int, str) and type(value) is kind:
        return value
    if typing.get_origin(kind) is tuple and isinstance(value, (list, tuple)):
        if all(isinstance(item, str) for item in value):
            return tuple(value)
        raise ValueError("must be a list of strings")
    raise ValueError(f"{value!r:.40} is not what it takes")


def _hint(name: str) -> str:
    field = next((f for f in dataclasses.fields(Settings) if f.name == name), None)
    if field is None:
        return "known settings: " + ", ".join(f.name for f in dataclasses.fields(Settings))
    kind = typing.get_type_hints(Settings)[name]
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return f"one of {', '.join(repr(m.value) for m in kind)}; default {field.default.value!r}"
    return f"default: {field.default!r}"
