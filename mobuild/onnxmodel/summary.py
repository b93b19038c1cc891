"""What of an ONNX model the planner and the rules need to know, as plain JSON data.

The summary is kept in the record of the node that wrote the model, so that `plan` and `check` import no
onnx. External data is not read.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mobuild.errors import NodeFailed
from mobuild.onnxmodel.files import load, size_bytes, weight_bytes
from mobuild.onnxmodel.lasting import lasting
from mobuild.onnxmodel.malformed import refuse_malformed
from mobuild.onnxmodel.signs import signs
from mobuild.onnxmodel.size_inputs import size_inputs
from mobuild.onnxmodel.stamp import needed_ir
from mobuild.onnxmodel.walk import graphs, node_name, nodes, operator, tensors, type_name

RANGE_PREFIX = "mobuild.range."
_DTYPES = {"FLOAT": "float32", "DOUBLE": "float64"}
_MOST_ACTIVATIONS = 32
COMMON = frozenset(
    (
        *("Add", "And", "ArgMax", "ArgMin", "AveragePool", "BatchNormalization", "Cast", "Ceil", "Clip", "Concat"),
        *("Constant", "ConstantOfShape", "Conv", "ConvTranspose", "DepthToSpace", "DequantizeLinear", "Div", "Elu"),
        *("Equal", "Erf", "Exp", "Expand", "Flatten", "Floor", "Gather", "GatherElements", "Gemm", "GlobalAveragePool"),
        *("GlobalMaxPool", "Greater", "HardSigmoid", "Identity", "InstanceNormalization", "LeakyRelu", "Less", "Log"),
        *("LogSoftmax", "MatMul", "Max", "MaxPool", "Min", "Mul", "Neg", "Not", "Or", "PRelu", "Pad", "Pow"),
        *("QuantizeLinear", "Range", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "Relu", "Reshape", "Resize"),
        *(
            "Shape",
            "Sigmoid",
            "Size",
            "Slice",
            "Softmax",
            "Softplus",
            "Split",
            "Sqrt",
            "Squeeze",
            "Sub",
            "Tanh",
            "Tile",
        ),
        *("Transpose", "Unsqueeze", "Upsample", "Where"),
    )
)
"""Operators that every builder takes, whatever its age: which nodes they are is not worth keeping."""


def summary(path: Path) -> dict[str, Any]:
    """Summary of the ONNX artifact at `path` (a file or a folder): `of_model`, and what rules look for.

    `named`: operator → its nodes, of those that are not `COMMON` and no functions of the model's own; `signs` as
    `signs.signs` says; `types`: type → bytes of constants; `embeddings`: integer input → rows of the table that it
    looks up; `activations`: different types and shapes of tensors inside, the largest first; `size_inputs` as
    `size_inputs.size_inputs` says.
    """
    return _told(path, _whole)


def foreign_summary(path: Path) -> dict[str, Any]:
    """`summary` of a file that mobuild did not make, and `lasting`: the nodes that no simplifier takes away."""
    return _told(path, lambda model: {**_whole(model), "lasting": sorted(lasting(model))})


def _told(path: Path, tell: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """What `tell` says of the model at `path`.

    Raises:
        NodeFailed: the model is none, or a node lacks its input, an attribute is of another type, and so on.
    """
    model = load(path, external_data=False)
    try:
        return tell(model)
    except (IndexError, TypeError, ValueError):
        refuse_malformed(model, path)
        raise  # a fault of ours


def _whole(model: Any) -> dict[str, Any]:
    constants = {each.name for each in model.graph.initializer}
    return {
        **of_model(model),
        "named": _named(model),
        "signs": signs(model),
        "types": weight_bytes(model),
        "embeddings": _embeddings(model),
        "activations": _activations(model),
        "size_inputs": [name for name in size_inputs(model) if name not in constants],
    }


def of_model(model: Any) -> dict[str, Any]:
    """What most of mobuild needs to know of an `onnx.ModelProto`.

    `inputs`, `outputs`: `[{name, dtype, shape}]` in the file's order; a shape holds ints, axis names and
    None for unnamed axes, and is None as a whole when the file declares none. `nodes` and `operators`
    count subgraphs and functions; an operator of another domain is `domain::name`.
    """
    constants = {each.name for each in model.graph.initializer}  # inputs as well before IR version 4
    inputs = [_tensor(value) for value in model.graph.input if value.name not in constants]
    operators = Counter(operator(node) for node in nodes(model))
    return {
        "inputs": inputs,
        "outputs": [_tensor(value) for value in model.graph.output],
        "opsets": {each.domain or "ai.onnx": each.version for each in model.opset_import},
        "ir_version": model.ir_version,
        "ir_needed": needed_ir(model),
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
    """Input → [low, high] as `mobuild.range.<input>` says; both ints for an integer input.

    Raises:
        NodeFailed: what it says is no range.
    """
    return {
        each.key[len(RANGE_PREFIX) :]: _range(each.key, each.value)
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


def _named(model: Any) -> dict[str, list[str]]:
    own = {(each.domain, each.name) for each in model.functions}
    found: dict[str, list[str]] = {}
    for node in nodes(model):
        if operator(node) not in COMMON and (node.domain, node.op_type) not in own:
            found.setdefault(operator(node), []).append(node_name(node))
    return {name: found[name] for name in sorted(found)}


def _embeddings(model: Any) -> dict[str, int]:
    """Integer input → rows of the smallest table that it looks up."""
    tables = {each.name: each.dims[0] for each in model.graph.initializer if len(each.dims) == 2}
    aliases = {each.name: each.name for each in model.graph.input}
    found: dict[str, int] = {}
    for node in model.graph.node:
        if node.op_type in ("Cast", "Identity") and node.input[0] in aliases:
            aliases[node.output[0]] = aliases[node.input[0]]
        if node.op_type != "Gather" or node.input[0] not in tables or node.input[1] not in aliases:
            continue
        if not any(each.name == "axis" and each.i for each in node.attribute):
            name, rows = aliases[node.input[1]], tables[node.input[0]]
            found[name] = min(rows, found.get(name, rows))
    return dict(sorted(found.items()))


def _activations(model: Any) -> list[list[Any]]:
    """[type, shape] of tensors whose every axis is a size or a name."""
    found = {}
    for value in model.graph.value_info:
        tensor = _tensor(value)
        shape = tensor["shape"]
        if shape and None not in shape:
            found[tensor["dtype"], tuple(shape)] = math.prod(axis for axis in shape if isinstance(axis, int))
    largest = sorted(found, key=lambda each: (-found[each], str(each)))[:_MOST_ACTIVATIONS]
    return [[dtype, list(shape)] for dtype, shape in largest]


def _tensor(value: Any) -> dict[str, Any]:
    held = value.type.WhichOneof("value") or "tensor_type"
    if held not in ("tensor_type", "sparse_tensor_type"):
        return {"name": value.name, "dtype": held[: -len("_type")], "shape": None}  # sequence, optional, map
    kind = getattr(value.type, held)
    name = type_name(kind.elem_type)
    shape = [_dim(dim) for dim in kind.shape.dim] if kind.HasField("shape") else None
    return {"name": value.name, "dtype": _DTYPES.get(name, name.lower()), "shape": shape}


def _dim(dim: Any) -> Any:
    if dim.HasField("dim_value"):
        return dim.dim_value if dim.dim_value >= 0 else None  # some exporters write -1 for an axis without a name
    return dim.dim_param or None


def _range(key: str, text: str) -> list[Any]:
    try:
        low, high = map(_number, text.split(","))
        is_range = low <= high
    except ValueError:
        is_range = False
    if not is_range:
        raise NodeFailed(
            f"metadata {key!r} of the model: expected 'low,high', found {text!r}",
            "mobuild writes it where an input has a range: take it out of the file, or put both numbers there",
        )
    return [low, high]


def _number(word: str) -> Any:
    try:
        return int(word)
    except ValueError:
        return float(word)
