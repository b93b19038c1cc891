"""Models that parse and hold what ONNX does not allow: a node without its input, a tensor cut short, and the like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mobuild.errors import NodeFailed
from mobuild.onnxmodel.files import one_line
from mobuild.onnxmodel.walk import node_name, nodes, subgraphs, tensors


def refuse_malformed(model: Any, path: Path) -> None:
    """Say what is wrong with a model that could not be looked through; what files leave out is no reason.

    Raises:
        NodeFailed: ONNX's own checker refuses a node or a tensor; in its words.
    """
    import onnx

    context = onnx.checker.C.CheckerContext()
    context.ir_version = model.ir_version
    context.opset_imports = {each.domain: each.version for each in model.opset_import}
    alone = [each for each in nodes(model) if not subgraphs([each])]  # names from outside would be strange to the rest
    held = [each for each in tensors(model) if each.data_location != each.EXTERNAL]
    for what, each, check in (
        *((f"node {node_name(each)!r}", each, onnx.checker.check_node) for each in alone),
        *((f"tensor {each.name!r}", each, onnx.checker.check_tensor) for each in held),
    ):
        try:
            check(each, context)
        except onnx.checker.ValidationError as error:
            raise NodeFailed(
                f"'{path}': expected a model as ONNX has it, found {what}: {one_line(error)}",
                "whatever wrote the file made a mistake, or it is damaged; fetch or export it again",
            ) from error
