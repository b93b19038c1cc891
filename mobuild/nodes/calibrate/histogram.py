"""A histogram of one tensor's values that grows with them, and does not depend on their order.

ONNX Runtime's collectors hold all outputs at once, need equal shapes, and keep the bin width of the first
batch: a later outlier makes millions of bins. Here the range is a power of two; when a value exceeds it, the
range doubles and bins are added in pairs, so counts stay exact and memory fixed.
"""

from __future__ import annotations

import math
from typing import Any

_FINE = 16  # fine bins for each that is asked for, so that the last step loses little


class TensorValues:
    """Range, and with `bins` the histogram, of all arrays that were added."""

    def __init__(self, bins: int) -> None:
        self.low, self.high = math.inf, -math.inf
        self._size = bins * _FINE
        self._limit = 0.0  # the histogram covers [-limit, limit]
        self._counts: Any = None

    @property
    def range(self) -> list[float]:
        """[least, greatest]; zeros where no value came, as of a tensor that was empty each time."""
        return [self.low, self.high] if self.low <= self.high else [0.0, 0.0]

    def add(self, array: Any) -> bool:
        """Take in an array of floats; False when a value is NaN or infinite."""
        import numpy as np

        if not array.size:
            return True
        values = np.asarray(array, dtype=np.float32).reshape(-1)
        low, high = float(values.min()), float(values.max())
        if not (math.isfinite(low) and math.isfinite(high)):
            return False
        self.low, self.high = min(self.low, low), max(self.high, high)
        if self._size:
            self._count(values, max(-low, high))
        return True

    def histogram(self, bins: int) -> tuple[Any, Any]:
        """(counts, edges) of `bins` equal bins over the symmetric range that holds all values."""
        largest = max(-self.low, self.high)
        return _coarser(self._counts, -self._limit, self._limit, -largest, largest, bins)

    def magnitudes(self, bins: int) -> tuple[Any, Any]:
        """The same of the absolute values, from 0 to the largest."""
        half = self._size // 2
        counts = self._counts[half:] + self._counts[:half][::-1]
        return _coarser(counts, 0.0, self._limit, 0.0, max(-self.low, self.high), bins)

    def _count(self, values: Any, largest: float) -> None:
        import numpy as np

        if self._counts is None:
            self._counts = np.zeros(self._size, dtype=np.int64)
        if largest > self._limit:
            self._widen(_power_of_two(largest))
        # Halving the scale is exact, so a value falls into the same bin however often bins were merged.
        scale = self._size / (2 * self._limit) if self._limit else 0.0
        places = np.floor(values.astype(np.float64) * scale).astype(np.int64) + self._size // 2
        np.minimum(places, self._size - 1, out=places)  # the limit itself belongs to the last bin
        self._counts += np.bincount(places, minlength=self._size)

    def _widen(self, limit: float) -> None:
        while self._limit and self._limit < limit:
            inner = self._counts.reshape(-1, 2).sum(axis=1)
            self._counts[:] = 0
            start = self._size // 4
            self._counts[start : start + inner.size] = inner
            self._limit *= 2
        self._limit = limit


def _coarser(counts: Any, start: float, stop: float, low: float, high: float, bins: int) -> tuple[Any, Any]:
    """Counts of fine bins from `start` to `stop`, as `bins` bins from `low` to `high` and their edges."""
    import numpy as np

    fine = np.linspace(start, stop, counts.size + 1)
    middles = np.clip((fine[:-1] + fine[1:]) / 2, low, high)
    found, edges = np.histogram(middles, bins=bins, range=(low, high), weights=counts)
    return found.astype(np.int64), edges.astype(np.float32)


def _power_of_two(value: float) -> float:
    """The least power of two that is not below `value`."""
    fraction, exponent = math.frexp(value)
    return math.ldexp(1.0, exponent - 1 if fraction == 0.5 else exponent)
