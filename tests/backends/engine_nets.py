"""Small ONNX networks, each with one property that a builder cares about, and a build in a fresh process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

from mobuild.node import encode

_CHILD = """
import json, sys
from pathlib import Path
from mobuild.errors import MobuildError
from mobuild.node import decode
node, model, out = decode(json.loads(sys.argv[1])), Path(sys.argv[2]), Path(sys.argv[3])
others = {role: Path(path) for role, path in json.loads(sys.argv[4]).items()}
try:
    built = node.build({"model": model, **others}, out)
    answer = {"measurements": dict(built.measurements)}
except MobuildError as error:
    answer = {"error": type(error).__name__, "message": error.message, "hint": error.hint}
print("ANSWER" + json.dumps(answer))
"""


@dataclass(frozen=True)
class Outcome:
    measurements: dict[str, Any]
    error: str
    message: str
    hint: str
    log: str


def build(node: Any, model: Path, out: Path, others: Mapping[str, Path] = {}) -> Outcome:
    """Build `node` in a fresh process, as the worker does; `others` are inputs beside the model."""
    given = json.dumps({role: str(path) for role, path in others.items()})
    command = [sys.executable, "-c", _CHILD, json.dumps(encode(node)), str(model), str(out), given]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.rpartition("ANSWER")[2])
    words = [answer.get(key, "") for key in ("error", "message", "hint")]
    return Outcome(answer.get("measurements", {}), *words, log=done.stderr)


def linear(path: Path, dtype: int = TensorProto.FLOAT, batch: int | str | None = "batch") -> Path:
    """y = relu(x @ w), x of shape (batch, 16)."""
    weights = _weights((16, 32)).astype(helper.tensor_dtype_to_np_dtype(dtype))
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])]
    inputs, outputs = [_value("x", [batch, 16], dtype)], [_value("y", [batch, 32], dtype)]
    return save(path, nodes, inputs, outputs, {"w": weights})


def linear_external(folder: Path) -> Path:
    """`linear` with its weights in a second file."""
    model = onnx.load(linear(folder.with_suffix(".onnx")))
    folder.mkdir()
    target = folder / "model.onnx"
    onnx.save_model(model, target, save_as_external_data=True, location="model.onnx.data", size_threshold=0)
    return folder


def convolutions(path: Path) -> Path:
    """Two convolutions and a matrix product: needs more than 1 MiB of workspace."""
    weights = {"a": _weights((64, 3, 3, 3)), "b": _weights((256, 64, 3, 3)), "c": _weights((4096, 64))}
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["1"]),
        helper.make_node("Relu", ["1"], ["2"]),
        helper.make_node("Conv", ["2", "b"], ["3"]),
        helper.make_node("Flatten", ["3"], ["4"]),
        helper.make_node("MatMul", ["4", "c"], ["y"]),
    ]
    return save(path, nodes, [_value("x", [1, 3, 8, 8])], [_value("y", [1, 64])], weights)


def wide_convolutions(path: Path) -> Path:
    """Activations of 16 MiB, which the builder fails to allocate in a workspace of that size."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["1"], pads=[1] * 4),
        helper.make_node("Conv", ["1", "w"], ["2"], pads=[1] * 4),
        helper.make_node("Add", ["1", "2"], ["y"]),
    ]
    shape = [1, 64, 256, 256]
    return save(path, nodes, [_value("x", shape)], [_value("y", shape)], {"w": _weights((64, 64, 3, 3))})


def branches_of_other_rank(path: Path) -> Path:
    """An `If` whose branches return rank 2 and rank 1."""
    square = helper.make_graph([helper.make_node("Identity", ["x"], ["s"])], "s", [], [_value("s", [2, 2])])
    flat = helper.make_graph([helper.make_node("Reshape", ["x", "all"], ["f"])], "f", [], [_value("f", [4])])
    choice = helper.make_node("If", ["condition"], ["y"], then_branch=square, else_branch=flat)
    inputs = [_value("condition", [], TensorProto.BOOL), _value("x", [2, 2])]
    return save(path, [choice], inputs, [_value("y", None)], {"all": numpy.array([-1])})


def determinant(path: Path) -> Path:
    """An operator that TensorRT does not have."""
    nodes = [helper.make_node("Det", ["x"], ["y"])]
    return save(path, nodes, [_value("x", [2, 2])], [_value("y", [])], {})


def unsupported(path: Path) -> Path:
    """Two nodes that TensorRT does not have: one without a name, one of a domain of its own."""
    nodes = [
        helper.make_node("Det", ["x"], ["d"], name=""),
        helper.make_node("Swirl", ["x"], ["s"], name="swirl_7", domain="my.ops"),
        helper.make_node("Add", ["d", "s"], ["y"]),
    ]
    return save(path, nodes, [_value("x", [2, 2])], [_value("y", None)], {})


def positions(path: Path) -> Path:
    """A node that TensorRT has and TensorRT-RTX has not."""
    node = helper.make_node("NonZero", ["x"], ["y"], name="find")
    return save(path, [node], [_value("x", [2, 2])], [_value("y", None, TensorProto.INT64)], {})


def save(path: Path, nodes: Any, inputs: Any, outputs: Any, weights: dict[str, Any]) -> Path:
    constants = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "net", inputs, outputs, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def _value(name: str, shape: Any, dtype: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, dtype, shape)


def _weights(shape: tuple[int, ...]) -> Any:
    return numpy.random.default_rng(0).standard_normal(shape).astype(numpy.float32)
