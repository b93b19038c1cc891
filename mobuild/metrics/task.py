"""What a metric of the user's returned, checked once and brought to one form.

A metric may return a number, one score per sample, or either by name. What is no finite number is refused
here, with the words to mend it: a NaN would pass every gate that asks `drop > allowed`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mobuild.errors import ConfigError, NodeFailed, did_you_mean

HIGHER, LOWER = "higher", "lower"


@dataclass(frozen=True)
class Score:
    """One metric: its value, and the scores of which it is the mean, where the metric gave them."""

    value: float
    each: tuple[float, ...] = ()


def check_better(better: Any) -> None:
    """Refuse anything but `higher`, `lower`, or a map of metric names to these.

    Raises:
        ConfigError: names the word.
    """
    words = better.values() if isinstance(better, Mapping) else (better,)
    for word in words:
        if word not in (HIGHER, LOWER):
            raise ConfigError(
                f"better: expected {HIGHER!r} or {LOWER!r}, found {word!r}.{did_you_mean(str(word), (HIGHER, LOWER))}",
                "or by metric: better: {loss: lower, accuracy: higher}",
            )


def scores(metric: str, returned: Any, where: str) -> dict[str, Score]:
    """The scores that the metric `metric` (`file.py:function`) returned for `where` (`the reference`), by name.

    A single number is called after the function.

    Raises:
        NodeFailed: no number, or not a finite one; names the metric and what it returned.
    """
    subject = f"metric {metric!r}, on {where}"
    if not isinstance(returned, Mapping):
        return {metric.rpartition(":")[2].rpartition(".")[2]: _score(subject, returned)}
    if not returned:
        raise NodeFailed(f"{subject}: expected numbers by name, found an empty mapping", _HINT)
    for name in returned:
        if not isinstance(name, str):
            raise NodeFailed(f"{subject}: expected texts as names, found {name!r}", _HINT)
    return {name: _score(f"{subject}, {name!r}", returned[name]) for name in sorted(returned)}


_HINT = "return a float, an array of one score per sample, or a mapping of names to these"


def _score(subject: str, found: Any) -> Score:
    import numpy as np

    try:
        array = np.asarray(found)
    except (TypeError, ValueError, RuntimeError) as error:  # ragged lists; tensors that need their gradient
        raise NodeFailed(f"{subject}: expected numbers, found {_short(found)} ({error})", _HINT) from error
    is_flag = array.ndim == 0 and array.dtype.kind == "b"
    if array.dtype.kind not in "fiub" or is_flag:
        raise NodeFailed(f"{subject}: expected a number, found {_short(found)}", _HINT)
    if array.ndim > 1:
        raise NodeFailed(f"{subject}: expected a number or a row of scores, found the shape {list(array.shape)}", _HINT)
    if not array.size:
        raise NodeFailed(f"{subject}: expected at least one score, found none", "the evaluation data may be empty")
    values = array.astype(np.float64)
    if not np.isfinite(values).all():
        _refuse_nonfinite(subject, values)
    if not values.ndim:
        return Score(float(values))
    return Score(math.fsum(values) / values.size, tuple(values.tolist()))


def _refuse_nonfinite(subject: str, values: Any) -> None:
    import numpy as np

    bad = np.flatnonzero(~np.isfinite(values))
    word = "NaN" if math.isnan(values.flat[bad[0]]) else "infinity"
    place = f" as score {int(bad[0])}, one of {bad.size} such among {values.size}" if values.ndim else ""
    raise NodeFailed(
        f"{subject}: expected a finite number, found {word}{place}",
        "a metric divides by zero when nothing matches: return 0 there, or leave the sample out",
    )


def _short(found: Any) -> str:
    text = repr(found)
    return f"the {type(found).__name__} {text if len(text) <= 60 else text[:57] + '...'}"
