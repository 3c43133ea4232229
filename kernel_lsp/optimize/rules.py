"""A skill's `rule.toml`: which findings it treats, under which conditions on the text, and its parameters.

Conditions compare one fact (see `FACTS`) with a value. A fact that is unknown neither fulfils a veto nor breaks a
condition: absent evidence is unknown, never zero.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from kernel_lsp.domain import Features, Finding, Loop

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TRANSCENDENTALS = frozenset(("exp", "expf", "tanh", "tanhf", "erf", "erff"))

Value: TypeAlias = "bool | int | float | str"

MOST_COMBINATIONS = 12
"""Of parameter values; more would spend a search's whole budget on one skill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    fact: str
    """A key of `FACTS`."""
    comparison: str
    """`equals`, `at_least` or `at_most`."""
    value: Value
    reason: str
    """What is said where the condition decides against the skill."""

    def holds(self, features: Features, finding: Finding | None) -> bool | None:
        """None where the fact is unknown."""
        fact = FACTS[self.fact](features, finding)
        if fact is None:
            return None
        if self.comparison == "equals":
            return fact == self.value
        if isinstance(fact, str) or isinstance(self.value, str):
            return None
        return fact >= self.value if self.comparison == "at_least" else fact <= self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterRange:
    name: str
    values: tuple[int, ...]
    """Candidate values, the likeliest first."""
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillRule:
    treats: tuple[str, ...]
    """Codes of the findings that call for the skill."""
    priority: float
    """0–1: the share of the headroom that it can be expected to win where it applies."""
    conditions: tuple[Condition, ...]
    """All must hold."""
    vetoes: tuple[Condition, ...]
    """None may hold."""
    parameters: tuple[ParameterRange, ...]
    alone: bool = False
    """Where no finding calls for it, its conditions alone do: for faults whose time a profile charges elsewhere
    (a library's `exp` is not on the loop that calls it)."""

    def objection(self, features: Features, finding: Finding | None) -> str | None:
        """Why the skill does not fit this text; None where nothing speaks against it."""
        for condition in self.conditions:
            if condition.holds(features, finding) is False:
                return condition.reason
        for veto in self.vetoes:
            if veto.holds(features, finding):
                return veto.reason
        return None

    def combinations(self) -> Iterator[Mapping[str, int]]:
        """Every choice of parameter values, the likeliest first."""
        names = [parameter.name for parameter in self.parameters]
        for values in itertools.product(*(parameter.values for parameter in self.parameters)):
            yield dict(zip(names, values, strict=True))


def parse_rule(text: str) -> SkillRule:
    """Read a `rule.toml`.

    Raises:
        ValueError: what is wrong with it, in words (TOML's own errors included).
    """
    table = tomllib.loads(text)
    known = {"treats", "priority", "alone", "when", "veto", "parameters"}
    if unknown := sorted(set(table) - known):
        raise ValueError(f"unknown key `{unknown[0]}`; known: {', '.join(sorted(known))}")
    treats = table.get("treats", [])
    if not isinstance(treats, list) or not treats or not all(isinstance(code, str) for code in treats):
        raise ValueError("`treats` must list the codes of the findings that the skill treats")
    priority = table.get("priority", 0.5)
    if isinstance(priority, bool) or not isinstance(priority, (int, float)) or not 0 < priority <= 1:
        raise ValueError("`priority` must be a number above 0 and at most 1")
    alone = table.get("alone", False)
    if not isinstance(alone, bool) or (alone and not table.get("when")):
        raise ValueError("`alone` is true or false, and takes a condition: [[when]]")
    rule = SkillRule(
        alone=alone,
        treats=tuple(treats),
        priority=float(priority),
        conditions=tuple(_condition(entry, "otherwise") for entry in _tables(table, "when")),
        vetoes=tuple(_condition(entry, "because") for entry in _tables(table, "veto")),
        parameters=_parameters(table.get("parameters", {})),
    )
    if len(list(rule.combinations())) > MOST_COMBINATIONS:
        raise ValueError(f"more than {MOST_COMBINATIONS} combinations of parameter values")
    return rule


