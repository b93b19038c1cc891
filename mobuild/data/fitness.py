"""Is a set of samples fit for calibration? Judges its manifest: errors first, then warnings.

Only what a manifest shows without a model; how near the set is to the evaluation data is said by
`manifest.distance` where both are known.
"""

from __future__ import annotations

from typing import Any, Mapping

from mobuild.errors import NodeFailed

FEW = 100
_OUTLIER = 100.0  # times the 99 % quantile; heavy-tailed but real inputs stay below
_NOISE = 0.05  # of correlation; the shuffled figure itself varies by less


def check_fitness(manifest: Mapping[str, Any]) -> None:
    """Refuse sets that cannot show which values occur.

    Raises:
        NodeFailed: no sample or one, or over half of them constant or duplicates.
    """
    count, duplicates, flat = manifest["count"], manifest["duplicates"], manifest["flat"]
    if count < 2:
        raise NodeFailed(
            f"calibration data: expected at least 2 samples, {FEW} or more for good ranges, found {count}",
            "look at the path, the transform and the limit of `data`",
        )
    if 2 * duplicates > count:
        raise NodeFailed(
            f"calibration data: {duplicates} of {count} samples equal an earlier one",
            "give different samples; a transform that ignores its argument returns the same for each",
        )
    if 2 * flat > count:
        raise NodeFailed(
            f"calibration data: {flat} of {count} samples are constant, one value all over",
            "look at what the transform returns; blank samples show no range",
        )


def warnings(manifest: Mapping[str, Any]) -> list[str]:
    """Whole sentences about a set that serves, but may not serve well."""
    found = []
    if manifest["count"] < FEW:
        found.append(f"calibration data: {manifest['count']} samples; fewer than {FEW} give ranges of little worth")
    for name, each in manifest["inputs"].items():
        found += [*_outlier(name, each), *_noise(name, each)]
    return found


def _outlier(name: str, found: Mapping[str, Any]) -> list[str]:
    usual, largest = found["magnitude_99"], found["largest"]
    if not usual or not found["dtype"].startswith("float") or largest["value"] <= _OUTLIER * usual:
        return []
    return [
        f"input {name!r}: an outlier of {largest['value']:.4g} in sample {largest['sample']}, while 99 % of the "
        f"values lie within ±{usual:.4g}; a range that reaches so far leaves no steps for the others"
    ]


def _noise(name: str, found: Mapping[str, Any]) -> list[str]:
    real, shuffled = found["neighbours"], found["shuffled"]
    if real is None or real > shuffled + _NOISE:
        return []
    return [
        f"input {name!r}: the data looks like noise: neighbouring values correlate by {real:.2f}, shuffled by "
        f"{shuffled:.2f}; calibrate with samples of what the model will see"
    ]
