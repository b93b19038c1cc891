"""Gates: measurements against the constraints of a recipe.

Nodes measure, gates judge. A judgement is pure and costs nothing, so it is made anew on every run from the
stored measurements: a changed tolerance re-runs nothing. Each constraint belongs to the kind that measures
it and is judged where that kind is part of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mobuild.errors import ConfigError, did_you_mean

Word = Literal["passed", "failed", "proxy", "not run"]
Constraints = Mapping[str, Any]


@dataclass(frozen=True)
class Measured:
    """One number that a constraint is about: what it is of, and its value."""

    subject: str
    value: float


@dataclass(frozen=True)
class Verdict:
    """The judgement on one node. `misses` are sentences: measured, allowed."""

    word: Word
    misses: tuple[str, ...] = ()

    @property
    def blocks(self) -> bool:
        return bool(self.misses)


@dataclass(frozen=True)
class Rule:
    """How one constraint is judged: the kinds that measure it, the numbers, and which side is allowed."""

    kinds: tuple[str, ...]
    numbers: Callable[[Mapping[str, Any]], Iterator[Measured]]
    is_floor: bool = False

    def allows(self, value: float, limit: float) -> bool:
        return value >= limit if self.is_floor else value <= limit


def _metric(field: str) -> Callable[[Mapping[str, Any]], Iterator[Measured]]:
    """The field of every task metric, for example the drop against the reference."""

    def numbers(measurements: Mapping[str, Any]) -> Iterator[Measured]:
        for name, metric in measurements.get("metrics", {}).items():
            if metric.get(field) is not None:
                yield Measured(f"metric {name!r}", metric[field])

    return numbers


def _tensor(field: str) -> Callable[[Mapping[str, Any]], Iterator[Measured]]:
    """The field of every output's comparison with the reference."""

    def numbers(measurements: Mapping[str, Any]) -> Iterator[Measured]:
        for name, tensor in measurements.get("tensors", {}).items():
            if tensor.get(field) is not None:
                yield Measured(f"output {name!r}", tensor[field])

    return numbers


def _engine_mb(measurements: Mapping[str, Any]) -> Iterator[Measured]:
    if "engine_bytes" in measurements:
        yield Measured("the engine", measurements["engine_bytes"] / 1e6)


def _engine_parity(measurements: Mapping[str, Any]) -> Iterator[Measured]:
    """The largest difference between the engine and the graph that it was built from."""
    parity = measurements.get("parity", {})
    for corner, found in parity.items() if isinstance(parity, Mapping) else ():
        if isinstance(found, Mapping):
            yield Measured(f"profile {corner}", found["max_abs"])


def _nothing(measurements: Mapping[str, Any]) -> Iterator[Measured]:
    """No kind measures this yet: where proof is asked for, it was not given."""
    yield from ()


_NOT_YET = "this version of mobuild measures it nowhere"
_VALIDATE, _ENGINE = ("validate", "validate_together"), ("build_engine",)
_UNMEASURED = ("latency_p50_ms", "latency_p99_ms", "memory_mib", "image_mb", "against")
RULES: Mapping[str, Rule] = {
    **{key: Rule(_VALIDATE, _nothing) for key in _UNMEASURED},
    "accuracy_drop": Rule(_VALIDATE, _metric("drop")),
    "accuracy_drop_relative": Rule(_VALIDATE, _metric("drop_relative")),
    "cosine_min": Rule(_VALIDATE, _tensor("cosine_mean"), is_floor=True),
    "max_abs": Rule(_VALIDATE, _tensor("max_abs")),
    "parity": Rule(_ENGINE, _engine_parity),
    "engine_mb": Rule(_ENGINE, _engine_mb),
}
_OPTIONS = ("allow_unmeasured",)


def check(constraints: Constraints, where: str) -> None:
    """Refuse constraints that are not known or are no numbers.

    Raises:
        ConfigError: names the key; lists the known ones.
    """
    known = (*RULES, *_OPTIONS)
    for key, value in constraints.items():
        if key not in known:
            raise ConfigError(
                f"{where}: unknown constraint {key!r}.{did_you_mean(key, known)}", f"Constraints: {', '.join(known)}"
            )
        if value is None:  # lifts a constraint that the recipe sets
            continue
        if key in _OPTIONS and not isinstance(value, bool):
            raise ConfigError(f"{where}: constraints.{key}: expected true or false, found {value!r}")
        if key in RULES and key != "against" and (isinstance(value, bool) or not isinstance(value, (int, float))):
            raise ConfigError(f"{where}: constraints.{key}: expected a number, found {value!r}")


def own_limits(kind: str, constraints: Constraints) -> dict[str, Any]:
    """The constraints about a node of `kind`; what follows it differs where these do."""
    own = (key for key, rule in RULES.items() if kind in rule.kinds)
    return {key: constraints[key] for key in own if constraints.get(key) is not None}


def judge(kind: str, measurements: Mapping[str, Any], constraints: Constraints) -> Verdict | None:
    """The verdict on a node of `kind`, or None when no constraint is about it."""
    limits = own_limits(kind, constraints)
    if not limits:
        return None
    misses: list[str] = []
    unmeasured: list[str] = []
    for key, limit in limits.items():
        rule = RULES[key]
        found = list(rule.numbers(measurements))
        misses += [_miss(key, one, limit) for one in found if not rule.allows(one.value, limit)]
        if not found:
            unmeasured.append(
                f"{key}: {_NOT_YET if key in _UNMEASURED else 'not measured'}, wanted {_side(key)} {limit}"
            )
    if misses:
        return Verdict("failed", tuple(misses))
    if unmeasured:
        return Verdict("not run", () if constraints.get("allow_unmeasured") else tuple(unmeasured))
    return Verdict("proxy" if measurements.get("device") == "proxy" else "passed")


def _side(key: str) -> str:
    if key == "against":
        return "one no worse than"
    return "at least" if RULES[key].is_floor else "at most"


def _miss(key: str, found: Measured, limit: float) -> str:
    return f"{key} of {found.subject}: measured {found.value:.9g}, allowed {_side(key)} {limit:.9g}"
