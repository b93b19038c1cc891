"""Kind `reference`: what the fp32 model answers to the evaluation data, once for all variants.

Every precision, backend and card is compared with these outputs; none of them runs the fp32 model again.
Task metrics are cheap and belong to `validate`; the user's own evaluation script is run here, on the fp32
graph, because it is not.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from mobuild import libraries, onnxmodel, programs
from mobuild.data import Data, Sample, batches, fed, sample_digest, samples
from mobuild.data.manifest import Manifest, lengths
from mobuild.errors import ConfigError, NodeFailed
from mobuild.evaluation import scripts
from mobuild.evaluation.outputs import Spool
from mobuild.evaluation.reference import write_outputs, write_scores
from mobuild.evaluation.runs import SIZE, Layout
from mobuild.metrics import holds_infinity, refuse_nonfinite
from mobuild.node import Built

_FEW = 100  # samples; below, one sample more or less is a percentage point


@dataclass(frozen=True)
class Reference:
    """Run `inputs["model"]` on `data`, and `cmd` on the same model; both are those of the validation."""

    data: Data = field(default_factory=Data)
    cmd: str = ""

    kind: ClassVar[str] = "reference"
    revision: ClassVar[int] = 2
    isolated: ClassVar[bool] = True
    suffix: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if not (self.data.is_given or self.cmd):
            raise ConfigError(
                "no evaluation data: expected `data` or `cmd` of the validation, found neither",
                'write in the recipe validation: {data: {npz: evaluation.npz}, metric: "file.py:function"}',
            )
        programs.split(self.cmd)
        programs.refuse_operators(self.cmd)

    @property
    def tools(self) -> tuple[str, ...]:
        return ("onnxruntime", "onnx", "numpy")

    @property
    def sources(self) -> Mapping[str, str]:
        return {"data": self.data.path} if self.data.path else {}

    def files(self, project: Path) -> tuple[Path, ...]:
        """Files of the project that `cmd` names."""
        return programs.named_files(self.cmd, project)

    def check_roles(self, roles: Collection[str]) -> None:
        """Refuse a placeholder in `cmd` that is no need of the node; its model stands for the engine."""
        programs.check_roles(self.cmd, {*roles, "engine"})

    def build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        out.mkdir()
        measurements: dict[str, Any] = {}
        warnings: list[str] = []
        with tempfile.TemporaryDirectory(prefix=".reference-", dir=out.parent) as folder:
            scratch = Path(folder)
            model = onnxmodel.plain_files(inputs["model"], scratch)
            if self.data.is_given:
                measured, infinite = self._run(model, inputs, scratch, out)
                measurements.update(measured)
                warnings += [*_few(measured["samples"]), *_infinite(infinite, measured["samples"])]
            if self.cmd:
                given = {**inputs, "model": model, "engine": model}
                scores = scripts.evaluate(self.cmd, given, scratch / "out", "the reference")
                write_scores(out, scores)
                measurements["scores"] = {name: score.value for name, score in scores.items()}
        return Built(measurements, warnings=warnings)

    def _run(
        self, model: Path, inputs: Mapping[str, Path], scratch: Path, out: Path
    ) -> tuple[dict[str, Any], Mapping[str, int]]:
        """Write the outputs of all samples; how many there are, and of which sizes; output → samples with infinity."""
        summary = onnxmodel.summary(model)
        operators = libraries.given(inputs).values()
        layout, session = Layout.of(summary), onnxmodel.open_session(model, optimized=True, libraries=operators)
        spool, manifest = Spool(scratch), Manifest()
        infinite: Counter[str] = Counter()
        seen: list[tuple[str, Any]] = []
        watched = _noted(samples(self.data, inputs), manifest, seen)
        for batch in batches(watched, summary, layout.size(SIZE)):
            with fed(batch, summary["ranges"]):
                found = onnxmodel.run(session, batch.feeds)
            for sample, outputs in layout.split(batch, found):
                for name, array in outputs.items():
                    refuse_nonfinite("reference", name, sample.index, array, array)
                    infinite[name] += holds_infinity(array)
                spool.add(outputs)
        if not seen:
            raise NodeFailed(
                f"data: expected at least one sample of {self.data.path or self.data.iterator!r}, found none",
                "without evaluation data nothing can be proven; look at the path and at the filter of the transform",
            )
        document = manifest.document()
        write_outputs(out, spool, layout, seen, document)
        return {"samples": len(seen), "input_lengths": lengths(document)}, infinite


def _noted(found: Iterable[Sample], manifest: Manifest, seen: list[tuple[str, Any]]) -> Iterator[Sample]:
    """The samples as they pass, with their digest and label noted."""
    for sample in found:
        manifest.add(sample)
        seen.append((sample_digest(sample), sample.label))
        yield sample


def _infinite(found: Mapping[str, int], samples: int) -> list[str]:
    return [
        f"output {name!r} holds infinity in {count} of {samples} samples, which is compared by place and in no figure"
        for name, count in found.items()
        if count
    ]


def _few(count: int) -> list[str]:
    if count >= _FEW:
        return []
    points = "100" if count == 1 else f"{100 / count:.2g}"
    return [
        f"only {count} evaluation sample{'s' * (count > 1)}: one of them is {points} points, so a drop may be chance"
    ]
