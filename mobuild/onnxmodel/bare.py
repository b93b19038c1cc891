"""A model without its weights, for inference of shapes: small enough for any number of copies."""

from __future__ import annotations

from typing import Any

from mobuild.onnxmodel.walk import node_name

_LARGE = 1 << 10  # elements; shapes, axes and the like are far smaller


def bare(model: Any) -> Any:
    """The model with a name for every node, large weights as inputs of their shape, and no shape that was declared.

    `model` may lack its external data.
    """
    import onnx

    found = onnx.ModelProto(ir_version=model.ir_version)
    found.opset_import.extend(model.opset_import)
    found.functions.extend(model.functions)
    found.graph.name = model.graph.name or "graph"
    found.graph.input.extend(model.graph.input)
    named = {each.name for each in model.graph.input}
    for tensor in model.graph.initializer:
        if tensor.data_location != tensor.EXTERNAL and _elements(tensor) <= _LARGE:
            found.graph.initializer.append(tensor)
        elif tensor.name not in named:
            value = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            found.graph.input.append(value)
    for value in model.graph.output:
        found.graph.output.append(value)
        found.graph.output[-1].type.tensor_type.ClearField("shape")
    for node in model.graph.node:
        found.graph.node.append(node)
        found.graph.node[-1].name = node_name(node)
    return found


def _elements(tensor: Any) -> int:
    count = 1
    for size in tensor.dims:
        count *= size
    return count
