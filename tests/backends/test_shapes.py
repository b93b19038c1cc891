"""Engines of models with several dynamic inputs: profiles, sizes of one input alone, inputs that hold sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import engine_nets
import numpy as np
import pytest
from engine_nets import build
from onnx import TensorProto, helper

from mobuild import onnxmodel
from mobuild.backends.onnxruntime import OnnxRuntime
from mobuild.backends.tensorrt_rtx import TensorRTRTX
from mobuild.errors import NodeFailed
from mobuild.evaluation.runs import open_built
from mobuild.nodes.build_engine import BuildEngine
from mobuild.onnxmodel.summary import summary
from tests.projects import Project

value = helper.make_tensor_value_info


def crossed(path: Path) -> Path:
    """Attention scores: queries (batch, length, 4) against memory (batch, positions, 4)."""
    nodes = [
        helper.make_node("Transpose", ["memory"], ["t"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["queries", "t"], ["y"]),
    ]
    inputs = [
        value("queries", TensorProto.FLOAT, ["batch", "length", 4]),
        value("memory", TensorProto.FLOAT, ["batch", "positions", 4]),
    ]
    return engine_nets.save(path, nodes, inputs, [value("y", TensorProto.FLOAT, ["batch", "length", "positions"])], {})


def square(path: Path) -> Path:
    """A convolution whose height and width bear one name."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"])]
    inputs, outputs = [value("x", TensorProto.FLOAT, ["n", 3, "?", "?"])], [value("y", TensorProto.FLOAT, None)]
    weights = {"w": np.ones((4, 3, 3, 3), np.float32)}
    return engine_nets.save(path, nodes, inputs, outputs, weights)


def expanded(path: Path) -> Path:
    """x (n, 1) made as large as the integer input `size` says."""
    nodes = [helper.make_node("Expand", ["x", "size"], ["e"]), helper.make_node("Relu", ["e"], ["y"])]
    inputs = [value("x", TensorProto.FLOAT, ["n", 1]), value("size", TensorProto.INT64, [2])]
    return engine_nets.save(path, nodes, inputs, [value("y", TensorProto.FLOAT, ["a", "b"])], {})


SHORT_AND_LONG = [
    {"batch": [1, 2, 4], "length": 1, "positions": [8, 16, 32]},
    {"batch": 1, "length": [1, 8, 16], "positions": [8, 16, 32]},
]
SQUARE = {"n": [1, 1, 2], "x_2": 48, "x_3": [48, 96, 192]}
EXPANDED = {"n": [1, 1, 4], "size": [[1, 8], [4, 16], [4, 32]]}


def ort(model: Path, shapes: Any) -> Any:
    return BuildEngine(OnnxRuntime(), shapes).build({"model": model}, model.with_name("out"))


def test_every_profile_is_proven_at_each_of_its_corners(tmp_path: Path) -> None:
    built = ort(crossed(tmp_path / "m.onnx"), SHORT_AND_LONG)

    assert list(built.measurements["parity"]) == ["0.min", "0.opt", "0.max", "1.min", "1.opt", "1.max"]
    assert all(each["max_abs"] < 1e-5 for each in built.measurements["parity"].values())
    assert built.measurements["profiles"][1] == {
        "queries": "1×1×4 / 1×8×4 / 1×16×4",
        "memory": "1×8×4 / 1×16×4 / 1×32×4",
    }


def test_the_engine_takes_what_some_profile_takes_and_nothing_else(tmp_path: Path) -> None:
    model = crossed(tmp_path / "m.onnx")
    ort(model, SHORT_AND_LONG)
    engine = open_built(tmp_path / "out", OnnxRuntime(), summary(model), SHORT_AND_LONG, "engine")
    for sizes in ({"batch": 4, "length": 1, "positions": 9}, {"batch": 1, "length": 9, "positions": 9}):
        engine.run(onnxmodel.feeds(summary(model), sizes))

    with pytest.raises(NodeFailed) as caught:
        engine.run(onnxmodel.feeds(summary(model), {"batch": 2, "length": 9, "positions": 9}))

    assert caught.value.message == "no profile of the engine takes queries 2×9×4, memory 2×9×4"
    assert caught.value.hint.splitlines()[0] == (
        "profiles: 0: queries 1×1×4 to 4×1×4, memory 1×8×4 to 4×32×4; 1: queries 1×1×4 to 1×16×4, "
        "memory 1×8×4 to 1×32×4"
    )


def test_axes_of_one_name_are_proven_at_sizes_of_their_own(tmp_path: Path) -> None:
    built = ort(square(tmp_path / "m.onnx"), SQUARE)

    assert built.measurements["profiles"] == [{"x": "1×3×48×48 / 1×3×48×96 / 2×3×48×192"}]
    assert list(built.measurements["parity"]) == ["0.min", "0.opt", "0.max"]


def test_what_an_integer_input_holds_is_proven_at_each_corner(tmp_path: Path) -> None:
    built = ort(expanded(tmp_path / "m.onnx"), EXPANDED)

    assert list(built.measurements["parity"]) == ["0.min", "0.opt", "0.max"]
    assert built.measurements["profiles"] == [
        {"x": "1×1 / 1×1 / 4×1", "size": "2 / 2 / 2 of 1,8 / 4,16 / 4,32"},
    ]


@pytest.mark.parametrize(
    ("network", "shapes"), [(crossed, SHORT_AND_LONG), (square, SQUARE), (expanded, EXPANDED)], ids=lambda each: ""
)
def test_tensorrt_rtx_builds_for_these_profiles(tmp_path: Path, network: Any, shapes: Any) -> None:
    done = build(BuildEngine(TensorRTRTX("8.9"), shapes), network(tmp_path / "m.onnx"), tmp_path / "out")

    assert done.error == "", done.message
    assert len(done.measurements["profiles"]) == (2 if network is crossed else 1)


def test_axes_of_one_name_have_one_size_unless_their_places_say_more(tmp_path: Path) -> None:
    shapes = {"n": 1, "?": [48, 96, 192]}

    done = build(BuildEngine(TensorRTRTX("8.9"), shapes), square(tmp_path / "m.onnx"), tmp_path / "out")

    assert done.measurements["profiles"] == [{"x": "1×3×48×48 / 1×3×96×96 / 1×3×192×192"}]


def test_sizes_are_said_on_the_command_line(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", tmp_path / "cache")
    project.write("README", "")
    expanded(project.root / "m.onnx")

    words = ("target=engine", "model=m.onnx", "shapes.x_0=[1,1,4]", "shapes.size=[[1,8],[4,16],[4,32]]")
    done = project.mobuild(*words)

    assert project.mobuild(*words).err.count("built") == 0
    assert "engine.onnx" in done.out
