"""A task metric before and after, compared in pairs: the same samples were judged twice.

Two rounded means hide that a model lost 55 answers and gained 33. Where a metric gives one score per
sample, the pairs are counted, the drop gets an interval, and the sign test says whether chance would do it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from mobuild.errors import NodeFailed, did_you_mean
from mobuild.metrics.task import HIGHER, Score

_Z = 1.959963984540054  # 97.5 % point of the normal distribution: two-sided 95 %


def compared(reference: Mapping[str, Score], value: Mapping[str, Score], better: Any) -> dict[str, dict[str, Any]]:
    """Metric → reference, value, drop (positive: worse), relative drop, and the paired comparison.

    `drop_relative` is None when the reference is 0. `better` is `higher`, `lower`, or one of them by metric.

    Raises:
        NodeFailed: the metric gave other names, or scores of other samples, than for the reference.
        ConfigError: `better` names a metric that there is not.
    """
    if list(reference) != list(value):
        raise NodeFailed(
            f"metric: expected the names of the reference, {_names(reference)}, found {_names(value)}",
            "a metric has to return the same names whatever the outputs are",
        )
    directions = _directions(better, list(reference))
    return {name: _compared(name, reference[name], value[name], directions[name]) for name in reference}


def paired(reference: Sequence[float], value: Sequence[float]) -> dict[str, Any]:
    """Lost, gained, the 95 % interval of the drop and the p-value of the sign test; higher is better.

    The interval is Agresti and Min's for scores of 0 and 1, or of 0 and -1 (Statistics in Medicine 24, 2005,
    p. 729: half an observation added to each cell), which is no point when nothing was lost; for other scores
    the normal one of the mean difference, None for a single pair.
    """
    drops = [before - after for before, after in zip(reference, value)]
    lost, gained = sum(each > 0 for each in drops), sum(each < 0 for each in drops)
    is_binary = {*reference, *value} <= {0, 1} or {*reference, *value} <= {0, -1}  # -1: of a metric to be low
    interval = _binary_interval(lost, gained, len(drops)) if is_binary else _normal_interval(drops)
    return {
        "samples": len(drops),
        "lost": lost,
        "gained": gained,
        "interval": interval,
        "p_value": sign_test(lost, gained),
    }


def sign_test(lost: int, gained: int) -> float:
    """Exact two-sided p-value of so unequal a split when loss and gain are equally likely."""
    count = lost + gained
    if not count:
        return 1.0
    combinations = tail = 1
    for i in range(1, min(lost, gained) + 1):
        combinations = combinations * (count - i + 1) // i
        tail += combinations
    return min(1.0, 2 * tail / 2**count if count < 1000 else math.exp(_log(2 * tail) - count * math.log(2)))


def _compared(name: str, reference: Score, value: Score, direction: str) -> dict[str, Any]:
    sign = 1 if direction == HIGHER else -1
    drop = sign * (reference.value - value.value)
    found: dict[str, Any] = {
        "reference": reference.value,
        "value": value.value,
        "drop": drop,
        "drop_relative": drop / abs(reference.value) if reference.value else None,
        "better": direction,
    }
    if reference.each and value.each:
        if len(reference.each) != len(value.each):
            raise NodeFailed(
                f"metric {name!r}: expected {len(reference.each)} scores, as for the reference, found {len(value.each)}"
            )
        found["paired"] = paired([sign * each for each in reference.each], [sign * each for each in value.each])
    return found


def _directions(better: Any, names: Sequence[str]) -> dict[str, str]:
    if isinstance(better, str):
        return dict.fromkeys(names, better)
    for name in better:
        if name not in names:
            raise NodeFailed(
                f"better: {name!r} is no metric.{did_you_mean(name, names)}", f"metrics: {', '.join(names)}"
            )
    return {name: better.get(name, HIGHER) for name in names}


def _binary_interval(lost: int, gained: int, count: int) -> list[float]:
    total, b, c = count + 2, lost + 0.5, gained + 0.5
    middle = (b - c) / total
    half = _Z * math.sqrt((b + c) - (b - c) ** 2 / total) / total
    return [max(-1.0, middle - half), min(1.0, middle + half)]


def _normal_interval(drops: Sequence[float]) -> list[float] | None:
    count = len(drops)
    if count < 2:
        return None
    mean = math.fsum(drops) / count
    variance = math.fsum((each - mean) ** 2 for each in drops) / (count - 1)
    half = _Z * math.sqrt(variance / count)
    return [mean - half, mean + half]


def _log(number: int) -> float:
    """Natural logarithm of a whole number too large for a float."""
    shift = max(0, number.bit_length() - 60)
    return math.log(number >> shift) + shift * math.log(2)


def _names(found: Mapping[str, Score]) -> str:
    return ", ".join(map(repr, found)) or "none"
