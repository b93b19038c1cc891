"""Runs the form to prove over the evaluation data, beside the reference, and keeps its outputs.

For an engine the quantised graph runs along on the first samples, so that what was lost can be laid at the
door of the stage that lost it: sanitized → quantized, or quantized → engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mobuild import onnxmodel
from mobuild.data import Batch, Data, Sample, batches, fed, samples
from mobuild.errors import NodeFailed
from mobuild.evaluation.outputs import Spool
from mobuild.evaluation.reference import Reference
from mobuild.evaluation.runs import Form
from mobuild.metrics import Comparison, refuse_nonfinite

STAGE_SAMPLES = 64
_SANITIZED = "sanitized"
_NOTHING = 1e-6  # 1 - cosine: below, float32 arithmetic in another order


@dataclass
class Pair:
    """One form of the model against an earlier one, all outputs."""

    of: str
    against: str
    outputs: dict[str, Comparison] = field(default_factory=dict)
    other_shapes: dict[str, int] = field(default_factory=dict)

    def add(self, sample: Sample, got: Mapping[str, Any], want: Mapping[str, Any], is_ragged: bool = True) -> None:
        for name, expected in want.items():
            if got[name].shape == expected.shape:
                self.outputs.setdefault(name, Comparison()).add(sample.index, got[name], expected)
            elif is_ragged and got[name].ndim == expected.ndim:
                self.other_shapes[name] = self.other_shapes.get(name, 0) + 1
            else:
                raise NodeFailed(
                    f"stage {self.of!r}, output {name!r}, sample {sample.index}: expected shape "
                    f"{list(expected.shape)}, found {list(got[name].shape)}"
                )

    def document(self) -> dict[str, dict[str, Any]]:
        found = {name: each.figures() for name, each in self.outputs.items()}
        for name, count in self.other_shapes.items():
            found.setdefault(name, {})["other_shapes"] = count
        return found

    def loss(self) -> float:
        """1 - the mean cosine of the output that suffers most."""
        return max((1 - float(each.figures()["cosine_mean"]) for each in self.outputs.values()), default=0.0)


@dataclass
class Measured:
    """What came of the run: figures against the reference and by stage; outputs and labels for metrics."""

    total: Pair
    stages: Sequence[Pair]
    spool: Spool | None  # None: no metric will ask for the outputs
    word: str  # engine | graph
    labels: list[Any] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        worst = max(self.stages, key=Pair.loss)
        return {
            "samples": len(self.labels),
            "tensors": self.total.document(),
            "stages": {
                each.of: {"from": each.against, "loss": each.loss(), "outputs": each.document()} for each in self.stages
            },
            "worst_stage": worst.of if worst.loss() > _NOTHING else "",
        }

    def warnings(self) -> list[str]:
        return [
            f"output {name!r}: {count} of {len(self.labels)} samples have another shape than in the reference, and "
            "only the metric can compare those"
            for name, count in self.total.other_shapes.items()
        ]


def measure(
    data: Data, inputs: Mapping[str, Path], reference: Reference, forms: Sequence[Form], spool: Spool | None
) -> Measured:
    """Run `forms[0]` on all of `data`, and `forms[1]`, the form before it, on the first samples.

    Raises:
        NodeFailed: a form gives NaN, or an output of another shape, or the data is not the reference's.
    """
    proved, earlier = forms[0], forms[1:]
    total = Pair(proved.name, _SANITIZED)
    stages = [Pair(form.name, _SANITIZED) for form in earlier] + [Pair(proved.name, forms[-1].name)] * bool(earlier)
    found = Measured(total, stages or [total], spool, proved.word)
    summary = onnxmodel.summary(inputs["model"])
    ragged = {name for name, values in reference.outputs.items() if isinstance(values, list)}
    stream = _labelled(samples(data, inputs), found.labels)
    for batch in batches(stream, summary, reference.layout.size(proved.size)):
        is_staged = earlier and batch.samples[0].index < STAGE_SAMPLES
        before = _rows(earlier[0], reference, batch, summary["ranges"]) if is_staged else {}
        for sample, outputs in reference.layout.split(batch, _run(proved, batch, summary["ranges"])):
            want = reference.row(sample)
            _check(proved, sample, outputs, want)
            total.add(sample, outputs, want, bool(ragged))
            if sample.index in before:
                stages[0].add(sample, before[sample.index], want)
                stages[1].add(sample, outputs, before[sample.index])
            if spool:
                spool.add(outputs)
    if len(found.labels) != len(reference.digests):
        raise NodeFailed(
            f"data: expected {len(reference.digests)} samples as in the reference, found {len(found.labels)}"
        )
    return found


def _labelled(stream: Iterable[Sample], labels: list[Any]) -> Iterator[Sample]:
    for sample in stream:
        labels.append(sample.label)
        yield sample


def _run(form: Form, batch: Batch, ranges: Mapping[str, Any]) -> Mapping[str, Any]:
    with fed(batch, ranges):
        return form.run(batch.feeds)


def _rows(form: Form, reference: Reference, batch: Batch, ranges: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """The outputs of `form` by sample."""
    found = {}
    for sample, outputs in reference.layout.split(batch, _run(form, batch, ranges)):
        _check(form, sample, outputs, reference.row(sample))
        found[sample.index] = outputs
    return found


def _check(form: Form, sample: Sample, outputs: Mapping[str, Any], want: Mapping[str, Any]) -> None:
    for name, array in outputs.items():
        refuse_nonfinite(f"stage {form.name!r}", name, sample.index, array, want[name])
