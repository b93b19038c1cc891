"""What the summary keeps of single nodes for the rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mobuild.onnxmodel.signs import signs
from mobuild.onnxmodel.summary import COMMON, summary
from tests.onnxmodel.models import model, value


def constant(name: str, array: Any) -> Any:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(array)))


def branch(name: str, nodes: list[Any], shape: list[Any] | None = None) -> Any:
    return helper.make_graph(nodes, name, [], [value(name, shape)])


def conditional(condition: str, then: Any, other: Any, output: str = "y") -> Any:
    return helper.make_node("If", [condition], [output], then_branch=then, else_branch=other)


@pytest.mark.parametrize(
    ("node", "found"),
    [
        (helper.make_node("TopK", ["x", "k"], ["y", "i"]), {"topk_large": {"y": "K 4000"}}),
        (
            helper.make_node("Resize", ["x", "", "", "s"], ["y"], mode="linear", antialias=1),
            {"resize_mode": {"y": "antialias 1"}},
        ),
        (
            helper.make_node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2], dilations=[2]),
            {"maxpool_indices": {"y": "output 'i'"}, "pool_dilations": {"y": "dilations [2]"}},
        ),
        (
            helper.make_node("ScatterND", ["x", "i", "x"], ["y"], name="put", reduction="add"),
            {"scatter_reduction": {"put": "reduction add"}},
        ),
        (helper.make_node("ReduceSum", ["x", "a"], ["y"]), {"reduce_axes": {"y": "axes 'a'"}}),
        (helper.make_node("Cast", ["x"], ["y"], to=TensorProto.UINT32), {"cast_type": {"y": "to uint32"}}),
        (helper.make_node("Add", ["u", "u"], ["y"]), {"uint8_compute": {"y": "Add"}}),
        (helper.make_node("Cast", ["u"], ["y"], to=TensorProto.FLOAT), {}),
        (helper.make_node("Cast", ["x"], ["y"], to=TensorProto.UINT8), {}),
        (
            helper.make_node("Cast", ["x"], ["inside"], to=TensorProto.UINT8),
            {"uint8_compute": {"inside": "a Cast to uint8 inside of the model"}},
        ),
        (helper.make_node("Cast", ["k"], ["inside"], to=TensorProto.UINT8), {}),
        (helper.make_node("ReduceSum", ["x", "k"], ["y"]), {}),
    ],
)
def test_a_sign_names_the_node_and_what_it_is_like(node: Any, found: dict[str, Any]) -> None:
    inputs = [value("x", ["n", 4]), value("u", [4], TensorProto.UINT8), value("a", [1], TensorProto.INT64)]

    assert signs(model([constant("k", [4000]), node], inputs, [value("y", None)])) == found


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"value_int": 4000}, {"topk_large": {"y": "K 4000"}}),
        ({"value_ints": [4000]}, {"topk_large": {"y": "K 4000"}}),
        ({"value_ints": [4000, 4000]}, {}),
    ],
)
def test_a_constant_without_a_tensor_is_read_as_well(given: dict[str, Any], expected: dict[str, Any]) -> None:
    nodes = [helper.make_node("Constant", [], ["k"], **given), helper.make_node("TopK", ["x", "k"], ["y", "i"])]

    found = signs(model(nodes, [value("x", ["n", 4])], [value("y", None)]))

    assert found == expected


def test_recurrence_inside_a_branch_is_a_sign_however_deep() -> None:
    inner = conditional("c", branch("a", [helper.make_node("LSTM", ["x", "w", "r"], ["a"])]), branch("b", []), "d")

    found = signs(model([conditional("c", branch("d", [inner]), branch("e", []))], [value("c", [])], []))

    assert found["recurrent_in_if"] == {"a": "inside the If 'd'"}


@pytest.mark.parametrize(
    ("made_of", "sign"),
    [
        ([helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Cast", ["s"], ["c"], to=9)], "if_ranks_shape"),
        ([helper.make_node("Cast", ["x"], ["c"], to=9)], "if_ranks_input"),
        ([constant("c", True)], None),
        (
            [
                helper.make_node("Shape", ["x"], ["s"]),
                helper.make_node("Size", ["s"], ["r"]),
                helper.make_node("Cast", ["r"], ["c"], to=9),
            ],
            None,  # the rank
        ),
    ],
)
def test_branches_of_other_ranks_count_by_when_the_condition_is_known(made_of: list[Any], sign: str | None) -> None:
    one, other = branch("a", [], ["n", 4]), branch("b", [], ["n"])

    found = signs(model([*made_of, conditional("c", one, other)], [value("x", ["n"])], []))

    assert found == ({sign: {"y": "ranks 1 and 2"}} if sign else {})


def test_branches_that_declare_no_rank_have_the_one_that_is_inferred() -> None:
    flat = branch("a", [helper.make_node("ReduceSum", ["x"], ["a"], keepdims=0)])
    same = branch("b", [helper.make_node("Relu", ["x"], ["b"])])
    condition = helper.make_node("Cast", ["x"], ["c"], to=9)

    found = signs(model([condition, conditional("c", flat, same)], [value("x", ["n"])], [value("y", None)]))
    alike = signs(model([condition, conditional("c", same, same)], [value("x", ["n"])], [value("y", None)]))

    assert (found, alike) == ({"if_ranks_input": {"y": "ranks 0 and 1"}}, {})


def test_zero_points_and_biases_are_signs_by_node() -> None:
    zero = numpy_helper.from_array(np.array(3, np.uint8), "z")
    scale = numpy_helper.from_array(np.array(0.1, np.float32), "s")
    quantize = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="head_Q")

    found = signs(model([quantize], [value("x", ["n"])], [], [zero, scale]))

    assert found == {"zero_point": {"head_Q": "has zero point 3, not 0"}}


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (TensorProto.INT8, {}),
        (TensorProto.UINT8, {"quantised_type": {"q": "is of uint8"}}),
        (0, {"quantised_type": {"q": "has no zero point, which means uint8"}}),
    ],
)
def test_a_quantiser_without_a_zero_point_is_of_the_type_that_it_asks_for(kind: int, found: dict[str, Any]) -> None:
    scale = numpy_helper.from_array(np.array(0.1, np.float32), "s")
    asked = {"output_dtype": kind} if kind else {}
    quantize = helper.make_node("QuantizeLinear", ["x", "s"], ["q"], **asked)

    assert signs(model([quantize], [value("x", ["n"])], [], [scale], opset=21)) == found


def test_a_zero_point_that_a_node_makes_is_not_judged() -> None:
    made = [
        helper.make_node("Cast", ["z"], ["zero"], to=TensorProto.INT8),
        helper.make_node("QuantizeLinear", ["x", "s", "zero"], ["q"]),
    ]
    tensors = [numpy_helper.from_array(np.float32(0.1), "s"), numpy_helper.from_array(np.array(0), "z")]

    assert signs(model(made, [value("x", ["n"])], [], tensors)) == {}


def test_a_graph_that_runs_in_a_circle_is_looked_at_once() -> None:
    circle = [helper.make_node("Add", ["a", "b"], ["c"]), helper.make_node("Neg", ["c"], ["a"])]
    one, other = branch("d", [], [1]), branch("e", [], [])

    found = signs(model([*circle, conditional("c", one, other)], [value("b", [])], []))

    assert found == {"if_ranks_input": {"y": "ranks 0 and 1"}}


def test_summary_names_uncommon_operators_and_no_functions_of_the_model(tmp_path: Any) -> None:
    own = helper.make_function("mine", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [])
    nodes = [
        helper.make_node("Twice", ["x"], ["t"], domain="mine"),
        helper.make_node("MyNorm", ["t"], ["y"], domain="acme", name="head.norm"),
        helper.make_node("Det", ["x"], ["z"]),
    ]
    made = model(nodes, [value("x", ["n", 2, 2])], [value("y", None)])
    made.functions.append(own)
    onnx.save(made, tmp_path / "m.onnx")

    assert summary(tmp_path / "m.onnx")["named"] == {"Det": ["z"], "acme::MyNorm": ["head.norm"]}


def test_summary_knows_the_rows_of_looked_up_tables(tmp_path: Any) -> None:
    table = numpy_helper.from_array(np.zeros((50, 8), np.float32), "table")
    nodes = [
        helper.make_node("Cast", ["ids"], ["i"], to=TensorProto.INT64),
        helper.make_node("Gather", ["table", "i"], ["y"]),
    ]
    onnx.save(model(nodes, [value("ids", ["n"], TensorProto.INT32)], [], [table]), tmp_path / "m.onnx")

    assert summary(tmp_path / "m.onnx")["embeddings"] == {"ids": 50}


def test_every_common_operator_is_in_every_tensorrt() -> None:
    from mobuild.facts.operators import operator

    assert {name for name in COMMON if operator(name, "8.5").word not in ("yes", "limited")} == set()


@pytest.mark.parametrize(
    ("operator", "name", "given"),
    [("Cast", "to", 1), ("ScatterND", "reduction", "add"), ("MaxPool", "dilations", [2]), ("Resize", "antialias", 1)],
)
def test_an_attribute_that_the_call_of_a_function_gives_is_no_sign(operator: str, name: str, given: Any) -> None:
    inner = helper.make_node(operator, ["a"], ["b"])
    kind = helper.make_attribute(name, given).type
    inner.attribute.add(name=name, ref_attr_name="wanted", type=kind)
    own = helper.make_function("local", "Own", ["a"], ["b"], [inner], [helper.make_opsetid("", 18)], ["wanted"])
    call = helper.make_node("Own", ["x"], ["y"], domain="local", wanted=given)
    made = model([call], [value("x", ["n", 4])], [value("y", None)])
    made.functions.append(own)

    assert signs(made) == {}


def test_both_names_of_the_domain_of_onnx_are_read() -> None:
    node = helper.make_node("ScatterND", ["x", "i", "x"], ["y"], domain="ai.onnx", reduction="add")

    assert signs(model([node], [value("x", ["n", 4])], [value("y", None)])) == {
        "scatter_reduction": {"y": "reduction add"}
    }
