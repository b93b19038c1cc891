"""Which precisions are in an ONNX model: those of its tensors' types, whatever anybody asked for."""

from __future__ import annotations

from typing import Any

from mobuild.onnxmodel.qdq import is_quantized
from mobuild.onnxmodel.summary import of_model
from mobuild.onnxmodel.walk import nodes, tensors

_LOW = {10: "fp16", 16: "bf16"}  # onnx.TensorProto.FLOAT16, BFLOAT16


def precisions(model: Any) -> tuple[str, ...]:
    """`("int8", "fp16")`: what is in the graph, smallest first; `("fp32",)` when nothing else is."""
    kinds = {tensor.data_type for tensor in tensors(model)}
    kinds |= {each.i for node in nodes(model) if node.op_type == "Cast" for each in node.attribute}
    for value in (*model.graph.input, *model.graph.output):
        kinds.add(value.type.tensor_type.elem_type)
    found = [name for kind, name in _LOW.items() if kind in kinds]
    if is_quantized(of_model(model)):
        found.insert(0, "int8")
    return tuple(found) or ("fp32",)
