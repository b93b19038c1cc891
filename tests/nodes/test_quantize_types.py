"""float16 and bfloat16: which nodes take them, and what stays float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import onnx
import pytest
from onnx import TensorProto, helper
from quantizing import convolutions, cosine, of_type, quantize, run, save, types

from mobuild import onnxmodel
from mobuild.errors import NodeFailed
from mobuild.nodes.quantize import Quantize
from tests.projects import Project
from tests.transformer import ranges, sentences, transformer


def test_half_keeps_inputs_and_outputs_and_numbers(tmp_path: Path) -> None:
    model = transformer(tmp_path / "m.onnx")

    built, out = quantize(Quantize("fp16"), model)

    before, after = onnxmodel.summary(model), onnxmodel.summary(out)
    assert (after["inputs"], after["outputs"]) == (before["inputs"], before["outputs"])
    numpy.testing.assert_allclose(run(out, sentences(9)), run(model, sentences(9)), atol=2e-3)
    assert out.stat().st_size < 0.6 * model.stat().st_size
    assert {"ReduceSum": 3, "Softmax": 2, "Sqrt": 1}.items() <= built.measurements["float32_operators"].items()


def test_softmax_computes_in_float32(tmp_path: Path) -> None:
    model = transformer(tmp_path / "m.onnx")

    _, out = quantize(Quantize("fp16"), model)

    found = types(out)
    assert {found[name] for node in of_type(out, "Softmax") for name in node.input} == {TensorProto.FLOAT}
    assert {found[name] for node in of_type(out, "MatMul") for name in node.input} == {TensorProto.FLOAT16}


def test_constants_beyond_half_are_named(tmp_path: Path) -> None:
    model = transformer(tmp_path / "m.onnx", layers=1)

    built, _ = quantize(Quantize("fp16"), model)

    mask, count, length = built.warnings
    assert mask.startswith("node '/mask': its constant -1e+09 (")
    assert mask.endswith("is beyond float16 (±65504); it is clipped to -65504")
    assert count.startswith("node '/count': its constant 1e-09 (")
    assert count.endswith("is 0 in float16; it and '/mean' stay float32")
    assert length.startswith("node '/length': its constant 1e-12 (")


def test_constants_within_half_raise_no_warning(tmp_path: Path) -> None:
    model = transformer(tmp_path / "m.onnx", layers=1, mask=-1e4, epsilon=1e-6)

    built, _ = quantize(Quantize("fp16"), model)

    assert not [each for each in built.warnings if "/mask" in each or "/count" in each]


def test_a_sentence_of_padding_alone_is_no_nan_in_half(tmp_path: Path) -> None:
    model = transformer(tmp_path / "m.onnx", layers=1)
    feeds = sentences(9)
    feeds["attention_mask"][0] = 0

    _, out = quantize(Quantize("fp16"), model)

    numpy.testing.assert_allclose(run(out, feeds), run(model, feeds), atol=2e-3)


def test_norm_of_large_values_is_finite_in_half(tmp_path: Path) -> None:
    """The sum of their squares is 160 000."""
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["squares"]),
        helper.make_node("ReduceMean", ["squares", "last"], ["mean"]),
        helper.make_node("Add", ["mean", "epsilon"], ["above"]),
        helper.make_node("Sqrt", ["above"], ["root"]),
        helper.make_node("Div", ["x", "root"], ["normed"]),
        helper.make_node("MatMul", ["normed", "w"], ["y"]),
    ]
    weights = {"last": numpy.array([-1]), "epsilon": numpy.float32(1e-5), "w": numpy.eye(4, dtype=numpy.float32)}
    model = save(tmp_path / "m.onnx", nodes, [("x", [2, 4])], [("y", [2, 4])], weights)

    _, out = quantize(Quantize("fp16"), model)

    numpy.testing.assert_allclose(run(out, {"x": numpy.full((2, 4), 400, numpy.float32)}), 1, atol=1e-3)


def test_node_with_a_weight_beyond_half_stays_float32(tmp_path: Path) -> None:
    weights = {"w": numpy.full((4, 4), 1e5, numpy.float32), "v": numpy.eye(4, dtype=numpy.float32)}
    nodes = [
        helper.make_node("MatMul", ["x", "v"], ["m"], name="small"),
        helper.make_node("MatMul", ["m", "w"], ["y"], name="big"),
    ]
    model = save(tmp_path / "m.onnx", nodes, [("x", [2, 4])], [("y", [2, 4])], weights)

    built, out = quantize(Quantize("fp16"), model)

    assert built.warnings == ("node 'big': its constant 'w' holds 100000, beyond float16 (±65504); it stays float32",)
    assert run(out, {"x": numpy.ones((2, 4), numpy.float32)}).max() == pytest.approx(4e5)


def test_sizes_are_computed_in_float32(tmp_path: Path) -> None:
    """Half has no 4099."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Cast", ["shape"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["real", "one"], ["scaled"]),
        helper.make_node("Cast", ["scaled"], ["size"], to=TensorProto.INT64),
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Expand", ["r", "size"], ["y"]),
    ]
    model = save(tmp_path / "m.onnx", nodes, [("x", ["n"])], [("y", ["m"])], {"one": numpy.float32([1])})

    _, out = quantize(Quantize("fp16"), model)

    assert run(out, {"x": numpy.ones(4099, numpy.float32)}).shape == (4099,)


