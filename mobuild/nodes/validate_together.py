"""Kind `validate_together`: how much of their quality several engines keep together, by one function and one metric.

As kind `validate`, on the devices where all of them run here, else by proxy: their graphs in ONNX Runtime.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from mobuild import libraries, onnxmodel
from mobuild.backend import Opening
from mobuild.data import Data
from mobuild.errors import ConfigError, NodeFailed
from mobuild.evaluation.outputs import Spool
from mobuild.evaluation.reference import Reference, open_reference
from mobuild.evaluation.runs import Form, open_built, open_graph
from mobuild.evaluation.together import predictions
from mobuild.metrics import Score, check_better, compared, refuse_nonfinite
from mobuild.node import Built, user_code
from mobuild.nodes.validate import PROXY, REAL, UNSEEN, tasks
from mobuild.nodes.validate.measure import Measured, Pair


@dataclass(frozen=True)
class ValidateTogether:
    """Compare what `predict` makes of the engines among the needs with the reference, and by `metric`.

    `engines` says how to open each; it follows from the needs that are engines, and is not to be written. Nor is
    `device`, which is chosen by `alternatives`.
    """

    kind: ClassVar[str] = "validate_together"
    revision: ClassVar[int] = 2
    isolated: ClassVar[bool] = True
    suffix: ClassVar[str] = ".json"

    data: Data = field(default_factory=Data)
    predict: str = user_code("")
    metric: str = user_code("")
    better: str | Mapping[str, str] = "higher"
    engines: Mapping[str, Any] = field(default_factory=dict)
    device: str = ""

    def __post_init__(self) -> None:
        check_better(self.better)
        if not (self.predict and self.data.is_given):
            raise ConfigError(
                "expected `data` and `predict`, a function that runs the engines on a sample",
                'write data: {npz: evaluation.npz}, predict: "file.py:function"',
            )
        if not self.engines:
            raise ConfigError(
                "expected engines among the needs, found none", "needs: {enc: enc.engine, dec: dec.engine}"
            )

    @property
    def tools(self) -> tuple[str, ...]:
        openings = self.engines.values() if self.device != PROXY else ()
        built = [tool for opening in openings for tool in opening.backend.tools]
        return tuple(dict.fromkeys((*built, "onnxruntime", "onnx", "numpy")))

    @property
    def sources(self) -> Mapping[str, str]:
        return {"data": self.data.path} if self.data.path else {}

    @property
    def alternatives(self) -> tuple[ValidateTogether, ...]:
        """On the devices; and by proxy, to which only the roles matter, where one of the devices is not here."""
        real = dataclasses.replace(self, device=REAL)
        if self.device or not any(opening.backend.runs_here() for opening in self.engines.values()):
            return (real,)
        return (real, dataclasses.replace(self, device=PROXY, engines=dict.fromkeys(self.engines, PROXY)))

    @property
    def unkeyed_roles(self) -> tuple[str, ...]:
        return tuple(self.engines) if self.device == PROXY else ()

    def build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        with tempfile.TemporaryDirectory(prefix=".validate-", dir=out.parent) as folder:
            scratch = Path(folder)
            reference = open_reference(inputs["reference"])
            models = {role: self._opened(role, inputs, scratch / role) for role in self.engines}
            found = self._measured(models, reference, inputs, Spool(scratch) if self.metric else None)
            before: dict[str, Score] = {}
            after: dict[str, Score] = {}
            tasks.add_scores(self.metric, inputs, reference, found, before, after)
            measurements = {
                "device": self.device or REAL,
                **({"unseen": f"not seen: {UNSEEN}"} if self.device == PROXY else {}),
                "engines": sorted(models),
                **found.document(),
                "metrics": compared(before, after, self.better),
            }
        out.write_text(json.dumps(measurements, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        warnings = [*found.warnings(), *tasks.unlabelled(self.metric, self.data, found.labels)]
        return Built(measurements, warnings=warnings)

    def _opened(self, role: str, inputs: Mapping[str, Path], scratch: Path) -> Form:
        scratch.mkdir()
        model = inputs[f"{role}.model"]
        if self.device == PROXY:
            operators = libraries.given(inputs, f"{libraries.OPERATORS}{role}.").values()
            return open_graph(model, scratch, role, operators)
        opening: Opening = self.engines[role]
        return open_built(inputs[role], opening.backend, onnxmodel.summary(model), opening.shapes, role)

    def _measured(
        self, models: Mapping[str, Form], reference: Reference, inputs: Mapping[str, Path], spool: Spool | None
    ) -> Measured:
        """Run all samples.

        Raises:
            NodeFailed: an output is NaN where the reference's is not, is missing, or the data is not the reference's.
        """
        total = Pair("engines", "reference")
        found = Measured(total, [total], spool, "engines")
        for sample, outputs in predictions(self.predict, models, self.data, inputs):
            want = reference.row(sample)
            if list(outputs) != list(want):
                expected = f"expected the outputs {list(want)} as for the reference"
                raise NodeFailed(f"predict {self.predict!r}: {expected}, found {list(outputs)}")
            for name, array in outputs.items():
                refuse_nonfinite("stage 'engines'", name, sample.index, array, want[name])
            total.add(sample, outputs, want)
            found.labels.append(sample.label)
            if spool:
                spool.add(outputs)
        if len(found.labels) != len(reference.digests):
            raise NodeFailed(
                f"data: expected {len(reference.digests)} samples as in the reference, found {len(found.labels)}"
            )
        return found
