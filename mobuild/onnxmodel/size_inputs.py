"""Integer inputs that hold sizes: what a model reshapes, expands or cuts to, given by its caller.

A builder with profiles must know between which values they lie, as it must know the sizes of dynamic axes.
"""

from __future__ import annotations

from typing import Any

from mobuild.onnxmodel.walk import is_onnx, nodes

_INT32, _INT64 = 6, 7  # onnx.TensorProto
_SIZED_BY = {  # operator → its inputs that say how large the output is
    "ConstantOfShape": (0,),
    "Expand": (1,),
    "Pad": (1,),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (3,),
    "Slice": (1, 2),
    "Tile": (1,),
}
_HAND_ON = ("Add", "Cast", "Concat", "Div", "Gather", "Identity", "Mul", "Squeeze", "Sub", "Unsqueeze")


def size_inputs(model: Any) -> list[str]:
    """The names of the model's integer scalars and vectors that decide sizes, directly or by simple arithmetic."""
    found = set()
    producers = {name: node for node in nodes(model) for name in node.output if name}
    waiting = [
        node.input[i]
        for node in nodes(model)
        if is_onnx(node)
        for i in _SIZED_BY.get(node.op_type, ())
        if i < len(node.input)
    ]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        producer = producers.get(name)
        if producer is not None and is_onnx(producer) and producer.op_type in _HAND_ON:
            waiting += producer.input
    return [each.name for each in model.graph.input if each.name in found and _may_hold(each.type.tensor_type)]


def _may_hold(kind: Any) -> bool:
    return kind.elem_type in (_INT32, _INT64) and kind.HasField("shape") and len(kind.shape.dim) < 2