GRID = """\
<ir_version: 9, opset_import: ["" : 20]>
net (float[batch, 4, w] x) => (float[batch, 4, w] y)
<int64 axis = {2}, float zero = {0}, float one = {1}, float half = {0.5}, float[1] low = {-1e30}, float[1] none = {0}>
{
  activated = Sigmoid (x)
  shape = Shape (activated)
  size = Gather <axis = 0> (shape, axis)
  number = Cast <to = 1> (size)
  counted = Range (zero, number, one)
  centres = Add (counted, half)
  is_first = Less (centres, one)
  mask = Where (is_first, none, low)
  moved = Sub (activated, centres)
  y = Add (moved, mask)
}
"""


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_coordinates_that_are_made_of_sizes_stay_float32_up_to_the_data(tmp_path: Path, precision: Any) -> None:
    """A mask that is chosen by them goes along with the data: in half its lowest number is clipped, not infinite."""
    model = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(GRID), model)

    _, out = quantize(Quantize(precision), model)

    low = TensorProto.FLOAT16 if precision == "fp16" else TensorProto.BFLOAT16
    found = types(out)
    inputs = {node.op_type: [found[name] for name in node.input] for node in onnx.load(out).graph.node}
    assert inputs["Range"] == [TensorProto.FLOAT] * 3
    assert found["centres"] == TensorProto.FLOAT
    assert inputs["Sub"] == [low, low]
    assert found["mask"] == low


def test_tensorrt_rtx_builds_an_engine_of_a_grid_in_half(tmp_path: Path) -> None:
    pytest.importorskip("tensorrt_rtx")
    project = Project(tmp_path / "project", tmp_path / "cache")
    project.root.mkdir()
    onnx.save(onnx.parser.parse_model(GRID), project.root / "grid.onnx")

    words = ("hardware=l4", "precision=fp16", "shapes.batch=1", "shapes.w=[4,8,64]")
    done = project.mobuild("target=engine", "model=grid.onnx", *words)

    assert Path(project.root, done.out.strip()).stat().st_size


def test_tensors_that_a_branch_reads_stay_as_it_expects_them(tmp_path: Path) -> None:
    one = helper.make_graph([helper.make_node("Identity", ["m"], ["a"])], "one", [], [_value("a", [4, 4])])
    two = helper.make_graph([helper.make_node("Add", ["m", "w"], ["b"])], "two", [], [_value("b", [4, 4])])
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], name="product"),
        helper.make_node("ReduceMax", ["m"], ["top"], keepdims=0),
        helper.make_node("Greater", ["top", "zero"], ["yes"]),
        helper.make_node("If", ["yes"], ["c"], then_branch=one, else_branch=two),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    weights = {"w": numpy.full((4, 4), 0.5, numpy.float32), "zero": numpy.float32(0)}
    model = save(tmp_path / "m.onnx", nodes, [("x", [4, 4])], [("y", [4, 4])], weights)

    _, out = quantize(Quantize("fp16"), model)

    for sign in (1, -1):
        feeds = {"x": sign * numpy.ones((4, 4), numpy.float32)}
        numpy.testing.assert_allclose(run(out, feeds), run(model, feeds), atol=1e-3)


