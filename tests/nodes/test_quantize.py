from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from quantizing import CONV_RANGES, convolutions, cosine, of_type, quantize, run, save, write_ranges

from mobuild.errors import ConfigError, NodeFailed
from mobuild.node import decode, encode
from mobuild.nodes.quantize import Quantize
from tests.transformer import ranges, sentences, transformer

_BUILD = """
import json, sys
from pathlib import Path
from mobuild.node import decode
decode(json.loads(sys.argv[1])).build({"model": Path(sys.argv[2]), "calibration": Path(sys.argv[3])}, Path(sys.argv[4]))
"""


def test_scales_are_symmetric_and_biases_stay_float(tmp_path: Path) -> None:
    model = convolutions(tmp_path / "m.onnx")

    built, out = quantize(Quantize("int8"), model, CONV_RANGES)

    constants = {each.name: numpy_helper.to_array(each) for each in onnx.load(out).graph.initializer}
    points = [constants[node.input[2]] for node in of_type(out, "QuantizeLinear", "DequantizeLinear")]
    assert {point.dtype for point in points} == {numpy.dtype("int8")}
    assert not any(point.any() for point in points)
    assert built.measurements["quantize_nodes"] == built.measurements["dequantize_nodes"] == 8


def test_scale_is_the_larger_end_of_the_stored_range(tmp_path: Path) -> None:
    model = convolutions(tmp_path / "m.onnx")

    _, out = quantize(Quantize("int8"), model, {**CONV_RANGES, "x": (-1.0, 2.54)})

    constants = {each.name: numpy_helper.to_array(each) for each in onnx.load(out).graph.initializer}
    scale = next(constants[node.input[1]] for node in of_type(out, "QuantizeLinear") if node.input[0] == "x")
    assert scale == pytest.approx(2.54 / 127, rel=0.01)


def test_weights_are_quantised_by_channel(tmp_path: Path) -> None:
    model = convolutions(tmp_path / "m.onnx")

    _, by_channel = quantize(Quantize("int8"), model, CONV_RANGES)
    _, by_tensor = quantize(Quantize("int8", per_channel=False), model, CONV_RANGES)

    sizes = [
        {each.name: list(each.dims) for each in onnx.load(out).graph.initializer} for out in (by_channel, by_tensor)
    ]
    assert [size["a_scale"] for size in sizes] == [[8], []]


def test_outputs_of_matrix_products_are_left_alone_unless_asked(tmp_path: Path) -> None:
    model = transformer(tmp_path / "m.onnx", layers=1)
    found = ranges(model)

    _, plain = quantize(Quantize("int8"), model, found)
    _, bad = quantize(Quantize("int8", outputs_quantized=True), model, found)

    products = {name for node in of_type(model, "MatMul") for name in node.output}
    assert not products.intersection(node.input[0] for node in of_type(plain, "QuantizeLinear"))
    assert products.issubset(node.input[0] for node in of_type(bad, "QuantizeLinear"))


def test_quantised_transformer_stays_close(tmp_path: Path) -> None:
    model = transformer(tmp_path / "m.onnx")

    built, out = quantize(Quantize("int8"), model, ranges(model))

    assert cosine(run(out, sentences(9)), run(model, sentences(9))) > 0.995
    assert built.measurements["quantised_weights"] > 0.85
    assert built.measurements["float_operators"]["Softmax"] == 2
    assert "MatMul" not in built.measurements["float_operators"]


def test_integers_can_be_stored_instead_of_weights(tmp_path: Path) -> None:
    model = transformer(tmp_path / "m.onnx")
    found = ranges(model)

    _, pairs = quantize(Quantize("int8"), model, found)
    built, integers = quantize(Quantize("int8", weights_stored="int8"), model, found)

    assert integers.stat().st_size < pairs.stat().st_size / 2
    assert built.measurements["quantised_weights"] > 0.85


def test_equal_ranges_give_equal_bytes_in_every_process(tmp_path: Path) -> None:
    model = transformer(tmp_path / "m.onnx")
    words = [json.dumps(encode(Quantize("int8", rest="fp16"))), str(model)]
    words.append(str(write_ranges(tmp_path / "ranges.json", ranges(model))))

    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", _BUILD, *words, str(tmp_path / seed)], env=environment, check=True)

    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_missing_range_names_the_tensor(tmp_path: Path) -> None:
    model = convolutions(tmp_path / "m.onnx")
    found = {name: limits for name, limits in CONV_RANGES.items() if name != "2"}

    with pytest.raises(NodeFailed) as caught:
        quantize(Quantize("int8"), model, found)

    assert caught.value.message == "tensor '2' has no calibrated range (1 of them have none, 5 are known)."
    assert caught.value.hint == "calibrate the same graph that is quantised; both need 'sanitized'"


