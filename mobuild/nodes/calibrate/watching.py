"""Runs the model and watches the tensors that quantisation may need.

The copy of the model that is run has these tensors as its only outputs. Tensors inside `If` and `Loop` are
not reached, as quantisation does not reach them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterable, Sequence

from mobuild import onnxmodel
from mobuild.data import Batch, fed
from mobuild.errors import NodeFailed
from mobuild.nodes.calibrate.histogram import TensorValues
from mobuild.onnxmodel.files import save_beside
from mobuild.onnxmodel.summary import ranges

_FLOATS = ("tensor(float)", "tensor(float16)")


class Watched:
    """The model under `path`, and what its `tensors` have taken so far, by name.

    `bins` is the resolution that histograms shall have in the end; 0: ranges only. `libraries` hold the model's custom
    operators.

    Raises:
        NodeFailed: none of the operators works on floats in the main graph.
    """

    def __init__(
        self,
        path: Path,
        scratch: Path,
        operators: Sequence[str],
        with_outputs: Sequence[str],
        bins: int,
        libraries: Iterable[Path] = (),
    ) -> None:
        file = onnxmodel.plain_files(path, scratch)
        model = onnxmodel.load(file, external_data=False)
        names = _names(model, operators, with_outputs)
        self._ranges = ranges(model)
        self._inputs = [each.name for each in model.graph.input]
        _expose(model, [name for name in names if name not in self._inputs])
        save_beside(model, file, scratch / "watched.onnx")
        self._session = onnxmodel.open_session(scratch / "watched.onnx", libraries=libraries)
        types = {each.name: each.type for each in (*self._session.get_inputs(), *self._session.get_outputs())}
        self.tensors = {name: TensorValues(bins) for name in names if types[name] in _FLOATS}
        if not self.tensors:
            raise NodeFailed(
                f"found none of {', '.join(operators)} on floats in the model's main graph: nothing to calibrate",
                "nodes inside If and Loop are not reached; simplify the model first, or name other `operators`",
            )

    def run(self, batch: Batch) -> None:
        """Run one batch and take in its values.

        Raises:
            NodeFailed: the run fails, or a tensor is not finite; names the samples.
        """
        with fed(batch, self._ranges):
            found = onnxmodel.run(self._session, batch.feeds)
        for name, values in self.tensors.items():
            array = batch.feeds[name] if name in self._inputs else found[name]
            if not values.add(array):
                raise NodeFailed(
                    f"{batch.span}: tensor {name!r} holds NaN or infinite values, though the inputs are finite",
                    "the model overflows or divides by zero on this data; look at it in fp32 first",
                )


def _names(model: Any, operators: Sequence[str], with_outputs: Sequence[str]) -> list[str]:
    """Inputs of the operators' nodes that are no constants, and outputs where asked, sorted."""
    constants = {each.name for each in model.graph.initializer}
    constants |= {name for node in model.graph.node if node.op_type == "Constant" for name in node.output}
    found: set[str] = set()
    for node in model.graph.node:
        if node.op_type in operators:
            found.update(node.input)
        if node.op_type in with_outputs:
            found.update(node.output)
    return sorted(found - constants - {""})


def _expose(model: Any, names: Sequence[str]) -> None:
    """Make `names` the outputs; without type and shape, which ONNX Runtime finds itself and files get wrong."""
    del model.graph.output[:]
    for name in names:
        model.graph.output.add(name=name)