def test_operator_that_onnx_does_not_know_is_left_alone(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], name="product"),
        helper.make_node("Plugin", ["m"], ["y"], name="plugin", domain="our.plugins"),
    ]
    model = onnx.load(
        save(tmp_path / "plain.onnx", nodes[:1], [("x", [2, 4])], [("m", [2, 4])], {"w": numpy.eye(4, dtype="f4")})
    )
    model.graph.node.append(nodes[1])
    model.graph.output[0].name = "y"
    model.opset_import.append(helper.make_opsetid("our.plugins", 1))
    onnx.save(model, tmp_path / "m.onnx")

    built, out = quantize(Quantize("fp16"), tmp_path / "m.onnx")

    assert built.warnings[0].startswith("the model cannot be tried: ONNX Runtime does not load 'out-")
    assert [node.input[0] for node in of_type(out, "Plugin")] == ["m__float32"]


def test_more_operators_can_be_kept_in_float32(tmp_path: Path) -> None:
    model = transformer(tmp_path / "m.onnx", layers=1)

    built, _ = quantize(Quantize("fp16", keep_fp32=["LayerNormalization", "/layer0.d*"]), model)

    kept = built.measurements["float32_operators"]
    assert (kept["LayerNormalization"], kept["MatMul"]) == (3, 1)


def test_keeping_what_is_not_there_says_what_was_meant(tmp_path: Path) -> None:
    model = transformer(tmp_path / "m.onnx", layers=1)

    with pytest.raises(NodeFailed) as caught:
        quantize(Quantize("fp16", keep_fp32=["LayerNorm"]), model)

    assert caught.value.message == (
        "keep_fp32: 'LayerNorm' matches no node and no operator. Did you mean 'LayerNormalization'?"
    )


@pytest.mark.parametrize("opset", [17, 20])
def test_int8_with_a_rest_in_half_runs(tmp_path: Path, opset: int) -> None:
    model = transformer(tmp_path / "m.onnx", opset=opset)

    built, out = quantize(Quantize("int8", rest="fp16"), model, ranges(model))

    assert cosine(run(out, sentences(9)), run(model, sentences(9))) > 0.995
    assert built.measurements["quantize_nodes"] == built.measurements["dequantize_nodes"] == 28


def test_bfloat16_says_that_it_cannot_be_tried_here(tmp_path: Path) -> None:
    model = convolutions(tmp_path / "m.onnx")

    built, out = quantize(Quantize("bf16"), model)

    found = types(out)
    assert found["a"] == found["b"] == found["c"] == TensorProto.BFLOAT16
    assert (found["x"], found["y"]) == (TensorProto.FLOAT, TensorProto.FLOAT)
    assert built.warnings == (
        "ONNX Runtime has no bfloat16 kernels on the CPU: the model can be neither run nor compared here",
    )


def test_precision_that_changes_nothing_is_an_error(tmp_path: Path) -> None:
    model = save(tmp_path / "m.onnx", [helper.make_node("Softmax", ["x"], ["y"])], [("x", [2, 4])], [("y", [2, 4])], {})

    with pytest.raises(NodeFailed, match="precision fp16: no node of the graph can be rewritten to float16"):
        quantize(Quantize("fp16"), model)


def test_weights_beside_the_model_are_lowered(tmp_path: Path) -> None:
    loaded = onnx.load(convolutions(tmp_path / "m.onnx"))
    (tmp_path / "folder").mkdir()
    onnx.save_model(
        loaded,
        tmp_path / "folder" / "model.onnx",
        save_as_external_data=True,
        location="model.onnx.data",
        size_threshold=0,
    )

    _, out = quantize(Quantize("fp16"), tmp_path / "folder")

    feeds = {"x": numpy.random.default_rng(1).standard_normal((2, 3, 8, 8)).astype(numpy.float32)}
    numpy.testing.assert_allclose(run(out, feeds), run(tmp_path / "m.onnx", feeds), atol=0.05)


def _value(name: str, shape: Any) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
