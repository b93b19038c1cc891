"""Small ONNX models, made without torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def model(nodes: Sequence[Any], inputs: Any, outputs: Any, tensors: Sequence[Any] = (), opset: int = 18) -> Any:
    graph = helper.make_graph(list(nodes), "g", inputs, outputs, list(tensors))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def value(name: str, shape: Sequence[int | str | None] | None, kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def embedding() -> Any:
    """ids [batch, length], of the range [0, 50] → Gather of 50 rows → MatMul → y."""
    table, matrix = np.ones((50, 8), np.float32), np.ones((8, 4), np.float32)
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["h"], name="lookup"),
        helper.make_node("MatMul", ["h", "matrix"], ["y"]),
    ]
    ids = value("ids", ["batch", "length"], TensorProto.INT64)
    weights = [numpy_helper.from_array(table, "table"), numpy_helper.from_array(matrix, "matrix")]
    net = model(nodes, [ids], [value("y", ["batch", "length", 4])], weights)
    helper.set_model_props(net, {"mobuild.range.ids": "0,50"})
    return net


def matmul(size: int = 64) -> Any:
    weight = numpy_helper.from_array(np.eye(size, dtype=np.float32), "w")
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    return model([node], [value("x", ["n", size])], [value("y", ["n", size])], [weight])


def save_external(folder: Path) -> Path:
    """`matmul` with its weight in `w.bin` beside it."""
    folder.mkdir(parents=True)
    onnx.save_model(matmul(), folder / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    return folder / "m.onnx"
