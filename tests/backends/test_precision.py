"""Precision is what the graph's types are: asked for, found in the graph, and read back from the engine."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import engine_nets
import numpy
import onnx
import pytest
from engine_nets import build
from onnx import TensorProto, helper

from mobuild.backends.onnxruntime import OnnxRuntime
from mobuild.backends.tensorrt_rtx import TensorRTRTX
from mobuild.errors import NodeFailed, Refused
from mobuild.node import Built
from mobuild.nodes.build_engine import BuildEngine
from mobuild.nodes.quantize import Quantize
from tests.onnxmodel import models
from tests.transformer import ranges, transformer

TEXTS = {"batch": [1, 2, 4], "sequence": [4, 8, 16]}
SYMMETRIC = {"ActivationSymmetric": True, "WeightSymmetric": True}
ADVICE = "quantise with zero point 0 and without biases"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A transformer of one layer, with its ranges beside it."""
    model = transformer(tmp_path_factory.mktemp("encoder") / "m.onnx", layers=1)
    (model.parent / "ranges.json").write_text(json.dumps({"schema": 1, "ranges": ranges(model)}))
    return model


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A convolution, a pool and a matrix product, with ranges beside them."""
    path = tmp_path_factory.mktemp("network") / "m.onnx"
    random = numpy.random.default_rng(0)
    shapes = {"a": (16, 4, 3, 3), "b": (16,), "c": (16, 8), "d": (8,)}
    weights = {name: random.standard_normal(shape).astype(numpy.float32) for name, shape in shapes.items()}
    nodes = [
        helper.make_node("Conv", ["x", "a", "b"], ["1"], name="convolution"),
        helper.make_node("Relu", ["1"], ["2"], name="relu"),
        helper.make_node("GlobalAveragePool", ["2"], ["3"], name="pool"),
        helper.make_node("Flatten", ["3"], ["4"], name="flat"),
        helper.make_node("Gemm", ["4", "c", "d"], ["y"], name="product"),
    ]
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4, 16, 16])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 8])]
    engine_nets.save(path, nodes, values, outputs, weights)
    found = {"x": [-4, 4], "1": [-30, 30], "2": [0, 30], "4": [0, 10], "y": [-40, 40]}
    (path.parent / "ranges.json").write_text(json.dumps({"schema": 1, "ranges": found}))
    return path


def quantized(model: Path, out: Path, precision: str, rest: str = "fp32", **options: Any) -> Path:
    inputs = {"model": model, "calibration": model.parent / "ranges.json"}
    Quantize(precision, rest, **options).build(inputs, out)
    return out


def badly_quantized(model: Path, out: Path, **options: Any) -> Path:
    """The model by ONNX Runtime's own tool, as people call it."""
    from onnxruntime.quantization import CalibrationDataReader, quantize_static

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            samples = numpy.random.default_rng(1).random((4, 2, 4, 16, 16)).astype(numpy.float32)
            self._left = iter([{"x": each} for each in samples])

        def get_next(self) -> Any:
            return next(self._left, None)

    quantize_static(model, out, Reader(), **options)
    return out


def rtx(precision: str, shapes: Mapping[str, Any], capability: str = "8.9") -> BuildEngine:
    return BuildEngine(TensorRTRTX(capability), shapes, precision)


# ONNX Runtime


def test_int8_engine_computes_in_integers(tmp_path: Path, network: Path) -> None:
    model = quantized(network, tmp_path / "q.onnx", "int8")

    built = BuildEngine(OnnxRuntime(), {"batch": [1, 4, 8]}, "int8").build({"model": model}, tmp_path / "out")

    assert built.measurements["precision"] == built.measurements["engine_precision"] == ["int8"]
    assert built.measurements["integer_operators"]["QLinearConv"] == 1
    assert built.measurements["engine_weight_bytes"]["int8"] > 16 * 4 * 9
    assert list(built.measurements["parity"]) == ["0.min", "0.opt", "0.max"]


def test_half_engine_holds_half_weights(tmp_path: Path, encoder: Path) -> None:
    model = quantized(encoder, tmp_path / "q.onnx", "fp16")

    built = BuildEngine(OnnxRuntime(), TEXTS, "fp16").build({"model": model}, tmp_path / "out")

    weights = built.measurements["engine_weight_bytes"]
    assert weights["float16"] > 100 * weights["float32"]
    assert built.measurements["engine_precision"] == ["fp16"]


