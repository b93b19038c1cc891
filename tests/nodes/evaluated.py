"""A small classifier in several forms, its data and its metric: what `reference` and `validate` are tried on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from mobuild.backends.onnxruntime import OnnxRuntime
from mobuild.data import Data
from mobuild.nodes.reference import Reference
from mobuild.nodes.validate import Validate

METRIC = '''\
"""Is the first class the right one?"""
import numpy as np


def accuracy(outputs, labels):
    return {"accuracy": outputs["y"].argmax(-1) == labels}


def nothing(outputs, labels):
    return float("nan")


def by_magnitude(outputs, labels):
    return {"big" if abs(outputs["y"]).max() > 1e3 else "small": 1.0}
'''


@dataclass(frozen=True)
class Files:
    """Where everything lies: the folder is the project and the recipe's folder alike."""

    folder: Path

    @property
    def sanitized(self) -> Path:
        return self.folder / "sanitized.onnx"

    def engine(self, model: Path) -> Path:
        out = self.folder / f"engine-{model.name}"
        if not out.exists():
            OnnxRuntime().build(model, (), "fp32", out)
        return out

    def reference(self, **fields: Any) -> Path:
        out = self.folder / "reference"
        node = Reference(**{"data": Data(npz="data.npz"), **fields})
        node.build({"model": self.sanitized, "data": self.folder / "data.npz"}, out)
        return out

    def inputs(self, model: Path, **reference: Any) -> dict[str, Path]:
        made = self.folder / "reference"
        return {
            "model": model,
            "engine": self.engine(model),
            "reference": made if made.exists() else self.reference(**reference),
            "data": self.folder / "data.npz",
        }


def write(folder: Path, count: int = 128) -> Files:
    """The project: `sanitized.onnx`, 128 labelled samples that it mostly gets right, and the metric."""
    files = Files(folder)
    random = np.random.default_rng(0)
    weights = random.normal(size=(8, 4)).astype(np.float32)
    x = random.normal(size=(count, 8)).astype(np.float32)
    labels = (x @ weights + random.normal(size=(count, 4))).argmax(-1)
    np.savez(folder / "data.npz", x=x, label=labels)
    save(files.sanitized, [helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": weights})
    (folder / "metrics.py").write_text(METRIC)
    return files


def quantized(files: Files, scale: float) -> Path:
    """The classifier with Q/DQ on its input; a scale that is too small clips."""
    out = files.folder / f"quantized-{scale}.onnx"
    constants = {**_constants(files.sanitized), "s": np.float32(scale), "z": np.int8(0)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("MatMul", ["d", "w"], ["y"]),
    ]
    save(out, nodes, constants)
    return out


def halved(files: Files, factor: float = 1.0) -> Path:
    """The classifier in float16 between float32 ends; `factor` goes in and out again, and may overflow."""
    out = files.folder / f"half-{factor}.onnx"
    half = np.float16
    weights = _constants(files.sanitized)["w"]
    constants = {"w": weights.astype(half), "f": half(factor), "g": half(1 / factor)}
    nodes = [
        helper.make_node("Cast", ["x"], ["a"], to=TensorProto.FLOAT16),
        helper.make_node("Mul", ["a", "f"], ["b"]),
        helper.make_node("MatMul", ["b", "w"], ["c"]),
        helper.make_node("Mul", ["c", "g"], ["d"]),
        helper.make_node("Cast", ["d"], ["y"], to=TensorProto.FLOAT),
    ]
    save(out, nodes, constants)
    return out


def save(out: Path, nodes: Sequence[Any], constants: Mapping[str, Any], shape: Sequence[Any] = ("batch", 4)) -> None:
    graph = helper.make_graph(
        list(nodes),
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), str(out))


def validate(**fields: Any) -> Validate:
    """A validation on the real device, by the metric `accuracy`."""
    common = {
        "data": Data(npz="data.npz"),
        "metric": "metrics.py:accuracy",
        "backend": OnnxRuntime(),
        "shapes": {"batch": (1, 8, 32)},
    }
    return Validate(**{**common, "device": "real", **fields})


def _constants(model: Path) -> dict[str, Any]:
    return {each.name: numpy_helper.to_array(each) for each in onnx.load(str(model)).graph.initializer}
