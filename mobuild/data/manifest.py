"""What a set of samples is, in numbers: counts, ranges, lengths, digests, duplicates.

The manifest of the calibration data and that of the evaluation data are compared: they have to be of one
kind (`distance`) and must not share samples (`overlap`). Whether a set is fit for calibration is left to
`fitness`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Mapping

from mobuild.data.neighbours import Neighbours
from mobuild.data.samples import Sample, sample_digest
from mobuild.data.spread import Spread

_NUMBERS = "biufc"  # kinds of NumPy's types
_FAR = 2.0  # times larger or smaller: far from the evaluation data
_QUANTILES = ("0.01", "1", "50", "99", "99.99")


class Manifest:
    """Collects samples one by one; `document` is what became of them."""

    def __init__(self) -> None:
        self._digests: list[str] = []
        self._flat = 0
        self._inputs: dict[str, _Input] = {}

    def add(self, sample: Sample) -> None:
        """Count one sample with finite values."""
        self._digests.append(sample_digest(sample))
        self._flat += _is_flat(sample)
        for name, array in sample.feeds.items():
            self._inputs.setdefault(name, _Input(str(array.dtype.name))).add(sample.index, array)

    def document(self) -> dict[str, Any]:
        """The manifest as JSON data, equal for equal samples.

        `duplicates` counts samples that equal an earlier one, `flat` those whose inputs hold one value
        each. By input: `range` [low, high]; `quantiles` (percent → value); `magnitude_99`, below which
        99 % of the absolute values that are not zero lie; `lengths` (axis → size → count);
        `neighbours` and `shuffled`, the correlations of `neighbours.Neighbours`, or null.
        """
        return {
            "schema": 1,
            "count": len(self._digests),
            "duplicates": len(self._digests) - len(set(self._digests)),
            "flat": self._flat,
            "digests": sorted(self._digests),
            "inputs": {name: self._inputs[name].document() for name in sorted(self._inputs)},
        }


def lengths(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Input → axis of a sample → size → count, which tells what sizes an engine must take."""
    return {name: each["lengths"] for name, each in manifest["inputs"].items()}


def overlap(calibration: Mapping[str, Any], evaluation: Mapping[str, Any]) -> int:
    """How many samples of the evaluation data are calibration samples as well."""
    known = set(calibration["digests"])
    return sum(digest in known for digest in evaluation["digests"])


def distance(calibration: Mapping[str, Any], evaluation: Mapping[str, Any]) -> list[str]:
    """Sentences about how the calibration data differs from the evaluation data; empty when it is near."""
    found: list[str] = []
    for name, here in calibration["inputs"].items():
        there = evaluation["inputs"].get(name)
        if there:
            found += [*_other_values(name, here, there), *_other_lengths(name, here, there)]
    return found


class _Input:
    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.spread = Spread()
        self.neighbours = Neighbours()
        self.lengths: dict[int, Counter[int]] = {}
        self.largest, self.largest_in = -1.0, 0

    def add(self, index: int, array: Any) -> None:
        for axis, size in enumerate(array.shape):
            self.lengths.setdefault(axis, Counter())[size] += 1
        if array.dtype.kind not in _NUMBERS:  # text, which has no range
            return
        self.spread.add(array)
        if array.dtype.kind == "f":
            self.neighbours.add(index, array)
        largest = max(abs(float(array.min())), abs(float(array.max()))) if array.size else 0.0
        if largest > self.largest:
            self.largest, self.largest_in = largest, index

    def document(self) -> dict[str, Any]:
        neighbours, shuffled = self.neighbours.correlations() or (None, None)
        return {
            "dtype": self.dtype,
            "range": [self.spread.low, self.spread.high],
            "quantiles": {each: self.spread.quantile(float(each) / 100) for each in _QUANTILES},
            "magnitude_99": self.spread.magnitude(0.99),
            "largest": {"value": self.largest, "sample": self.largest_in},
            "lengths": {str(axis): _counts(sizes) for axis, sizes in sorted(self.lengths.items())},
            "neighbours": neighbours,
            "shuffled": shuffled,
        }


def _counts(sizes: Mapping[int, int]) -> dict[str, int]:
    return {str(size): sizes[size] for size in sorted(sizes)}


def _is_flat(sample: Sample) -> bool:
    """Whether every input with more than one value holds one value only (and there is such an input)."""
    arrays = [array for array in sample.feeds.values() if array.size > 1]
    return bool(arrays) and all(bool((array == array.flat[0]).all()) for array in arrays)


def _other_values(name: str, here: Mapping[str, Any], there: Mapping[str, Any]) -> list[str]:
    small, large = here["magnitude_99"], there["magnitude_99"]
    if not small or not large or 1 / _FAR <= large / small <= _FAR:
        return []
    return [
        f"input {name!r}: 99 % of the calibration values lie within ±{small:.4g}, of the evaluation values "
        f"within ±{large:.4g}"
    ]


def _other_lengths(name: str, here: Mapping[str, Any], there: Mapping[str, Any]) -> list[str]:
    found = []
    for axis, sizes in here["lengths"].items():
        ours, theirs = _median(sizes), _median(there["lengths"].get(axis, sizes))
        if ours and not 1 / _FAR <= theirs / ours <= _FAR:
            found.append(
                f"input {name!r}, axis {axis}: the median length of the calibration samples is {ours}, of the "
                f"evaluation samples {theirs}"
            )
    return found


def _median(sizes: Mapping[str, int]) -> int:
    lengths = sorted(size for text, count in sizes.items() for size in [int(text)] * count)
    return lengths[len(lengths) // 2] if lengths else 0