def test_engine_with_wrong_weights_fails_in_int8_too(tmp_path: Path, network: Path) -> None:
    class WrongWeights(OnnxRuntime):
        def build(self, model, profiles, precision, out):  # type: ignore[no-untyped-def]
            loaded = onnx.load(model)
            weights = next(each for each in loaded.graph.initializer if each.name == "c")
            weights.CopyFrom(onnx.numpy_helper.from_array(numpy.zeros((16, 8), numpy.float32), "c"))
            onnx.save(loaded, out)
            return Built()

    model = quantized(network, tmp_path / "q.onnx", "int8")

    with pytest.raises(NodeFailed, match="output 'y' at batch=2: its values differ by"):
        BuildEngine(WrongWeights(), {"batch": 2}, "int8").build({"model": model}, tmp_path / "out")


def test_engine_that_lost_its_precision_fails(tmp_path: Path, network: Path) -> None:
    class Float(OnnxRuntime):
        def build(self, model, profiles, precision, out):  # type: ignore[no-untyped-def]
            return super().build(network, profiles, precision, out)

    model = quantized(network, tmp_path / "q.onnx", "int8")

    with pytest.raises(NodeFailed) as caught:
        BuildEngine(Float(), {"batch": 2}, "int8").build({"model": model}, tmp_path / "out")

    assert caught.value.message == "precision: expected int8 in the engine, found fp32"


@pytest.mark.parametrize(("held", "is_told"), [(0.5, False), (1.0, True), (None, False)])
def test_weights_as_large_as_in_float32_are_told_where_half_was_asked_for(
    tmp_path: Path, held: float | None, is_told: bool
) -> None:
    """trt11-fp16-gone: what the builder's log says of the engine is held against what was asked for."""

    class Logging(OnnxRuntime):
        def build(self, model, profiles, precision, out):  # type: ignore[no-untyped-def]
            super().build(model, profiles, precision, out)
            return Built({} if held is None else {"device_weight_bytes": int(held * (4 << 20))})

    weight = onnx.numpy_helper.from_array(numpy.eye(1024, dtype=numpy.float16), "w")
    product = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
    half = onnx.TensorProto.FLOAT16
    ends = [models.value("x", ["n", 1024], half)], [models.value("y", None, half)]
    onnx.save(models.model([product], *ends, [weight]), tmp_path / "m")

    built = BuildEngine(Logging(), {"n": 2}, "fp16").build({"model": tmp_path / "m"}, tmp_path / "out")

    assert list(built.warnings) == is_told * [
        "precision fp16: the engine holds 4 MiB of weights, and as float32 all weights of the model are 4 MiB: it may "
        "compute in float32"
    ]


@pytest.mark.parametrize("precision", ["fp16", "bf16", "int8"])
def test_graph_of_another_precision_is_not_built(tmp_path: Path, network: Path, precision: str) -> None:
    node = BuildEngine(TensorRTRTX("8.9"), {"batch": 2}, precision)

    with pytest.raises(NodeFailed) as caught:
        node.build({"model": network}, tmp_path / "out")

    assert caught.value.message == f"precision: expected {precision} in the graph, found fp32"
    assert caught.value.hint == (
        "kind quantize makes it: build the engine from 'quantized' (needs: {model: quantized})"
    )
    assert not (tmp_path / "out").exists()


def test_quantised_model_of_the_users_is_built_as_it_is(tmp_path: Path, network: Path) -> None:
    model = badly_quantized(network, tmp_path / "q.onnx")

    built = BuildEngine(OnnxRuntime(), {"batch": 2}).build({"model": model}, tmp_path / "out")

    assert built.measurements["precision"] == ["int8"]


def test_cpu_has_no_bfloat16(tmp_path: Path) -> None:
    with pytest.raises(Refused) as caught:
        BuildEngine(OnnxRuntime(), precision="bf16").build({}, tmp_path / "out")

    assert caught.value.message == "precision bf16: ONNX Runtime has no bfloat16 kernels for CPUs"


# TensorRT-RTX


