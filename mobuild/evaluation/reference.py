"""The artifact of kind `reference`: what the fp32 model answers to the evaluation data, sample by sample.

`outputs.npz` holds the outputs, `samples.json` what was fed (digests, labels, the manifest of the data),
`scores.json` what the user's evaluation script measured. Variants of the model only compare with it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mobuild.data import Sample, sample_digest
from mobuild.errors import NodeFailed
from mobuild.evaluation.outputs import Spool, load
from mobuild.evaluation.runs import Layout
from mobuild.metrics import Score

OUTPUTS, SAMPLES, SCORES = "outputs.npz", "samples.json", "scores.json"


@dataclass(frozen=True)
class Reference:
    """An opened reference. Without evaluation data it has scores alone."""

    outputs: Mapping[str, Any]
    digests: Sequence[str]
    layout: Layout
    manifest: Mapping[str, Any]
    scores: Mapping[str, Score]

    @property
    def samples_digest(self) -> str:
        """Equal for equal samples in the same order; empty without samples."""
        joined = "\n".join(self.digests)
        return hashlib.sha256(joined.encode()).hexdigest() if joined else ""

    def row(self, sample: Sample) -> dict[str, Any]:
        """The reference's outputs for `sample`.

        Raises:
            NodeFailed: it is not the sample that the reference was made with.
        """
        if sample.index >= len(self.digests) or sample_digest(sample) != self.digests[sample.index]:
            raise NodeFailed(
                f"sample {sample.index}: expected the inputs that the reference was made with, found others",
                "if the data changed while this ran, run again; a transform or iterator that draws at random has "
                "to be seeded",
            )
        return {name: values[sample.index] for name, values in self.outputs.items()}


def write_outputs(
    out: Path, spool: Spool, layout: Layout, samples: Sequence[tuple[str, Any]], manifest: Mapping[str, Any]
) -> None:
    """Write the outputs and what was fed: (digest, label) of each sample, in order."""
    spool.save(out / OUTPUTS)
    labels = [label for _, label in samples]
    document = {
        "schema": 1,
        "count": len(samples),
        "digests": [digest for digest, _ in samples],
        "labels": labels if _is_plain(labels) else None,
        "batch_axes": dict(layout.axes),
        "manifest": manifest,
    }
    _write(out / SAMPLES, document)


def write_scores(out: Path, scores: Mapping[str, Score]) -> None:
    _write(out / SCORES, {name: {"value": score.value, "each": list(score.each)} for name, score in scores.items()})


def open_reference(folder: Path) -> Reference:
    fed = _read(folder / SAMPLES)
    scores = {name: Score(each["value"], tuple(each["each"])) for name, each in sorted(_read(folder / SCORES).items())}
    outputs = load(folder / OUTPUTS) if fed else {}
    ordered = {name: outputs[name] for name in fed.get("batch_axes", {})}
    return Reference(
        ordered, fed.get("digests", ()), Layout(fed.get("batch_axes", {})), fed.get("manifest", {}), scores
    )


def _is_plain(labels: Sequence[Any]) -> bool:
    return all(isinstance(label, (str, int, float)) for label in labels)


def _read(file: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return document


def _write(file: Path, document: Mapping[str, Any]) -> None:
    text = json.dumps(document, indent=1, ensure_ascii=False)
    file.write_text(text + "\n", encoding="utf-8")
