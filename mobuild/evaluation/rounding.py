"""Makes a graph in half precision round as a device would: after every operator.

ONNX Runtime's CPU provider has few kernels in half precision. It computes the others in float32 between
casts of its own and removes neighbouring ones, at every optimization level (1.32.0): `Sin(Sin(x))` in float16
rounds only once, or never. So the graph is turned into float32, with an explicit pair of casts behind
each operator that had a half output; pairs that the graph itself has are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mobuild import onnxmodel
from mobuild.onnxmodel.walk import graphs

FLOAT, FLOAT16, BFLOAT16 = 1, 10, 16  # onnx.TensorProto
_NAMES = {FLOAT16: "float16", BFLOAT16: "bfloat16"}
_TYPE_ATTRIBUTES = ("to", "dtype", "output_dtype")


def rounded(path: Path, scratch: Path) -> tuple[Path, str]:
    """A graph that rounds explicitly, written below `scratch`, and the type it rounds to.

    The graph itself and an empty text when nothing in it is in half precision.
    """
    types = _types(onnxmodel.load(path, external_data=False))
    low = next((kind for kind in _NAMES if kind in types.values()), 0)
    if not low:
        return path, ""
    model = onnxmodel.load(path)
    _take_inputs(model, types)
    for graph in graphs(model):
        _rewrite(graph, types)
    out = scratch / "rounded.onnx"
    onnxmodel.save(model, out)
    return onnxmodel.model_file(out), _NAMES[low]


def _types(model: Any) -> dict[str, int]:
    """Tensor → element type, in the graph and its subgraphs."""
    import onnx

    inferred = onnx.shape_inference.infer_shapes(model)
    found: dict[str, int] = {}
    for graph in graphs(inferred):
        found.update({each.name: each.data_type for each in graph.initializer})
        for value in (*graph.input, *graph.output, *graph.value_info):
            if value.type.HasField("tensor_type"):
                found[value.name] = value.type.tensor_type.elem_type
        found.update(_cast_types(graph))
    return found


def _cast_types(graph: Any) -> Iterator[tuple[str, int]]:
    for node in graph.node:
        if node.op_type == "Cast":
            yield from ((node.output[0], each.i) for each in node.attribute if each.name == "to")


def _take_inputs(model: Any, types: dict[str, int]) -> None:
    """Let the graph's half inputs stay what callers feed, and widen each behind its name."""
    from onnx import helper

    low = [each.name for each in model.graph.input if types.get(each.name) in _NAMES]
    everywhere = [node for graph in graphs(model) for node in graph.node]
    for node in everywhere:
        for i, name in enumerate(node.input):
            if name in low:
                node.input[i] = f"{name}__wide"
    casts = [helper.make_node("Cast", [name], [f"{name}__wide"], to=FLOAT) for name in low]
    nodes = [*casts, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _rewrite(graph: Any, types: Mapping[str, int]) -> None:
    made = {name for node in graph.node for name in node.output}
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type in _NAMES and f"{value.name}__wide" not in made:
            value.type.tensor_type.elem_type = FLOAT
    for tensor in graph.initializer:
        _widen(tensor)
    nodes = list(graph.node)
    del graph.node[:]
    del graph.value_info[:]
    for node in nodes:
        graph.node.extend(_rounding(node, types))


def _rounding(node: Any, types: Mapping[str, int]) -> list[Any]:
    """The node in float32, and the casts that round its outputs."""
    for attribute in node.attribute:
        if attribute.name in _TYPE_ATTRIBUTES and attribute.i in _NAMES:
            attribute.i = FLOAT
        elif attribute.HasField("t"):
            _widen(attribute.t)
    casts: list[Any] = []
    for i, name in enumerate(node.output):
        if types.get(name) in _NAMES:
            node.output[i] = f"{name}__exact"
            casts += _round(f"{name}__exact", name, types[name])
    return [node, *casts]


def _round(source: str, out: str, low: int) -> list[Any]:
    from onnx import helper

    narrow = helper.make_node("Cast", [source], [f"{out}__{_NAMES[low]}"], to=low)
    return [narrow, helper.make_node("Cast", [f"{out}__{_NAMES[low]}"], [out], to=FLOAT)]


def _widen(tensor: Any) -> None:
    """Turn a half tensor into float32; the values stay."""
    from onnx import numpy_helper

    if tensor.data_type in _NAMES:
        values = numpy_helper.to_array(tensor).astype("float32")
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
