"""Summary, stripping and feeds of ONNX models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from models import matmul, model, value
from onnx import TensorProto, helper

from mobuild import onnxmodel
from mobuild.errors import ConfigError
from mobuild.onnxmodel.summary import of_model, write_ranges


def branching() -> Any:
    """An `If` with one node in each branch."""

    def branch(name: str, op: str) -> Any:
        return helper.make_graph([helper.make_node(op, ["x"], [name])], name, [], [value(name, ["n"])])

    node = helper.make_node("If", ["go"], ["y"], then_branch=branch("a", "Relu"), else_branch=branch("b", "Neg"))
    inputs = [value("x", ["n"]), value("go", [], TensorProto.BOOL)]
    return model([node], inputs, [value("y", ["n"])])


def test_summary_is_plain_json(tmp_path: Path) -> None:
    onnx.save(matmul(), tmp_path / "m.onnx")

    found = onnxmodel.summary(tmp_path / "m.onnx")

    assert json.loads(json.dumps(found)) == found
    assert found == {
        "inputs": [{"name": "x", "dtype": "float32", "shape": ["n", 64]}],
        "outputs": [{"name": "y", "dtype": "float32", "shape": ["n", 64]}],
        "opsets": {"ai.onnx": 18},
        "ir_version": 10,
        "ir_needed": 8,
        "nodes": 1,
        "operators": {"MatMul": 1},
        "initializer_bytes": 16384,
        "dynamic_axes": ["n"],
        "quantize_nodes": 0,
        "external_data": False,
        "ranges": {},
        "functions": 0,
        "named": {},
        "signs": {},
        "types": {"float32": 16384},
        "embeddings": {},
        "activations": [],
        "size_inputs": [],
    }


def test_summary_reads_no_external_data(tmp_path: Path) -> None:
    onnxmodel.save(matmul(), tmp_path / "m", external=True)
    data = tmp_path / "m" / "model.onnx.data"
    data.rename(tmp_path / "elsewhere")

    found = onnxmodel.summary(tmp_path / "m")

    assert found["external_data"]
    assert found["initializer_bytes"] == 16384


def test_summary_counts_subgraphs() -> None:
    assert of_model(branching())["operators"] == {"If": 1, "Neg": 1, "Relu": 1}


def test_unnamed_axes_get_names() -> None:
    found = of_model(model([], [value("x", [None, "n", 3])], []))

    assert found["inputs"][0]["shape"] == [None, "n", 3]
    assert onnxmodel.axes(found["inputs"][0]) == ("x_0", "n", 3)
    assert found["dynamic_axes"] == ["n", "x_0"]


def test_negative_size_is_an_axis_without_a_name() -> None:
    assert of_model(model([], [value("x", [-1, 3])], []))["inputs"][0]["shape"] == [None, 3]


def test_strip_leaves_meaning_and_our_own_metadata() -> None:
    clean, noisy = branching(), branching()
    noisy.producer_name, noisy.doc_string, noisy.graph.name = "pytorch", "made in /home/me", "net.py"
    noisy.metadata_props.add(key="author", value="me")
    noisy.graph.node[0].doc_string = "/home/me/net.py:3"
    noisy.graph.node[0].metadata_props.add(key="pkg.torch.onnx.stack_trace", value="/home/me/net.py")
    noisy.graph.node[0].attribute[0].g.node[0].doc_string = "/home/me"
    noisy.graph.input[0].metadata_props.add(key="place", value="/home/me")
    write_ranges(noisy, {"x": [0, 5]})
    write_ranges(clean, {"x": [0, 5]})

    onnxmodel.strip(clean)
    onnxmodel.strip(noisy)

    assert noisy.SerializeToString(deterministic=True) == clean.SerializeToString(deterministic=True)
    assert of_model(noisy)["ranges"] == {"x": [0, 5]}


def test_feeds_follow_types_ranges_and_sizes() -> None:
    inputs = [
        value("ids", ["batch", "sequence"], TensorProto.INT64),
        value("mask", ["batch", "sequence"], TensorProto.INT32),
        value("image", ["batch", 3], TensorProto.FLOAT16),
        value("go", [], TensorProto.BOOL),
    ]
    summary = {**of_model(model([], inputs, [])), "ranges": {"ids": [10, 14]}}

    made = onnxmodel.feeds(summary, {"batch": 50, "sequence": 7})

    assert {name: (each.dtype.name, each.shape) for name, each in made.items()} == {
        "ids": ("int64", (50, 7)),
        "mask": ("int32", (50, 7)),
        "image": ("float16", (50, 3)),
        "go": ("bool", ()),
    }
    assert set(np.unique(made["ids"])) == {10, 11, 12, 13}
    assert set(np.unique(made["mask"])) == {0, 1}


def test_feeds_are_the_same_for_the_same_seed() -> None:
    summary = of_model(matmul())

    first, again = (onnxmodel.feeds(summary, {"n": 4}, seed=1)["x"] for _ in range(2))
    other = onnxmodel.feeds(summary, {"n": 4}, seed=2)["x"]

    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_axis_without_size_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        onnxmodel.feeds(of_model(matmul()), {})

    assert caught.value.message == "input 'x': axis 'n' has no size"
