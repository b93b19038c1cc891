"""Whether a model takes given sizes of its dynamic axes, as ONNX's own inference of shapes has it; nothing is run.

A size that an exporter wrote into the graph (a class token of four rows, a table of three positions) fits one size of
the axis alone. A builder sees that in a Reshape, and lets a Concat or a MatMul pass, whose engine fails when it runs.
"""

from __future__ import annotations

import re
from typing import Any, Iterator, Mapping

from mobuild.onnxmodel.bare import bare
from mobuild.onnxmodel.summary import axes
from mobuild.onnxmodel.walk import subgraphs

_LINE = re.compile(r"\(op_type:(\w+), node name: (.*?)\): \[\w+\] (.*)")


class AtSizes:
    """A model without its weights, for inference at one size after the other."""

    def __init__(self, model: Any, summary: Mapping[str, Any]) -> None:
        """`model` may lack its external data."""
        self._bare, self._inputs = bare(model), {each["name"]: axes(each) for each in summary["inputs"]}
        # Where inference has something against the dynamic model, or depends on branches, what it says of sizes is
        # no proof.
        self._is_judged = not any(subgraphs([node]) for node in model.graph.node) and not _said(self._bare)

    def refusal(self, sizes: Mapping[str, Any]) -> str:
        """Which node does not take the sizes by axis name, and why; empty when none is known not to."""
        import onnx

        if not self._is_judged:
            return ""
        fixed = onnx.ModelProto()
        fixed.CopyFrom(self._bare)
        for value in fixed.graph.input:
            for axis, dim in zip(self._inputs.get(value.name, ()), value.type.tensor_type.shape.dim):
                if isinstance(sizes.get(str(axis)), int):
                    dim.dim_value = sizes[str(axis)]
        return next(_told(_said(fixed)), "")


def _said(model: Any) -> str:
    """What inference has against a model; empty when it has nothing."""
    import onnx

    try:
        onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except Exception as error:  # noqa: BLE001 - where it cannot infer, nothing is known
        return str(error) or type(error).__name__
    return ""


def _told(said: str) -> Iterator[str]:
    """The nodes with their reasons; what only follows from a node before is left out."""
    for operator, name, reason in _LINE.findall(said):
        if "expected to have type" not in reason:
            yield f"node {name!r} ({operator}): {reason.rpartition('] ')[2] or reason}"
