"""Gates: measurements against the constraints of a recipe.

Nodes measure, gates judge. A judgement is pure and costs nothing, so it is made anew on every run from the
stored measurements: a changed tolerance re-runs nothing. Each constraint belongs to the kind that measures
it and is judged where that kind is part of the graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
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


def _drops(measurements: Mapping[str, Any]) -> Iterator[Measured]:
    """The drop of every task metric against the reference."""
    for name, metric in measurements.get("metrics", {}).items():
        if metric.get("drop") is not None:
            yield Measured(f"metric {name!r}", metric["drop"])


def _relative_drops(measurements: Mapping[str, Any]) -> Iterator[Measured]:
    """The same as a share of the reference."""
    for name, metric in measurements.get("metrics", {}).items():
        relative = metric.get("drop_relative")
        if relative is None and metric.get("drop") is not None:
            relative = _beyond_zero(metric["drop"])
        if relative is not None:
            yield Measured(f"metric {name!r}", relative)


def _beyond_zero(drop: float) -> float | None:
    """The relative drop from 0, which is beyond every limit; none where nothing was lost."""
    return math.inf if drop > 0 else None


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


def _image_mb(measurements: Mapping[str, Any]) -> Iterator[Measured]:
    """What an image is on disk, with the files that are most of it."""
    if "plain_bytes" in measurements:
        largest = ", ".join(f"{path} {size / 1e6:.1f}" for path, size in measurements.get("largest", {}).items())
        yield Measured(f"the image (largest, in MB: {largest})", measurements["plain_bytes"] / 1e6)


def _nothing(measurements: Mapping[str, Any]) -> Iterator[Measured]:
    """No kind measures this yet: where proof is asked for, it was not given."""
    yield from ()


_NOT_YET = "this version of mobuild measures it nowhere"
VALIDATIONS = ("validate", "validate_together")
_ENGINE = ("build_engine",)
_OF_OUTPUTS = ("cosine_min", "max_abs")
_UNMEASURED = ("latency_p50_ms", "latency_p99_ms", "memory_mib")
RULES: Mapping[str, Rule] = {
    **{key: Rule(VALIDATIONS, _nothing) for key in _UNMEASURED},
    "accuracy_drop": Rule(VALIDATIONS, _drops),
    "accuracy_drop_relative": Rule(VALIDATIONS, _relative_drops),
    "cosine_min": Rule(VALIDATIONS, _tensor("cosine_mean"), is_floor=True),
    "max_abs": Rule(VALIDATIONS, _tensor("max_abs")),
    "parity": Rule(_ENGINE, _engine_parity),
    "engine_mb": Rule(_ENGINE, _engine_mb),
    "image_mb": Rule(("image",), _image_mb),
}
_OPTIONS = ("allow_unmeasured",)
AGAINST = "against"  # {ref: v1.3, accuracy_drop: 0.002}: the metrics of another revision instead of the reference's
AGAINST_LIMITS = ("accuracy_drop", "accuracy_drop_relative")


def check(constraints: Constraints, where: str) -> None:
    """Refuse constraints that are not known or are no numbers.

    Raises:
        ConfigError: names the key; lists the known ones.
    """
    known = (*RULES, AGAINST, *_OPTIONS)
    for key, value in constraints.items():
        if key not in known:
            raise ConfigError(
                f"{where}: unknown constraint {key!r}.{did_you_mean(key, known)}", f"Constraints: {', '.join(known)}"
            )
        if value is None:  # lifts a constraint that the recipe sets
            continue
        if key in _OPTIONS and not isinstance(value, bool):
            raise ConfigError(f"{where}: constraints.{key}: expected true or false, found {value!r}")
        if key in RULES and not _is_number(value):
            raise ConfigError(f"{where}: constraints.{key}: expected a number, found {value!r}")
        if key == AGAINST:
            _check_against(value, where)


def _check_against(value: Any, where: str) -> None:
    example = "against: {ref: v1.3, accuracy_drop: 0.002}"
    if not isinstance(value, Mapping) or not isinstance(value.get("ref"), (str, int)) or value.get("ref") == "":
        raise ConfigError(f"{where}: constraints.against: expected a revision `ref`, found {value!r}", example)
    for key, limit in value.items():
        if key not in ("ref", *AGAINST_LIMITS):
            near = did_you_mean(str(key), AGAINST_LIMITS)
            raise ConfigError(f"{where}: constraints.against: unknown key {key!r}.{near}", example)
        if key != "ref" and not _is_number(limit):
            raise ConfigError(f"{where}: constraints.against.{key}: expected a number, found {limit!r}", example)
    if not any(key in value for key in AGAINST_LIMITS):
        raise ConfigError(f"{where}: constraints.against: expected {' or '.join(AGAINST_LIMITS)}", example)


def _is_number(value: Any) -> bool:
    """Whether a value is a limit; beside NaN, nothing is too much or too little."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)


