"""What of an ONNX model the planner and the rules need to know, as plain JSON data.

The summary is kept in the record of the node that wrote the model, so that `plan` and `check` import no
onnx. External data is not read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mobuild.onnxmodel.files import load, size_bytes
from mobuild.onnxmodel.walk import graphs, nodes, tensors

RANGE_PREFIX = "mobuild.range."
_DTYPES = {"FLOAT": "float32", "DOUBLE": "float64"}


def summary(path: Path) -> dict[str, Any]:
    """Summary of the ONNX artifact at `path` (a file or a folder).

    `inputs`, `outputs`: `[{name, dtype, shape}]` in the file's order; a shape holds ints, axis names and
    None for unnamed axes, and is None as a whole when the file declares none. `nodes` and `operators`
    count subgraphs and functions; an operator of another domain is `domain::name`.
    """
    return of_model(load(path, external_data=False))


def of_model(model: Any) -> dict[str, Any]:
    """The same for an `onnx.ModelProto`."""
    constants = {each.name for each in model.graph.initializer}  # inputs as well before IR version 4
    inputs = [_tensor(value) for value in model.graph.input if value.name not in constants]
    operators = Counter(operator(node) for node in nodes(model))
    return {
        "inputs": inputs,
        "outputs": [_tensor(value) for value in model.graph.output],
        "opsets": {each.domain or "ai.onnx": each.version for each in model.opset_import},
        "ir_version": model.ir_version,
        "nodes": sum(operators.values()),
        "operators": dict(sorted(operators.items())),
        "initializer_bytes": sum(size_bytes(each) for graph in graphs(model) for each in graph.initializer),
        "dynamic_axes": sorted({axis for each in inputs for axis in axes(each) if isinstance(axis, str)}),
        "quantize_nodes": operators["QuantizeLinear"] + operators["DequantizeLinear"],
        "external_data": any(each.data_location == each.EXTERNAL for each in tensors(model)),
        "ranges": ranges(model),
        "functions": len(model.functions),
    }


def axes(tensor: Mapping[str, Any]) -> tuple[int | str, ...]:
    """The shape of one of a summary's inputs with a name for every dynamic axis.

    An unnamed axis is called after its input and position: axis 0 of `x` is `x_0`.
    """
    shape = tensor["shape"] or ()
    return tuple(f"{tensor['name']}_{i}" if axis is None else axis for i, axis in enumerate(shape))


def ranges(model: Any) -> dict[str, list[float]]:
    """Input → [low, high] as `mobuild.range.<input>` says; both ints for an integer input."""
    return {
        each.key[len(RANGE_PREFIX) :]: [_number(word) for word in each.value.split(",")]
        for each in model.metadata_props
        if each.key.startswith(RANGE_PREFIX)
    }


def write_ranges(model: Any, wanted: Mapping[str, Any]) -> None:
    """Put `wanted` (input → (low, high)) into the model's metadata, over ranges already there."""
    names = {RANGE_PREFIX + name for name in wanted}
    kept = [(each.key, each.value) for each in model.metadata_props if each.key not in names]
    new = [(RANGE_PREFIX + name, f"{low},{high}") for name, (low, high) in wanted.items()]
    del model.metadata_props[:]
    for key, value in sorted(kept + new):
        model.metadata_props.add(key=key, value=value)


def operator(node: Any) -> str:
    return f"{node.domain}::{node.op_type}" if node.domain not in ("", "ai.onnx") else str(node.op_type)


def _tensor(value: Any) -> dict[str, Any]:
    import onnx

    kind = value.type.tensor_type
    name = onnx.TensorProto.DataType.Name(kind.elem_type)
    shape = [_dim(dim) for dim in kind.shape.dim] if kind.HasField("shape") else None
    return {"name": value.name, "dtype": _DTYPES.get(name, name.lower()), "shape": shape}


def _dim(dim: Any) -> Any:
    if dim.HasField("dim_value"):
        return dim.dim_value
    return dim.dim_param or None


def _number(word: str) -> Any:
    try:
        return int(word)
    except ValueError:
        return float(word)
