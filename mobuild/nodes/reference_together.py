"""Kind `reference_together`: what several fp32 models answer together, once for all variants of each of them."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from mobuild import libraries
from mobuild.data import Data, sample_digest
from mobuild.data.manifest import Manifest
from mobuild.errors import ConfigError, NodeFailed
from mobuild.evaluation.outputs import Spool
from mobuild.evaluation.reference import write_outputs
from mobuild.evaluation.runs import Form, Layout, open_graph
from mobuild.evaluation.together import predictions
from mobuild.metrics import refuse_nonfinite
from mobuild.node import Built, user_code


@dataclass(frozen=True)
class ReferenceTogether:
    """Run `predict` on `data` with the ONNX models among its needs, by role; both are those of the validation."""

    kind: ClassVar[str] = "reference_together"
    revision: ClassVar[int] = 1
    isolated: ClassVar[bool] = True
    suffix: ClassVar[str] = ""
    tools: ClassVar[tuple[str, ...]] = ("onnxruntime", "onnx", "numpy")

    data: Data = field(default_factory=Data)
    predict: str = user_code("")

    def __post_init__(self) -> None:
        if not (self.predict and self.data.is_given):
            raise ConfigError(
                "expected `data` and `predict` of the validation",
                'write in the recipe validation: {data: {npz: evaluation.npz}, predict: "file.py:function"}',
            )

    @property
    def sources(self) -> Mapping[str, str]:
        return {"data": self.data.path} if self.data.path else {}

    def build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        out.mkdir()
        spool_names: list[str] = []
        seen: list[tuple[str, Any]] = []
        manifest = Manifest()
        with tempfile.TemporaryDirectory(prefix=".reference-", dir=out.parent) as folder:
            scratch = Path(folder)
            models = self._models(inputs, scratch)
            spool = Spool(scratch)
            for sample, outputs in predictions(self.predict, models, self.data, inputs):
                for name, array in outputs.items():
                    refuse_nonfinite("reference", name, sample.index, array, array)
                manifest.add(sample)
                seen.append((sample_digest(sample), sample.label))
                spool.add(outputs)
                spool_names = list(outputs)
            if not seen:
                raise NodeFailed(
                    "data: expected at least one sample, found none", "look at the path and at the transform"
                )
            write_outputs(out, spool, Layout(dict.fromkeys(spool_names)), seen, manifest.document())
        return Built({"samples": len(seen), "models": sorted(models)})

    def _models(self, inputs: Mapping[str, Path], scratch: Path) -> dict[str, Form]:
        operators = tuple(libraries.given(inputs).values())
        found: dict[str, Form] = {}
        for role, path in inputs.items():
            if path.suffix == ".onnx" or (path.is_dir() and any(path.glob("*.onnx"))):
                (scratch / role).mkdir()
                found[role] = open_graph(path, scratch / role, role, operators)
        if not found:
            raise NodeFailed(
                f"expected ONNX models among the needs, found none in {', '.join(sorted(inputs)) or 'nothing'}",
                "needs: {enc: enc.sanitized, dec: dec.sanitized}",
            )
        return found
