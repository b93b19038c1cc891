"""Kind `validate`: how much of the fp32 model's quality an engine keeps, measured and not judged.

On the device where there is one (`real`), else by proxy: the quantised graph in ONNX Runtime, which cannot see
what a builder makes of it, and says so. Gates judge the numbers, so a changed tolerance runs nothing again.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from mobuild import libraries, onnxmodel, programs
from mobuild.backend import Backend
from mobuild.data import Data
from mobuild.errors import ConfigError
from mobuild.evaluation import scripts
from mobuild.evaluation.outputs import Spool
from mobuild.evaluation.reference import open_reference
from mobuild.evaluation.runs import Form, open_built, open_graph
from mobuild.metrics import Score, check_better, compared
from mobuild.node import Built, user_code
from mobuild.nodes.validate import calibrated, measure, tasks

REAL, PROXY = "real", "proxy"
QUANTIZED, ENGINE = "quantized", "engine"
UNSEEN = (
    "what the builder makes of the graph: its fused kernels and tactics, the order in which they add up, and the "
    "precision inside them"
)


@dataclass(frozen=True)
class Validate:
    """Compare `inputs["engine"]` with the reference on `data`, and by `cmd`, a program of the user's.

    `metric(outputs, labels)` returns a number, one score per sample, or either by name; `better` is `higher`,
    `lower`, or one of them by metric. `cmd` writes JSON below `{out}` for the model at `{in.engine}`. `device` is
    chosen by `alternatives` and is not to be written.
    """

    kind: ClassVar[str] = "validate"
    revision: ClassVar[int] = 4
    isolated: ClassVar[bool] = True
    suffix: ClassVar[str] = ".json"

    data: Data = field(default_factory=Data)
    metric: str = user_code("")
    better: str | Mapping[str, str] = "higher"
    cmd: str = ""
    precision: str = "fp32"
    dynamic: bool = False
    backend: Backend | None = None
    shapes: Any = None
    device: str = ""

    def __post_init__(self) -> None:
        check_better(self.better)
        programs.split(self.cmd)
        programs.refuse_operators(self.cmd)
        if not (self.data.is_given or self.cmd):
            raise ConfigError(
                "no evaluation data: expected `data` or `cmd`, found neither",
                'write in the recipe validation: {data: {npz: evaluation.npz}, metric: "file.py:function"}',
            )
        if self.metric and not self.data.is_given:
            raise ConfigError(f"metric: {self.metric!r} has no data to be measured on", "give data: {npz: …}")

    @property
    def tools(self) -> tuple[str, ...]:
        built = self.backend.tools if self.backend else ()
        return tuple(dict.fromkeys((*built, "onnxruntime", "onnx", "numpy")))

    @property
    def sources(self) -> Mapping[str, str]:
        return {"data": self.data.path} if self.data.path else {}

    @property
    def unneeded(self) -> tuple[str, ...]:
        is_calibrated = self.precision == "int8" and not self.dynamic and self.data.is_given
        return () if is_calibrated else ("calibration",)

    @property
    def alternatives(self) -> tuple[Validate, ...]:
        """On the device; and by proxy, for which neither backend nor shapes matter, where it is not here."""
        real = dataclasses.replace(self, device=REAL)
        if self.device or self.backend is None or not self.backend.runs_here():
            return (real,)
        return (real, dataclasses.replace(self, device=PROXY, backend=None, shapes=None))

    @property
    def unkeyed_roles(self) -> tuple[str, ...]:
        return ("engine",) if self.device == PROXY else ()

    def files(self, project: Path) -> tuple[Path, ...]:
        """Files of the project that `cmd` names."""
        return programs.named_files(self.cmd, project)

    def check_roles(self, roles: Collection[str]) -> None:
        """Refuse a placeholder in `cmd` that is no need of the node."""
        programs.check_roles(self.cmd, roles)

    def build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        with tempfile.TemporaryDirectory(prefix=".validate-", dir=out.parent) as folder:
            scratch = Path(folder)
            reference = open_reference(inputs["reference"])
            forms = self._forms(inputs, scratch)
            measurements: dict[str, Any] = {"device": self.device or REAL, **self._unseen(forms[0])}
            warnings: list[str] = []
            before, after = dict(reference.scores), self._script_scores(inputs, forms[0], scratch)
            if self.data.is_given:
                spool = Spool(scratch) if self.metric else None
                found = measure.measure(self.data, inputs, reference, forms, spool)
                measurements.update(found.document())
                warnings += [*found.warnings(), *tasks.unlabelled(self.metric, self.data, found.labels)]
                tasks.add_scores(self.metric, inputs, reference, found, before, after)
            measurements["metrics"] = compared(before, after, self.better)
            if "calibration" in inputs:
                warnings += calibrated.warnings(inputs["calibration"], reference.manifest)
        # Beside the measurements, the artifact has what another release can be compared with sample by sample.
        each = {"samples_digest": reference.samples_digest, "scores": {name: after[name].each for name in after}}
        out.write_text(json.dumps({**measurements, **each}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return Built(measurements, warnings=warnings)

    def _forms(self, inputs: Mapping[str, Path], scratch: Path) -> tuple[Form, ...]:
        """The form to prove, and for an engine the graph before it, to blame the stage that loses most."""
        operators = libraries.given(inputs).values()
        if self.device == PROXY or self.backend is None:
            return (open_graph(inputs["model"], scratch, QUANTIZED, operators),)
        summary = onnxmodel.summary(inputs["model"])
        engine = open_built(inputs["engine"], self.backend, summary, self.shapes, ENGINE)
        if self.precision == "fp32" or not self.data.is_given:
            return (engine,)
        return (engine, open_graph(inputs["model"], scratch, QUANTIZED, operators))

    def _unseen(self, proved: Form) -> dict[str, str]:
        """What a proxy cannot tell, beside what it does to be near."""
        if self.device != PROXY:
            return {}
        rounding = f"every tensor in half precision was rounded to {proved.rounds_to}; "
        return {"unseen": f"{rounding * bool(proved.rounds_to)}not seen: {UNSEEN}"}

    def _script_scores(self, inputs: Mapping[str, Path], proved: Form, scratch: Path) -> dict[str, Score]:
        if not self.cmd:
            return {}
        return scripts.evaluate(self.cmd, {**inputs, ENGINE: proved.file}, scratch / "out", f"the {proved.word}")
