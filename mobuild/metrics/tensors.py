"""How far the outputs of one form of a model are from another's, sample by sample.

Unlike `mobuild.parity`, which judges two forms that must agree, this only measures: a quantised model
differs, and the question is by how much. Nothing but sums is kept, so any number of samples fits.
"""

from __future__ import annotations

import math
from typing import Any

from mobuild.errors import NodeFailed

FLOOR = 1e-3  # of |want| in relative differences: values near zero would dominate
_TOP = 5


class Comparison:
    """Figures of one output over all samples, against the reference."""

    def __init__(self) -> None:
        self._samples = self._elements = 0
        self._cosine_sum, self._cosine_min, self._worst_sample = 0.0, math.inf, -1
        self._dot = self._got_power = self._want_power = 0.0
        self._noise = self._absolute_sum = self._max_abs = self._max_rel = 0.0
        self._is_scalar = True
        self._rows = self._ranked_rows = self._top1 = self._top5 = 0

    def add(self, index: int, got: Any, want: Any) -> None:
        """Take in the output of one sample; both arrays have one shape and are finite in the same places."""
        import numpy as np

        left, right = _finite_pairs(got, want)
        self._samples += 1
        self._elements += right.size
        self._is_scalar = self._is_scalar and np.size(want) == 1
        self._add_direction(index, left, right)
        difference = np.abs(left - right)
        self._noise += float((difference**2).sum())
        self._absolute_sum += float(difference.sum())
        self._max_abs = max(self._max_abs, float(difference.max(initial=0.0)))
        relative = difference / np.maximum(np.abs(right), FLOOR)
        self._max_rel = max(self._max_rel, float(relative.max(initial=0.0)))
        if np.ndim(want) and np.shape(want)[-1] > 1:
            self._add_ranks(np.asarray(got), np.asarray(want))

    def figures(self) -> dict[str, Any]:
        """All figures by name. A single number per sample has no direction of its own: its cosine is that
        of the column over all samples. `snr_db` is None when nothing
        differs, and when the reference is all zeros."""
        figures = {
            "samples": self._samples,
            "cosine_mean": self._cosine_sum / max(self._samples, 1),
            "cosine_min": self._cosine_min,
            "worst_sample": self._worst_sample,
            "max_abs": self._max_abs,
            "mean_abs": self._absolute_sum / max(self._elements, 1),
            "max_rel": self._max_rel,
            "snr_db": self._snr_db(),
        }
        if self._is_scalar:
            column = _cosine(self._dot, self._got_power, self._want_power)
            figures.update(cosine_mean=column, cosine_min=column)
        if self._rows:
            figures["top1_agreement"] = self._top1 / self._rows
        if self._ranked_rows:
            figures["top5_agreement"] = self._top5 / self._ranked_rows
        return figures

    def _add_direction(self, index: int, left: Any, right: Any) -> None:
        dot, got_power, want_power = float(left @ right), float(left @ left), float(right @ right)
        cosine = _cosine(dot, got_power, want_power)
        self._cosine_sum += cosine
        if cosine < self._cosine_min:
            self._cosine_min, self._worst_sample = cosine, index
        self._dot, self._got_power = self._dot + dot, self._got_power + got_power
        self._want_power += want_power

    def _add_ranks(self, got: Any, want: Any) -> None:
        """Is the reference's first class also first here, and among the first five here? Of equal values the one that
        stands first counts as the greater."""
        import numpy as np

        classes = want.shape[-1]
        left, first = got.reshape(-1, classes), want.reshape(-1, classes).argmax(-1)[:, None]
        chosen = np.take_along_axis(left, first, -1)
        before = (left > chosen) | ((left == chosen) & (np.arange(classes) < first))
        rank = before.sum(-1)
        self._rows += len(first)
        self._top1 += int((rank == 0).sum())
        if classes > _TOP:
            self._ranked_rows += len(first)
            self._top5 += int((rank < _TOP).sum())

    def _snr_db(self) -> float | None:
        if not self._noise or not self._want_power:
            return None
        return 10 * math.log10(self._want_power / self._noise)


def holds_infinity(array: Any) -> bool:
    """Whether any of its values is infinite."""
    import numpy as np

    return array.dtype.kind in "fcV" and bool(np.isinf(array.astype(np.float64)).any())


def refuse_nonfinite(where: str, output: str, index: int, got: Any, want: Any = None) -> None:
    """Refuse a NaN in `got`, and an infinity that `want` has not at the same place.

    `where` names the form of the model: `stage 'engine'`.

    Raises:
        NodeFailed: names stage, output, sample and the first such place.
    """
    import numpy as np

    if got.dtype.kind not in "fcV":  # V: bfloat16 and its kin
        return
    values = got.astype(np.float64)
    bad = ~np.isfinite(values)
    if want is not None and want.shape == got.shape:
        bad &= values != want.astype(np.float64)
    if not bad.any():
        return
    place = [int(i) for i in np.argwhere(bad)[0]]
    found = float(values[bad][0])
    raise NodeFailed(
        f"{where}, output {output!r}, sample {index}: expected finite numbers, found "
        f"{'NaN' if math.isnan(found) else 'infinity'} at {place} ({int(bad.sum())} of {bad.size} values)",
        "in half precision this is most often a constant or an intermediate value beyond 65504; "
        "in the reference, look at this sample and at the export",
    )


def _finite_pairs(got: Any, want: Any) -> tuple[Any, Any]:
    import numpy as np

    left, right = (np.ravel(each).astype(np.float64) for each in (got, want))
    finite = np.isfinite(right)
    return (left, right) if finite.all() else (left[finite], right[finite])


def _cosine(dot: float, got_power: float, want_power: float) -> float:
    """1 for two zero vectors, 0 when only one of them is zero."""
    if not got_power or not want_power:
        return float(got_power == want_power)
    return min(1.0, max(-1.0, dot / math.sqrt(got_power) / math.sqrt(want_power)))
