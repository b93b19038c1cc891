"""Kind `export`: from the user's PyTorch network to an ONNX file that is proven to compute the same.

The recipe says what the file shall be (names, axes, opset); whatever the exporter makes of it is compared
with that, and with torch. Nothing about sizes of engines enters: an export does not depend on `shapes`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from mobuild import hooks, libraries, onnxmodel
from mobuild.errors import ConfigError, NodeFailed, did_you_mean
from mobuild.node import Built, ordered, user_code
from mobuild.nodes.export import checks, exporters, loading, naming, proof, shapes
from mobuild.onnxmodel.files import model_file, save_beside
from mobuild.onnxmodel.summary import write_ranges

_FORM = (
    "hook(model, inputs: tuple of example tensors, options: arguments of torch.onnx.export) → the network, or nothing"
)


@dataclass(frozen=True)
class Export:
    """Export the network that `model` loads.

    `inputs` is name → shape, in the order of the network's arguments: `[batch, 3, h, w]` with a name for
    each dynamic axis, or `{shape, dtype, range}`; integers need a range of values. `outputs` are the
    names, in order; by default `output`, or `output_0`, `output_1`, …; given as a map, name → shape is
    checked as well. `sizes` (axis → size) chooses example sizes when the derived ones do not suit.
    `droppable` inputs may be missing from the file when the network does not use them. `raw` goes to
    `torch.onnx.export` unchecked. `hook(model, inputs, options)` may change the network and these arguments just
    before; the file is proven against the network as it was loaded.
    """

    kind: ClassVar[str] = "export"
    revision: ClassVar[int] = 4
    isolated: ClassVar[bool] = True

    model: str = user_code()
    inputs: Mapping[str, Any] = ordered(default_factory=dict)
    outputs: Mapping[str, Any] | Sequence[str] = ordered(())
    opset: int = 20
    exporter: str = "dynamo"
    sizes: Mapping[str, int] = field(default_factory=dict)
    droppable: Sequence[str] = ()
    raw: Mapping[str, Any] = field(default_factory=dict)
    hook: str = user_code("")
    absolute_tolerance: float = 1e-4
    relative_tolerance: float = 1e-3

    def __post_init__(self) -> None:
        shapes.parse(self.inputs, self.sizes)
        if self.exporter not in exporters.EXPORTERS:
            raise ConfigError(
                f"exporter: {self.exporter!r} is none.{did_you_mean(str(self.exporter), exporters.EXPORTERS)}",
                f"exporters: {', '.join(exporters.EXPORTERS)}",
            )
        if not isinstance(self.opset, int) or isinstance(self.opset, bool):
            raise ConfigError(f"opset: expected a whole number, found {self.opset!r}")
        for name in ("absolute_tolerance", "relative_tolerance"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name}: expected 0 or more, found {getattr(self, name)}")

    @property
    def suffix(self) -> str:
        return ".onnx"

    @property
    def tools(self) -> tuple[str, ...]:
        return ("torch", "onnx", "onnxscript", "onnxruntime", "numpy")

    def build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        asked = shapes.parse(self.inputs, self.sizes)
        checks.assert_names_differ([each.name for each in asked], list(self.outputs))
        module = loading.load(self.model, inputs)
        tolerances = (self.absolute_tolerance, self.relative_tolerance)
        found = proof.cases(module, asked, self.sizes, *tolerances)
        outputs = self._outputs(found)
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=".export-") as scratch:
            self._export(module, asked, found, outputs, Path(scratch) / onnxmodel.MODEL_NAME, out, inputs)
        measured = proof.prove(out, found, *tolerances, libraries.given(inputs).values())
        return Built(
            measurements={**measured, "proven_sizes": [dict(case.sizes) for case in found]},
            onnx=onnxmodel.summary(out),
            warnings=proof.unproven(found, list(outputs)),
        )

    def _outputs(self, found: Sequence[proof.Case]) -> dict[str, tuple[int | str, ...]]:
        count = len(found[0].want)
        default = ["output"] if count == 1 else [f"output_{i}" for i in range(count)]
        names = list(self.outputs) or default
        if len(names) != count:
            shown = ", ".join(str(list(each.shape)) for each in found[0].want)
            raise NodeFailed(
                f"outputs: {len(names)} asked, but the network returns {count} tensors of shapes {shown}",
                f"asked: {', '.join(names)}; name every tensor, in order",
            )
        real = proof.output_shapes(found, names)
        if isinstance(self.outputs, Mapping):
            checks.assert_output_shapes(self.outputs, real)
        return real

    def _export(
        self,
        module: Any,
        asked: Sequence[shapes.Input],
        found: Sequence[proof.Case],
        outputs: Mapping[str, Sequence[int | str]],
        file: Path,
        out: Path,
        inputs: Mapping[str, Path],
    ) -> None:
        import torch

        if self.exporter == "dynamo":
            options = exporters.dynamo_options(module, asked, list(outputs), self.opset, self.raw)
        else:
            options = exporters.torchscript_options(asked, outputs, self.opset, self.raw)
        arguments = [torch.from_numpy(array.copy()) for array in found[0].feeds.values()]
        exporters.export(self.exporter, self._hooked(module, arguments, options, inputs), arguments, file, options)
        model = onnxmodel.load(file, external_data=False)
        naming.replace_stand_ins(model)
        checks.assert_as_asked(model, asked, list(outputs), self.droppable, self.opset, self.exporter)
        onnxmodel.strip(model)
        write_ranges(model, {each.name: each.limits for each in asked if each.limits})
        save_beside(model, file, out)
        checks.assert_valid(model_file(out), self.opset, self.exporter)

    def _hooked(
        self, module: Any, arguments: Sequence[Any], options: dict[str, Any], inputs: Mapping[str, Path]
    ) -> Any:
        """What to export: the network, or what the hook makes of it."""
        import torch

        if not self.hook:
            return module
        others = {role: path for role, path in inputs.items() if role != "weights"}
        made = hooks.call(self.hook, _FORM, module, tuple(arguments), options, inputs=others)
        if made is None:
            return module.eval()
        if not isinstance(made, (torch.nn.Module, torch.export.ExportedProgram)):
            raise hooks.unexpected(self.hook, "a torch.nn.Module or ExportedProgram", made, _FORM)
        return made.eval() if isinstance(made, torch.nn.Module) else made