def _tables(table: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    entries = table.get(key, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError(f"`{key}` must be tables: [[{key}]]")
    return entries


def _condition(entry: Mapping[str, Any], reason_key: str) -> Condition:
    comparisons = [key for key in ("equals", "at_least", "at_most") if key in entry]
    fact, reason = entry.get("fact"), entry.get(reason_key)
    if fact not in FACTS:
        raise ValueError(f"unknown fact {fact!r}; known: {', '.join(FACTS)}")
    if len(comparisons) != 1 or set(entry) != {"fact", comparisons[0], reason_key}:
        raise ValueError(f"the condition on `{fact}` takes one of equals, at_least, at_most, and `{reason_key}`")
    if not isinstance(reason, str) or not reason:
        raise ValueError(f"the condition on `{fact}` must say `{reason_key}` in words")
    value = entry[comparisons[0]]
    if not isinstance(value, (bool, int, float, str)):
        raise ValueError(f"the condition on `{fact}` compares with a number, a text or a truth value")
    return Condition(fact=str(fact), comparison=comparisons[0], value=value, reason=reason)


def _parameters(tables: Any) -> tuple[ParameterRange, ...]:
    if not isinstance(tables, dict):
        raise ValueError("`parameters` must be tables: [parameters.NAME]")
    ranges: list[ParameterRange] = []
    for name, entry in tables.items():
        values = entry.get("values") if isinstance(entry, dict) else None
        if not isinstance(values, list) or not values or not all(type(value) is int for value in values):
            raise ValueError(f"parameter `{name}` must have `values`: a list of whole numbers")
        ranges.append(ParameterRange(name=name, values=tuple(values), meaning=str(entry.get("meaning", ""))))
    return tuple(ranges)


# --- facts --------------------------------------------------------------------------------------------------


def _function_loops(features: Features, finding: Finding | None) -> list[Loop]:
    if finding is None or not finding.function:
        return list(features.loops)
    return [loop for loop in features.loops if loop.function == finding.function]


def _loop(features: Features, finding: Finding | None) -> Loop | None:
    if finding is None or finding.loop is None or finding.loop >= len(features.loops):
        return None
    return features.loops[finding.loop]


def _depth(features: Features, loop: Loop) -> int:
    return 1 if loop.parent is None else 1 + _depth(features, features.loops[loop.parent])


def _in_function(features: Features, finding: Finding | None, loop: int | None) -> bool:
    return loop is not None and features.loops[loop] in _function_loops(features, finding)


def _deepest(features: Features, finding: Finding | None) -> int:
    return max((_depth(features, loop) for loop in _function_loops(features, finding)), default=0)


def _of_loop(measure: Callable[[Features, Loop], Value]) -> Callable[[Features, Finding | None], Value | None]:
    def fact(features: Features, finding: Finding | None) -> Value | None:
        loop = _loop(features, finding)
        return None if loop is None else measure(features, loop)

    return fact


FACTS: Mapping[str, Callable[[Features, Finding | None], Value | None]] = {
    # of the finding
    "finding.headroom": lambda _, finding: None if finding is None else finding.headroom,
    # of the finding's loop; unknown where the finding is not a loop's
    "loop.depth": _of_loop(_depth),
    "loop.parallel": _of_loop(lambda _, loop: loop.is_parallel),
    "loop.innermost": _of_loop(lambda _, loop: loop.is_innermost),
    "loop.simd": _of_loop(lambda _, loop: loop.is_simd),
    # of the function that the finding is in, or of the whole file
    "function.loops": lambda features, finding: len(_function_loops(features, finding)),
    "function.depth": _deepest,
    "function.reductions": lambda features, finding: sum(
        _in_function(features, finding, reduction.loop) for reduction in features.reductions
    ),
    "function.reductions_through_memory": lambda features, finding: sum(
        reduction.through_memory and _in_function(features, finding, reduction.loop)
        for reduction in features.reductions
    ),
    "function.invariants": lambda features, finding: sum(
        _in_function(features, finding, invariant.loop) for invariant in features.invariants
    ),
    "function.transcendentals": lambda features, finding: sum(
        call.name.rpartition("::")[2] in TRANSCENDENTALS and _in_function(features, finding, call.loop)
        for call in features.calls
    ),
    # of the file
    "file.accessors": lambda features, _: sum(
        call.name.startswith(("accessor", "packed_accessor")) for call in features.calls
    ),
    "file.doubles": lambda features, _: len(features.doubles),
    "file.torch": lambda features, _: any(
        include.strip('<">').startswith(("torch/", "ATen/", "c10/")) for include in features.includes
    ),
    "file.syntax_errors": lambda features, _: len(features.syntax_errors),
}
"""Name → how it is read from the text and the finding; None means unknown."""
