"""Small networks to quantise, and looks at what became of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

from mobuild import onnxmodel
from mobuild.node import Built
from mobuild.nodes.quantize import Quantize


def convolutions(path: Path) -> Path:
    """Two convolutions with biases and a Gemm: x (batch, 3, 8, 8) → y (batch, 4)."""
    random = numpy.random.default_rng(0)
    shapes = {"a": (8, 3, 3, 3), "a_bias": (8,), "b": (8, 8, 3, 3), "b_bias": (8,), "c": (8, 4), "c_bias": (4,)}
    weights = {name: random.standard_normal(shape).astype(numpy.float32) for name, shape in shapes.items()}
    nodes = [
        helper.make_node("Conv", ["x", "a", "a_bias"], ["1"], name="first", pads=[1] * 4),
        helper.make_node("Relu", ["1"], ["2"], name="relu"),
        helper.make_node("Conv", ["2", "b", "b_bias"], ["3"], name="second"),
        helper.make_node("GlobalAveragePool", ["3"], ["4"], name="pool"),
        helper.make_node("Flatten", ["4"], ["5"], name="flat"),
        helper.make_node("Gemm", ["5", "c", "c_bias"], ["y"], name="last"),
    ]
    return save(path, nodes, [("x", ["batch", 3, 8, 8])], [("y", ["batch", 4])], weights)


CONV_RANGES = {"x": (-1, 3), "1": (-30, 30), "2": (0, 30), "3": (-90, 95), "5": (-20, 20), "y": (-40, 40)}


def save(path: Path, nodes: Any, inputs: Any, outputs: Any, weights: Mapping[str, Any], opset: int = 20) -> Path:
    values = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in each]
        for each in (inputs, outputs)
    ]
    constants = [numpy_helper.from_array(numpy.asarray(array), name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "net", *values, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    onnx.save(onnx.shape_inference.infer_shapes(model, strict_mode=True), path)
    return path


def write_ranges(path: Path, found: Mapping[str, Any]) -> Path:
    path.write_text(json.dumps({"schema": 1, "method": "minmax", "ranges": found}))
    return path


def quantize(node: Quantize, model: Path, found: Mapping[str, Any] | None = None) -> tuple[Built, Path]:
    """Build the node beside its model."""
    out = model.parent / f"out-{len(list(model.parent.iterdir()))}.onnx"
    calibration = write_ranges(model.parent / "ranges.json", found or {})
    return node.build({"model": model, "calibration": calibration}, out), out


def run(model: Path, feeds: Mapping[str, Any]) -> Any:
    return next(iter(onnxmodel.run(onnxmodel.open_session(model), feeds).values()))


def of_type(model: Path, *operators: str) -> list[Any]:
    return [node for node in onnx.load(model).graph.node if node.op_type in operators]


def types(model: Path) -> dict[str, int]:
    loaded = onnx.load(model).graph
    values = {
        each.name: each.type.tensor_type.elem_type for each in (*loaded.input, *loaded.output, *loaded.value_info)
    }
    return {**{each.name: each.data_type for each in loaded.initializer}, **values}


def cosine(got: Any, want: Any) -> float:
    return float((got * want).sum() / numpy.linalg.norm(got) / numpy.linalg.norm(want))
