"""Reads the ranges that calibration stored: tensor → (lowest, highest)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mobuild.errors import NodeFailed, did_you_mean

FILE = "ranges.json"
_SCHEMA = 1


def read(path: Path) -> dict[str, tuple[float, float]]:
    """The ranges in the file `path`, or in the folder that calibration made.

    Raises:
        NodeFailed: it is no such file, or of a newer format, or a range is none.
    """
    file = path / FILE if path.is_dir() else path
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        schema, ranges = data["schema"], dict(data["ranges"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NodeFailed(f"'{file}': expected ranges of tensors, found none ({error})", _REMEDY) from error
    if schema != _SCHEMA:
        raise NodeFailed(f"'{file}': expected schema {_SCHEMA}, found {schema!r}", _REMEDY)
    return {name: _range(name, limits) for name, limits in ranges.items()}


def assert_known(wanted: Iterable[str], ranges: Mapping[str, Any]) -> None:
    """Raise NodeFailed, naming it, when a tensor that is to be quantised has no range."""
    missing = [name for name in wanted if name not in ranges]
    if missing:
        raise NodeFailed(
            f"tensor {missing[0]!r} has no calibrated range ({len(missing)} of them have none, "
            f"{len(ranges)} are known).{did_you_mean(missing[0], ranges)}",
            "calibrate the same graph that is quantised; both need 'sanitized'",
        )


def _range(name: str, limits: Any) -> tuple[float, float]:
    try:
        low, high = (float(each) for each in limits)
    except (TypeError, ValueError) as error:
        raise NodeFailed(f"range of tensor {name!r}: expected [low, high], found {limits!r}", _REMEDY) from error
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise NodeFailed(f"range of tensor {name!r}: expected finite [low, high], found [{low:g}, {high:g}]", _REMEDY)
    return low, high


_REMEDY = "build it anew with kind calibrate: mobuild target=calibration"
