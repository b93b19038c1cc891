"""Is it noise? Real signals and images have neighbours that resemble each other; random numbers do not.

No accuracy tells that calibration data was random, so it has a test of its own: the correlation of
neighbouring values against that of the same values shuffled. Any axis may be the one with neighbours
(channels come first or last), so the most correlated one counts.
"""

from __future__ import annotations

from typing import Any

SHORTEST = 32  # shorter axes are features or channels, which need not resemble each other
_MOST_SAMPLES = 256  # more would not change the mean


class Neighbours:
    """Mean correlation of neighbours over samples, along every axis of at least `SHORTEST` values."""

    def __init__(self) -> None:
        self._real: dict[int, list[float]] = {}
        self._shuffled: dict[int, list[float]] = {}

    def add(self, index: int, array: Any) -> None:
        """Measure a sample of floats; the shuffle is drawn from its number."""
        import numpy as np

        axes = [axis for axis, size in enumerate(array.shape) if size >= SHORTEST]
        if index >= _MOST_SAMPLES or not axes:
            return
        values = np.asarray(array, dtype=np.float64)
        mixed = np.random.default_rng(index).permutation(values.reshape(-1)).reshape(values.shape)
        for axis in axes:
            self._real.setdefault(axis, []).append(_correlation(values, axis))
            self._shuffled.setdefault(axis, []).append(_correlation(mixed, axis))

    def correlations(self) -> tuple[float, float] | None:
        """(as it is, shuffled), means of absolute values along the most correlated axis; None: nothing
        that could have neighbours."""
        if not self._real:
            return None
        means = {axis: sum(found) / len(found) for axis, found in self._real.items()}
        best = max(means, key=lambda axis: means[axis])
        shuffled = self._shuffled[best]
        return round(means[best], 4), round(sum(shuffled) / len(shuffled), 4)


def _correlation(values: Any, axis: int) -> float:
    """|Pearson correlation| of each value with the next along `axis`; 1 for constant values."""
    import numpy as np

    line = np.moveaxis(values, axis, -1)
    left, right = line[..., :-1].reshape(-1), line[..., 1:].reshape(-1)
    left, right = left - left.mean(), right - right.mean()
    scale = float(np.sqrt((left * left).sum() * (right * right).sum()))
    return abs(float((left * right).sum())) / scale if scale > 0 else 1.0
