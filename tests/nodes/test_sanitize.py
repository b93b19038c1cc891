"""Kind `sanitize`: a better graph or the same one, never a worse one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data

from mobuild import onnxmodel
from mobuild.errors import ConfigError, NodeFailed
from mobuild.nodes.sanitize import Sanitize, tools


def write(file: Path, nodes: list[Any], shape: Any, tensors: list[Any], output: Any, ops: Any = ()) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, output)],
        tensors,
    )
    opsets = [helper.make_opsetid("", 18), *ops]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), file)
    return file


def foldable(file: Path, axis: str | None = "batch") -> Path:
    """x @ (w + w) + an identity: one constant to fold, one node to drop."""
    weight = numpy_helper.from_array(np.arange(16, dtype=np.float32).reshape(4, 4), "w")
    nodes = [
        helper.make_node("Add", ["w", "w"], ["w2"]),
        helper.make_node("MatMul", ["x", "w2"], ["p"]),
        helper.make_node("Identity", ["p"], ["y"]),
    ]
    return write(file, nodes, [axis, 4], [weight], [axis, 4])


def sanitize(model: Path, out: Path, **fields: Any) -> Any:
    return Sanitize(**fields).build({"model": model}, out)


def test_graph_gets_smaller_and_computes_the_same(tmp_path: Path) -> None:
    built = sanitize(foldable(tmp_path / "m.onnx"), tmp_path / "s.onnx")

    assert built.onnx["operators"] == {"MatMul": 1}
    assert built.onnx["dynamic_axes"] == ["batch"]
    assert built.measurements["nodes_before"] == 3
    assert built.measurements["parity_max_abs"] == 0.0
    assert built.warnings == []


def test_same_model_gives_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        sanitize(foldable(tmp_path / name / "m.onnx"), tmp_path / name / "s.onnx")

    assert (tmp_path / "a" / "s.onnx").read_bytes() == (tmp_path / "b" / "s.onnx").read_bytes()


@pytest.mark.parametrize("infer_shapes", [True, False])
def test_output_without_shape_falls_through(tmp_path: Path, infer_shapes: bool) -> None:
    model = write(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], ["n", 4], [], None)

    built = sanitize(model, tmp_path / "s.onnx", infer_shapes=infer_shapes, fold=False)

    assert built.onnx["operators"] == {"Relu": 1}
    if not infer_shapes:
        (warning,) = built.warnings
        assert warning.startswith("onnxsim: failed with ")
        assert warning.endswith(" (output 'y' declares no shape); the graph before it is kept")


def test_operator_that_no_runtime_knows_falls_through(tmp_path: Path) -> None:
    nodes = [helper.make_node("MyNorm", ["x"], ["y"], domain="acme")]
    model = write(tmp_path / "m.onnx", nodes, ["n", 4], [], ["n", 4], [helper.make_opsetid("acme", 1)])

    built = sanitize(model, tmp_path / "s.onnx")

    assert built.onnx["operators"] == {"acme::MyNorm": 1}
    assert built.warnings[0].startswith("results of the tools cannot be compared and are not used: ")
    assert "MyNorm" in built.warnings[0]


def test_wrongly_declared_rank_falls_through(tmp_path: Path) -> None:
    nodes = [helper.make_node("Transpose", ["x"], ["y"])]
    model = write(tmp_path / "m.onnx", nodes, ["n", 4], [], ["n", 4, 1])

    built = sanitize(model, tmp_path / "s.onnx")

    assert built.onnx["operators"] == {"Transpose": 1}


def test_batch_frozen_by_an_override_names_the_axis(tmp_path: Path) -> None:
    model = foldable(tmp_path / "m.onnx")

    with pytest.raises(NodeFailed) as caught:
        sanitize(model, tmp_path / "s.onnx", raw={"onnxsim": {"overwrite_input_shapes": {"x": [1, 4]}}})

    assert caught.value.message == ("onnxsim: axis 'batch' of input 'x' became 1, by the options in raw.onnxsim")


def test_shapes_for_tests_only_leave_the_axis(tmp_path: Path) -> None:
    raw = {"onnxsim": {"test_input_shapes": {"x": [1, 4]}}}

    built = sanitize(foldable(tmp_path / "m.onnx"), tmp_path / "s.onnx", raw=raw)

    assert built.onnx["dynamic_axes"] == ["batch"]


@pytest.mark.parametrize(
    ("worse", "words"),
    [
        ("freeze", "axis 'batch' of input 'x' became 1"),
        ("grow", "the graph went from 2 to 3 nodes"),
        ("change", "output 'y': expected "),
        ("quantize", "the graph went from 0 to 1 Q/DQ nodes"),
        ("crash", "failed with RuntimeError: internal error"),
    ],
)
def test_result_that_is_worse_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worse: str, words: str
) -> None:
    def tool(source: Path, out: Path, options: object) -> None:
        model = onnx.load(source)
        if worse == "crash":
            raise RuntimeError("internal error\nmore of it")
        if worse == "freeze":
            model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
        if worse == "grow":
            model.graph.node.add(op_type="Relu", input=["x"], output=["unused"])
        if worse == "change":
            model.graph.initializer[0].raw_data = np.ones(16, np.float32).tobytes()
        if worse == "quantize":
            model.graph.node[0].op_type = "QuantizeLinear"
        onnx.save(model, out)

    monkeypatch.setitem(tools.TOOLS, "onnxsim", tool)
    built = sanitize(foldable(tmp_path / "m.onnx"), tmp_path / "s.onnx")

    assert [each for each in built.warnings if each.startswith("onnxsim: " + words)], built.warnings
    assert built.onnx["dynamic_axes"] == ["batch"]
    assert built.measurements["parity_max_abs"] == 0.0


def test_unnamed_axis_gets_a_name(tmp_path: Path) -> None:
    built = sanitize(foldable(tmp_path / "m.onnx", axis=None), tmp_path / "s.onnx")

    assert built.onnx["inputs"][0]["shape"] == ["x_0", 4]


def test_ranges_stay_in_the_file(tmp_path: Path) -> None:
    built = sanitize(foldable(tmp_path / "m.onnx"), tmp_path / "s.onnx", ranges={"x": [0.0, 1.0]})

    assert built.onnx["ranges"] == {"x": [0.0, 1.0]}


def test_ranges_of_the_model_survive_the_tools(tmp_path: Path) -> None:
    model = onnx.load(foldable(tmp_path / "m.onnx"))
    helper.set_model_props(model, {"mobuild.range.x": "0,50"})
    onnx.save(model, tmp_path / "m.onnx")

    built = sanitize(tmp_path / "m.onnx", tmp_path / "s.onnx")

    assert built.onnx["operators"] == {"MatMul": 1}
    assert built.onnx["ranges"] == {"x": [0, 50]}


def test_range_of_no_input_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NodeFailed) as caught:
        sanitize(foldable(tmp_path / "m.onnx"), tmp_path / "s.onnx", ranges={"xx": [0, 1]})

    assert caught.value.message == "ranges: 'xx' is no input of the model. Did you mean 'x'?"


def test_wrong_range_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        Sanitize(ranges={"x": 5})

    assert caught.value.message == "ranges: input 'x': range: expected [low, high], two numbers, found 5"


def test_unknown_tool_in_raw_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        Sanitize(raw={"onnxsimp": {}})

    assert caught.value.message == "raw: 'onnxsimp' is no tool of this node. Did you mean 'onnxsim'?"


def test_all_tools_off_still_strips(tmp_path: Path) -> None:
    file = foldable(tmp_path / "m.onnx")
    model = onnx.load(file)
    model.producer_name = "someone"
    onnx.save(model, file)

    built = sanitize(file, tmp_path / "s.onnx", infer_shapes=False, fold=False, simplify=False)

    assert onnx.load(tmp_path / "s.onnx").producer_name == ""
    assert built.onnx["nodes"] == 3


def test_external_data_goes_along_and_the_input_stays(tmp_path: Path) -> None:
    model = onnx.load(foldable(tmp_path / "m.onnx"))
    weight = np.ones((4, 400), np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weight, "big"))
    model.graph.node[1].input[1] = "big"
    for tensor in (model.graph.output[0],):
        tensor.type.tensor_type.shape.dim[1].dim_value = 400
    onnxmodel.save(model, tmp_path / "in", external=True)
    before = (tmp_path / "in" / "model.onnx.data").read_bytes()

    built = sanitize(tmp_path / "in", tmp_path / "out", fold=False, simplify=False)

    assert built.onnx["external_data"]
    assert (tmp_path / "in" / "model.onnx.data").read_bytes() == before
    assert (tmp_path / "out" / "model.onnx.data").read_bytes() == before


def test_where_weights_lie_is_no_size(tmp_path: Path) -> None:
    """A tool's result that differs in the name and the padding of its data alone is as good as what it got."""
    model = onnx.load(foldable(tmp_path / "m.onnx"))
    weight = numpy_helper.from_array(np.ones((4, 400), np.float32), "big")
    model.graph.initializer.append(weight)
    model.graph.node[1].input[1] = "big"
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 400
    (tmp_path / "w").write_bytes(weight.raw_data)
    set_external_data(model.graph.initializer[-1], "w")
    model.graph.initializer[-1].ClearField("raw_data")
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())

    built = sanitize(tmp_path / "m.onnx", tmp_path / "out", fold=False, simplify=False)

    assert built.warnings == []
    assert built.measurements["tools"] == "shape inference"


def test_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"not a model")

    with pytest.raises(NodeFailed, match="expected an ONNX model, found 11 bytes that are none"):
        sanitize(tmp_path / "m.onnx", tmp_path / "s.onnx")