def test_range_that_is_not_finite_names_the_tensor(tmp_path: Path) -> None:
    model = convolutions(tmp_path / "m.onnx")

    with pytest.raises(NodeFailed) as caught:
        quantize(Quantize("int8"), model, {**CONV_RANGES, "1": (0, float("inf"))})

    assert caught.value.message == "range of tensor '1': expected finite [low, high], found [0, inf]"


def test_excluded_nodes_stay_float(tmp_path: Path) -> None:
    model = convolutions(tmp_path / "m.onnx")

    built, out = quantize(Quantize("int8", exclude=["sec*"]), model, CONV_RANGES)

    dequantised = {node.output[0] for node in of_type(out, "DequantizeLinear")}
    inputs = {node.name: list(node.input) for node in of_type(out, "Conv")}
    assert not dequantised.intersection(inputs["second"])
    assert dequantised.issuperset(inputs["first"][:2])
    assert built.measurements["float_operators"]["Conv"] == 1


def test_excluding_an_unknown_node_says_which_was_meant(tmp_path: Path) -> None:
    model = convolutions(tmp_path / "m.onnx")

    with pytest.raises(NodeFailed) as caught:
        quantize(Quantize("int8", exclude=["secnd"]), model, CONV_RANGES)

    assert caught.value.message == "exclude: 'secnd' matches no node. Did you mean 'second'?"
    assert caught.value.hint == "nodes that are quantised: first, second, last"


def test_everything_inside_a_branch_is_no_silent_success(tmp_path: Path) -> None:
    product = helper.make_node("MatMul", ["x", "w"], ["inner"], name="product")
    branches = [
        helper.make_graph([node], name, [], [helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, [2, 4])])
        for name, node in (("then", product), ("else", helper.make_node("Identity", ["x"], ["same"])))
    ]
    choice = helper.make_node("If", ["yes"], ["y"], name="if", then_branch=branches[0], else_branch=branches[1])
    weights = {"w": numpy.eye(4, dtype=numpy.float32), "yes": numpy.array(True)}
    model = save(tmp_path / "m.onnx", [choice], [("x", [2, 4])], [("y", [2, 4])], weights)

    with pytest.raises(NodeFailed) as caught:
        quantize(Quantize("int8"), model, {"x": (0, 1)})

    assert caught.value.message == (
        "precision int8: nothing was quantised: all 1 nodes of Conv, MatMul, Gemm are inside If, "
        "where the quantiser does not look"
    )


def test_nothing_to_quantise_is_an_error(tmp_path: Path) -> None:
    model = save(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], [("x", [2])], [("y", [2])], {})

    with pytest.raises(NodeFailed, match="nothing was quantised: the graph has no node of Conv, MatMul, Gemm"):
        quantize(Quantize("int8"), model)


def test_model_that_is_quantised_already_is_left_as_it_is(tmp_path: Path) -> None:
    _, quantised = quantize(Quantize("int8"), convolutions(tmp_path / "m.onnx"), CONV_RANGES)

    built, out = quantize(Quantize("int8"), quantised)

    assert built.warnings == ("8 Q nodes found: quantize skipped",)
    assert out.read_bytes() == quantised.read_bytes()


def test_dynamic_quantisation_needs_no_ranges(tmp_path: Path) -> None:
    model = transformer(tmp_path / "m.onnx")
    node = Quantize("int8", dynamic=True)

    built, out = quantize(node, model)

    assert node.unneeded == ("calibration",)
    assert built.measurements["integer_operators"]["MatMulInteger"] == 12
    assert cosine(run(out, sentences(9)), run(model, sentences(9))) > 0.995


def test_dynamic_quantisation_is_refused_where_the_rest_is_half() -> None:
    with pytest.raises(ConfigError) as caught:
        Quantize("int8", rest="fp16", dynamic=True)

    assert caught.value.message == (
        "dynamic: expected rest fp32, found 'fp16': only ONNX Runtime quantises while running"
    )


def test_fp32_is_the_model_itself() -> None:
    node = Quantize("fp32", rest="fp16", exclude=["a"], keep_fp32=["b"])

    assert (node.passes_through, node.unneeded) == ("model", ("calibration",))


def test_only_static_int8_needs_calibration() -> None:
    assert Quantize("int8").unneeded == ()
    assert Quantize("fp16").unneeded == ("calibration",)


def test_what_a_precision_does_not_read_is_not_in_its_key() -> None:
    assert Quantize("fp16", rest="fp16", exclude=["a"], per_channel=False) == Quantize("fp16")
    assert Quantize("int8", keep_fp32=["a"]) == Quantize("int8")
    assert Quantize("int8", rest="fp16", keep_fp32=["a"]) != Quantize("int8", rest="fp16")


def test_node_survives_the_way_to_the_worker() -> None:
    node = Quantize("int8", rest="fp16", exclude=["a"], raw={"DedicatedQDQPair": True})

    assert decode(encode(node)) == node


def test_unknown_precision_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        Quantize("int4")

    assert (
        caught.value.message == "precision: expected one of fp32, fp16, bf16, int8, found 'int4'. Did you mean 'int8'?"
    )
