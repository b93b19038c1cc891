"""Sizes that a model does not take, as inference of shapes shows, and those of which it shows nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from mobuild.onnxmodel.at_sizes import AtSizes
from mobuild.onnxmodel.summary import of_model
from tests.onnxmodel.models import matmul, model, value


def tensor(name: str, array: Any) -> Any:
    return numpy_helper.from_array(np.asarray(array), name)


def one(operator: str, inputs: list[str], tensors: list[Any], name: str = "", **attributes: Any) -> Any:
    """A model of one node on `x` of [n, 4]."""
    node = helper.make_node(operator, inputs, ["y"], name, **attributes)
    return model([node], [value("x", ["n", 4])], [value("y", None)], tensors)


def refusal(made: Any, **sizes: Any) -> str:
    return AtSizes(made, of_model(made)).refusal(sizes)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (
            one("Concat", ["x", "token"], [tensor("token", np.ones((3, 1), "f4"))], "/cls", axis=1),
            "node '/cls' (Concat)",
        ),
        (one("Add", ["x", "table"], [tensor("table", np.ones((3, 4), "f4"))]), "node 'y' (Add)"),
        (one("MatMul", ["w", "x"], [tensor("w", np.ones((2048, 3), "f4"))], "/big"), "node '/big' (MatMul)"),
        (one("MatMul", ["w", "x"], [tensor("w", np.ones((2, 3), "f4"))], "/mix"), "node '/mix' (MatMul)"),
    ],
)
def test_the_node_that_takes_one_size_alone_is_named(made: Any, words: str) -> None:
    assert refusal(made, n=2).startswith(words)
    assert "expected to have type" not in refusal(made, n=2)


def test_sizes_that_fit_are_taken() -> None:
    fixed = one("Concat", ["x", "token"], [tensor("token", np.ones((3, 1), "f4"))], axis=1)

    assert refusal(fixed, n=3) == ""
    assert refusal(matmul(), n=7) == ""
    assert refusal(matmul(2048), n=7) == ""


def test_axes_that_meet_need_one_size() -> None:
    node = helper.make_node("Add", ["x", "z"], ["y"], "/add")
    made = model([node], [value("x", ["n", 4]), value("z", ["m", 4])], [value("y", None)])

    assert refusal(made, n=2, m=3).startswith("node '/add' (Add)")
    assert refusal(made, n=2, m=2) == refusal(made, n=2, m=1) == ""


def test_weights_in_a_file_that_is_not_read_are_known_by_their_shape() -> None:
    made = one("MatMul", ["w", "x"], [tensor("w", np.ones((2, 3), "f4"))], "/mix")
    made.graph.initializer[0].ClearField("raw_data")
    made.graph.initializer[0].data_location = onnx.TensorProto.EXTERNAL

    assert refusal(made, n=2).startswith("node '/mix' (MatMul)")
    assert refusal(made, n=3) == ""


def test_nothing_is_said_of_a_branch_that_may_not_be_taken() -> None:
    squeeze = helper.make_node("Squeeze", ["x", "zero"], ["s"])
    then = helper.make_graph([squeeze], "then", [], [value("s", None)])
    other = helper.make_graph([helper.make_node("Identity", ["x"], ["i"])], "other", [], [value("i", None)])
    choice = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    ends = [value("x", ["n", 4]), value("c", [], onnx.TensorProto.BOOL)], [value("y", None)]

    assert refusal(model([choice], *ends, [tensor("zero", [0])]), n=2) == ""


def test_nothing_is_said_where_inference_has_something_against_the_dynamic_model() -> None:
    made = one("Concat", ["x", "token"], [tensor("token", np.ones((3, 1), "f4"))], axis=1)
    made.graph.node.append(helper.make_node("MatMul", ["wide", "wide"], ["z"]))
    made.graph.initializer.append(tensor("wide", np.ones((2, 3), "f4")))
    made.graph.output.append(value("z", None))

    assert refusal(made, n=2) == ""


def test_sizes_that_were_declared_by_mistake_do_not_matter() -> None:
    made = one("Relu", ["x"], [])
    made.graph.output[0].CopyFrom(value("y", [1, 4]))
    made.graph.value_info.append(value("y", [1, 4]))

    assert refusal(made, n=2) == ""