def own_limits(kind: str, constraints: Constraints) -> dict[str, Any]:
    """The constraints about a node of `kind`; what follows it differs where these do."""
    if not constraints:
        return {}
    own = [key for key, rule in RULES.items() if kind in rule.kinds] + [AGAINST] * (kind in VALIDATIONS)
    return {key: constraints[key] for key in own if constraints.get(key) is not None}


def judge(
    kind: str, measurements: Mapping[str, Any], constraints: Constraints, names: Collection[str] = ()
) -> Verdict | None:
    """The verdict on a node of `kind`, or None when no constraint is about it. `names` are what it is called."""
    limits = own_limits(kind, constraints)
    if not limits:
        return None
    misses: list[str] = []
    unmeasured: list[str] = []
    if against := limits.pop(AGAINST, None):
        lost, unknown = _judged_against(measurements, against, names)
        misses += lost
        unmeasured += unknown
    for key, limit in limits.items():
        rule = RULES[key]
        found = list(rule.numbers(measurements))
        misses += [_miss(key, one, limit) for one in found if not rule.allows(one.value, limit)]
        if not found:
            unmeasured.append(f"{key}: {_why_unmeasured(key, measurements)}, wanted {_side(key)} {limit}")
    if misses:
        return Verdict("failed", tuple(misses))
    if unmeasured:
        return Verdict("not run", () if constraints.get("allow_unmeasured") else tuple(unmeasured))
    return Verdict("proxy" if measurements.get("device") == "proxy" else "passed")


def _judged_against(
    measurements: Mapping[str, Any], limit: Mapping[str, Any], names: Collection[str]
) -> tuple[list[str], list[str]]:
    """(misses, what could not be judged) of the metrics beside those of the same node in another revision."""
    where = f"against {limit['ref']}"
    metrics = measurements.get("metrics", {})
    baseline: Mapping[str, float] = next(
        (found for name, found in limit.get("baseline", {}).items() if name in names), {}
    )
    shared = [name for name in metrics if name in baseline]
    if not shared:
        has = ", ".join(baseline) or "none"
        why = limit.get("missing") or f"no metric in common: {has} there, {', '.join(metrics) or 'none'} here"
        return [], [f"{where}: not run: {why}"]
    misses = []
    for name in shared:
        now, before = metrics[name]["value"], baseline[name]
        drop = (before - now) * (-1 if metrics[name].get("better") == "lower" else 1)
        relative = drop / abs(before) if before else _beyond_zero(drop)
        found = {"accuracy_drop": drop, "accuracy_drop_relative": relative}
        for key in AGAINST_LIMITS:
            value = found[key]
            if key in limit and value is not None and value > limit[key]:
                misses.append(
                    f"{where}: {key} of metric {name!r}: {before:.9g} there, {now:.9g} here: {value:.9g}, "
                    f"allowed at most {limit[key]:.9g}"
                )
    return misses, []


def _why_unmeasured(key: str, measurements: Mapping[str, Any]) -> str:
    if key in _UNMEASURED:
        return _NOT_YET
    if key in _OF_OUTPUTS and "tensors" not in measurements:
        return "not measured (a script of your own measures no outputs; give the validation data as well)"
    if key in AGAINST_LIMITS and not measurements.get("metrics"):
        return "not measured (the validation has neither metric nor cmd)"
    return "not measured"


def _side(key: str) -> str:
    return "at least" if RULES[key].is_floor else "at most"


def _miss(key: str, found: Measured, limit: float) -> str:
    return f"{key} of {found.subject}: measured {found.value:.9g}, allowed {_side(key)} {limit:.9g}"
