"""The distribution of many values in little memory, whatever their scale, in any order.

Values are counted by the upper 16 bits of their float32 form (IEEE 754: sign, exponent and seven bits of
the fraction), whose order is the order of the values: a histogram with steps of 0.8 % and exact counts.
"""

from __future__ import annotations

from typing import Any

_HALF = 1 << 15


class Spread:
    """Counts of finite values; `low` and `high` are exact."""

    def __init__(self) -> None:
        self.low, self.high = 0.0, 0.0
        self.counts: Any = None

    def add(self, array: Any) -> None:
        """Count the values of an array of numbers or booleans."""
        import numpy as np

        if not array.size:
            return
        low, high = float(array.min()), float(array.max())
        is_first = self.counts is None
        self.low, self.high = (low, high) if is_first else (min(low, self.low), max(high, self.high))
        bits = np.ascontiguousarray(array, dtype=np.float32).reshape(-1).view(np.int32)
        key = (bits & 0x7FFFFFFF) >> 16
        found = np.bincount(np.where(bits < 0, _HALF - 1 - key, _HALF + key), minlength=2 * _HALF)
        self.counts = found if is_first else self.counts + found

    def quantile(self, share: float) -> float:
        """A value that `share` of the values do not exceed, to 0.8 %, within the range."""
        if self.counts is None:
            return 0.0
        index = _first(self.counts, share)
        value = _middle(index - _HALF) if index >= _HALF else -_middle(_HALF - 1 - index)
        return min(max(value, self.low), self.high)

    def magnitude(self, share: float) -> float:
        """A number that the absolute values of `share` of the values other than 0 do not exceed; 0: none."""
        if self.counts is None:
            return 0.0
        counts = self.counts[_HALF:] + self.counts[:_HALF][::-1]
        counts[0] = 0  # zeros, and what rounds to them
        return min(_middle(_first(counts, share)), max(abs(self.low), abs(self.high))) if counts.any() else 0.0


def _first(counts: Any, share: float) -> int:
    import numpy as np

    total = np.cumsum(counts)
    return int(np.searchsorted(total, max(share * float(total[-1]), 1)))


def _middle(key: int) -> float:
    """The middle of the values that share the upper bits `key`; zero is itself."""
    import numpy as np

    return float(np.array([(key << 16) | 0x8000 if key else 0], np.int32).view(np.float32)[0])