@pytest.mark.parametrize(
    ("precision", "rest", "capability"),
    [
        ("fp16", "fp32", "8.9"),
        ("bf16", "fp32", "8.9"),
        ("int8", "fp32", "8.9"),
        ("int8", "fp16", "8.9"),
        ("int8", "bf16", "8.9"),
        ("fp16", "fp32", "7.5"),
        ("int8", "fp16", "7.5"),
    ],
)
@pytest.mark.parametrize("net", ["encoder", "network"])
def test_plan_is_built_in_each_precision(
    tmp_path: Path, request: pytest.FixtureRequest, net: str, precision: str, rest: str, capability: str
) -> None:
    model = quantized(request.getfixturevalue(net), tmp_path / "q.onnx", precision, rest)
    shapes = TEXTS if net == "encoder" else {"batch": [1, 4, 8]}

    done = build(rtx(precision, shapes, capability), model, tmp_path / "out")

    assert done.error == "", done.message
    assert precision in done.measurements["precision"]


def test_turing_wants_a_rest_in_half(tmp_path: Path, encoder: Path) -> None:
    model = quantized(encoder, tmp_path / "q.onnx", "int8")

    done = build(rtx("int8", TEXTS, "7.5"), model, tmp_path / "out")

    assert done.error == "NodeFailed"
    assert "Turing (SM75): FP32 GEMM is not supported" in done.message


def test_turing_has_no_bfloat16(tmp_path: Path) -> None:
    with pytest.raises(Refused) as caught:
        BuildEngine(TensorRTRTX(["7.5", "8.9"]), precision="bf16").build({}, tmp_path / "out")

    assert caught.value.message == "precision bf16: compute capability 7.5 has no bfloat16 (it begins with 8.0)"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, r"node '\w+Linear' has zero point -?\d+, not 0"),
        ({"activation_type": "QInt8"}, r"node '\w+Linear' has zero point -?\d+, not 0"),
        ({"activation_type": "QInt8", "extra_options": SYMMETRIC}, r"node '\w+' dequantises '\w+' of int32, a bias"),
        ({"activation_type": "QUInt16"}, r"node '\w+' is of uint16"),
    ],
)
def test_quantisation_that_the_parser_refuses_is_named_before(
    tmp_path: Path, network: Path, options: dict[str, Any], words: str
) -> None:
    """q-zero-point: what ONNX Runtime's tool makes of a float model by default, and by other options."""
    from onnxruntime.quantization import QuantType

    kinds = {"weight_type": QuantType.QInt8, **options}
    if "activation_type" in kinds:
        kinds["activation_type"] = QuantType[kinds["activation_type"]]
    model = badly_quantized(network, tmp_path / "q.onnx", **kinds)

    done = build(rtx("int8", {"batch": 2}), model, tmp_path / "out")

    assert done.error == "NodeFailed"
    assert "takes symmetric int8 alone: node '" in done.message
    assert re.search(words, done.message), done.message
    assert done.hint.startswith(ADVICE)
    assert not (tmp_path / "out").exists()


def test_integer_operators_are_named_before(tmp_path: Path, network: Path) -> None:
    model = quantized(network, tmp_path / "q.onnx", "int8", dynamic=True)

    done = build(rtx("int8", {"batch": 2}), model, tmp_path / "out")

    assert "(DynamicQuantizeLinear) computes in integers" in done.message


def test_symmetric_quantisation_of_another_tool_raises_nothing(tmp_path: Path, network: Path) -> None:
    from onnxruntime.quantization import QuantType

    extra = {**SYMMETRIC, "QuantizeBias": False}
    kinds = {"activation_type": QuantType.QInt8, "weight_type": QuantType.QInt8, "per_channel": True}
    model = badly_quantized(network, tmp_path / "q.onnx", extra_options=extra, **kinds)

    done = build(rtx("int8", {"batch": 2}), model, tmp_path / "out")

    assert done.error == "", done.message


def test_asymmetric_model_is_refused_by_quantize_where_the_rest_is_half(tmp_path: Path, network: Path) -> None:
    model = badly_quantized(network, tmp_path / "q.onnx")

    with pytest.raises(NodeFailed, match="TensorRT takes symmetric int8 alone: node '"):
        Quantize("int8", rest="fp16").build({"model": model}, tmp_path / "out")
