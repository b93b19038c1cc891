"""Kind `calibrate`: which values the tensors that INT8 quantises take, measured on samples.

The ranges are stored apart from the quantised model, so that excluding a node or another precision needs
no new calibration. Beside them lies the manifest of the samples, which validation compares with its own.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Iterator, Mapping, Sequence

from mobuild import libraries, onnxmodel
from mobuild.data import Data, Sample, batches, fitness, samples
from mobuild.data.manifest import Manifest, lengths
from mobuild.errors import ConfigError, NodeFailed, did_you_mean
from mobuild.node import Built
from mobuild.nodes.calibrate import thresholds
from mobuild.nodes.calibrate.watching import Watched
from mobuild.onnxmodel.qdq import QUANTIZE, is_quantized

RANGES, MANIFEST = "ranges.json", "manifest.json"
_METHODS = ("percentile", "minmax", "entropy")
_QUANTIZED_BINS = 128
_BATCH_ELEMENTS = 1 << 16  # of inputs: activations are many times as large
_LARGEST_BATCH = 16


@dataclass(frozen=True)
class Calibrate:
    """Ranges of the inputs and outputs of `operators` in the model `inputs["model"]`, over `data`.

    `percentile` is the share of absolute values that lie within, in %; `bins` is the resolution of the histograms of
    percentile and entropy. `raw` goes to ONNX Runtime's `HistogramCollector` unchecked.
    """

    kind: ClassVar[str] = "calibrate"
    revision: ClassVar[int] = 2
    isolated: ClassVar[bool] = True

    data: Data = field(default_factory=Data)
    method: str = "percentile"
    percentile: float = 99.99
    bins: int = 2048
    operators: Sequence[str] = ("Conv", "MatMul", "Gemm")
    raw: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.method not in _METHODS:
            raise ConfigError(
                f"method: expected one of {', '.join(_METHODS)}, found {self.method!r}."
                f"{did_you_mean(str(self.method), _METHODS)}"
            )
        if not 50 < self.percentile <= 100:
            raise ConfigError(f"percentile: expected more than 50, at most 100, found {self.percentile:g}")
        if self.bins < 2 or self.bins % 2:
            raise ConfigError(f"bins: expected an even number of at least 2, found {self.bins}")
        if self.method == "entropy" and self.bins <= _QUANTIZED_BINS:
            raise ConfigError(
                f"bins: with method entropy expected more than {_QUANTIZED_BINS}, found {self.bins}, which gives the "
                "same ranges as minmax",
                "leave bins at 2048, or write method: minmax",
            )
        if isinstance(self.operators, str) or not self.operators:
            raise ConfigError(f"operators: expected a list such as [Conv, MatMul, Gemm], found {self.operators!r}")

    @property
    def suffix(self) -> str:
        return ""

    @property
    def tools(self) -> tuple[str, ...]:
        return ("onnx", "onnxruntime", "numpy")

    @property
    def sources(self) -> dict[str, str]:
        return {"data": self.data.path} if self.data.path else {}

    def check(self, summaries: Mapping[str, Mapping[str, Any]]) -> None:
        """Refuse a model to be calibrated without data: scales would be invented."""
        if "model" in summaries and not is_quantized(summaries["model"]) and not self.data.is_given:
            raise ConfigError(
                "calibration needs data: the model has no Q nodes of its own, and ranges are never made up",
                "give it some: nodes.calibration.data: {npz: calibration.npz}, or images, arrays, jsonl, iterator",
            )

    def build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        summary = onnxmodel.summary(inputs["model"])
        self.check({"model": summary})
        if is_quantized(summary):
            self._write(out, {}, Manifest().document())
            return Built({"calibration": f"{_quantized(summary)} found: nothing to calibrate", "tensors": 0})
        with tempfile.TemporaryDirectory(prefix=".calibrate-", dir=out.parent) as scratch:
            kept = (self.operators, self._with_outputs, self._bins, libraries.given(inputs).values())
            watched = Watched(inputs["model"], Path(scratch), *kept)
            manifest = self._collect(watched, summary, inputs)
        fitness.check_fitness(manifest)
        ranges = self._ranges(watched)
        self._write(out, ranges, manifest)
        warnings = [*fitness.warnings(manifest), *_dead(ranges, watched)]
        return Built(_measurements(manifest, ranges), warnings=warnings)

    @property
    def _bins(self) -> int:
        return 0 if self.method == "minmax" else self.bins

    @property
    def _with_outputs(self) -> Sequence[str]:
        """Operators whose outputs count. Entropy is slow pure Python (a second a tensor), so it leaves
        out those that quantisation leaves alone anyway."""
        if self.method != "entropy":
            return tuple(self.operators)
        return tuple(each for each in self.operators if each not in ("MatMul", "Gemm"))

    def _collect(self, watched: Watched, summary: Mapping[str, Any], inputs: Mapping[str, Path]) -> dict[str, Any]:
        manifest = Manifest()
        stream = samples(self.data, inputs)
        first = list(itertools.islice(stream, 1))
        for batch in batches(itertools.chain(first, stream), summary, _batch_size(first)):
            for sample in batch.samples:
                manifest.add(sample)
            watched.run(batch)
        return manifest.document()

    def _ranges(self, watched: Watched) -> dict[str, list[float]]:
        if self.method == "minmax":
            return {name: each.range for name, each in sorted(watched.tensors.items())}
        options = {
            "method": self.method,
            "symmetric": self.method == "percentile",  # a share of the absolute values, as ONNX Runtime does
            "num_bins": self.bins,
            "num_quantized_bins": _QUANTIZED_BINS,
            "percentile": self.percentile,
            "scenario": "same",
            **self.raw,
        }
        return thresholds.ranges(watched.tensors, self.bins, options)

    def _write(self, out: Path, ranges: Mapping[str, Any], manifest: Mapping[str, Any]) -> None:
        out.mkdir()
        _write_json(out / RANGES, {"schema": 1, "method": self.method, "ranges": ranges})
        _write_json(out / MANIFEST, manifest)


def _quantized(summary: Mapping[str, Any]) -> str:
    count = summary["operators"].get(QUANTIZE, 0)
    return f"{count} Q nodes" if count else "weights or operators that are quantised already"


def _batch_size(first: Sequence[Sample]) -> int:
    elements = sum(int(array.size) for sample in first for array in sample.feeds.values())
    return max(1, min(_LARGEST_BATCH, _BATCH_ELEMENTS // max(elements, 1)))


def _measurements(manifest: Mapping[str, Any], ranges: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "samples": manifest["count"],
        "duplicates": manifest["duplicates"],
        "tensors": len(ranges),
        "input_ranges": {name: each["range"] for name, each in manifest["inputs"].items()},
        "input_lengths": lengths(manifest),
    }


def _dead(ranges: Mapping[str, Sequence[float]], watched: Watched) -> Iterator[str]:
    """Tensors that were zero, or empty, in every sample: a dead layer, or data that does not reach it."""
    dead = [name for name, (low, high) in ranges.items() if low == high == 0]
    empty = [name for name in dead if watched.tensors[name].low > watched.tensors[name].high]
    for word, names in (("zero", [name for name in dead if name not in empty]), ("empty", empty)):
        if names:
            shown = ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
            yield f"{word} in every calibration sample: {shown}; their ranges say nothing"


def _write_json(path: Path, document: Mapping[str, Any]) -> None:
    try:
        text = json.dumps(document, indent=1, sort_keys=True, allow_nan=False)
    except ValueError as error:
        raise NodeFailed(f"{path.name}: a range is not finite: {error}") from error
    path.write_text(text + "\n", encoding="utf-8")
