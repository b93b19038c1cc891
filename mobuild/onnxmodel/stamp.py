"""The IR version of an ONNX model: the newest that the tool knew which wrote it, or what the model needs.

A runtime refuses a file of a newer IR version than its own, whatever is in it: a model that onnx 1.23 writes with
opset 21 bears IR version 14, which only the newest ONNX Runtime loads, though 10 would do.
"""

from __future__ import annotations

from typing import Any

from mobuild.onnxmodel.walk import graphs, nodes, tensors

# Below this, initializers are inputs and functions have no place; every runtime in the tables takes it.
_LEAST = 8
# onnx.proto, enum Version: the IR version that brought each type.
_OF_TYPES = {
    "FLOAT8E4M3FN": 9,
    "FLOAT8E4M3FNUZ": 9,
    "FLOAT8E5M2": 9,
    "FLOAT8E5M2FNUZ": 9,
    "INT4": 10,
    "UINT4": 10,
    "FLOAT4E2M1": 11,
    "FLOAT8E8M0": 12,
    "INT2": 13,
    "UINT2": 13,
    "FLOAT6E2M3": 14,
    "FLOAT6E3M2": 14,
}


def needed_ir(model: Any) -> int:
    """The lowest IR version that what is in the model allows; its own where the onnx here cannot know that."""
    import onnx

    known = onnx.helper.OP_SET_ID_VERSION_MAP
    opsets = [known.get(("ai.onnx", each.version)) for each in model.opset_import if each.domain in ("", "ai.onnx")]
    if model.ir_version > onnx.IR_VERSION or None in opsets:
        return int(model.ir_version)
    return int(max(_LEAST, *opsets, *map(_of_type, _types(model)), *_of_functions(model), *_of_devices(model)))


def restamp(model: Any) -> None:
    """Lower the model's IR version to what it needs; never raise it."""
    model.ir_version = min(model.ir_version, needed_ir(model))


def _types(model: Any) -> set[int]:
    values = (value for graph in graphs(model) for value in (*graph.input, *graph.output, *graph.value_info))
    return {each.data_type for each in tensors(model)} | {each.type.tensor_type.elem_type for each in values}


def _of_type(number: int) -> int:
    import onnx

    kinds = onnx.TensorProto.DataType
    return _OF_TYPES.get(kinds.Name(number), 0) if number in kinds.values() else int(onnx.IR_VERSION)


def _of_functions(model: Any) -> list[int]:
    found = [9 for each in model.functions if getattr(each, "attribute_proto", ())]
    return found + [10 for each in model.functions if getattr(each, "overload", "") or getattr(each, "value_info", ())]


def _of_devices(model: Any) -> list[int]:
    owners = (model, *nodes(model))
    fields = ("configuration", "device_configurations")
    return [11 for each in owners if any(len(getattr(each, field, ())) for field in fields)]
