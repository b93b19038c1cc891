"""From histograms to ranges, by ONNX Runtime's own percentile and entropy methods.

Its `HistogramCollector` is given finished histograms instead of tensors; how these came about is
`histogram`'s. What the methods decide is ONNX Runtime's alone.
"""

from __future__ import annotations

from typing import Any, Mapping

from mobuild.errors import NodeFailed
from mobuild.nodes.calibrate.histogram import TensorValues


def ranges(tensors: Mapping[str, TensorValues], bins: int, options: Mapping[str, Any]) -> dict[str, list[float]]:
    """Tensor → [low, high], sorted by name; tensors that are zero throughout, or empty, have [0, 0].

    Raises:
        NodeFailed: the collector does not take the options.
    """
    from onnxruntime.quantization.calibrate import HistogramCollector

    try:
        collector = HistogramCollector(**options)
    except TypeError as error:
        raise NodeFailed(f"raw: ONNX Runtime's HistogramCollector does not take it: {error}") from error
    alive = {name: each for name, each in sorted(tensors.items()) if any(each.range)}
    of_magnitudes = collector.method == "percentile" and collector.symmetric
    for name, each in alive.items():
        counts = each.magnitudes(bins) if of_magnitudes else each.histogram(bins)
        collector.histogram_dict[name] = _collected(each, *counts)
    found = collector.compute_collection_result() if alive else {}
    return {
        name: [float(limit) for limit in found[name][:2]] if name in alive else [0.0, 0.0] for name in sorted(tensors)
    }


def _collected(values: TensorValues, counts: Any, edges: Any) -> Any:
    """What the collector keeps of a tensor: counts, edges, least, greatest, half the width."""
    import numpy as np

    low, high = np.float32(values.low), np.float32(values.high)
    return counts, edges, low, high, max(-low, high)
