"""Public faults of quantising and calibrating: the `q-` rows of the cases, each as a test of its kind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.onnxmodel.models import model, value
from tests.projects import Finished, Project
from tests.test_check_cases import RTX, checked, codes, judged

# q-zero-point


@pytest.fixture
def files(tmp_path: Path) -> Project:
    project = Project(tmp_path / "project", tmp_path / "cache")
    project.root.mkdir()
    return project


def quantised(kind: type, zero: int, bias: bool = False) -> Any:
    """x → Q → DQ → y, with int32 dequantised beside it where `bias` is set."""
    tensors = [
        numpy_helper.from_array(np.array(0.1, np.float32), "s"),
        numpy_helper.from_array(np.array(zero, kind), "z"),
    ]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="x_Q"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], name="x_DQ"),
    ]
    if bias:
        tensors += [numpy_helper.from_array(np.array([7], np.int32), "b")]
        nodes += [helper.make_node("DequantizeLinear", ["b", "s"], ["c"], name="bias_DQ")]
    nodes += [helper.make_node("Add", ["d", "c" if bias else "d"], ["y"])]
    return model(nodes, [value("x", ["n", 4])], [value("y", ["n", 4])], tensors)


@pytest.mark.parametrize(
    ("made", "expected", "words"),
    [
        (quantised(np.int8, 0), [], []),
        (quantised(np.int8, 3), ["Q1!"], ["nodes 'x_DQ', 'x_Q'", "zero point 3, not 0"]),
        (quantised(np.uint8, 128), ["Q1!"], ["zero point 128, not 0"]),
        (quantised(np.uint16, 0), ["Q1!"], ["is of uint16"]),
        (quantised(np.int8, 0, bias=True), ["Q1!"], ["node 'bias_DQ'", "of int32, a bias"]),
        (
            model(
                [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], name="dynamic")],
                [value("x", ["n", 4])],
                [value("q", ["n", 4], TensorProto.UINT8)],
            ),
            ["R10!"],
            ["node 'dynamic'"],
        ),
    ],
)
def test_quantisation_that_tensorrt_does_not_take(
    tmp_path: Path, made: Any, expected: list[str], words: list[str]
) -> None:
    """q-zero-point: TensorRT#2774, #4698."""
    found, said = judged(made, tmp_path, {"n": 4})

    assert found == expected
    assert [word for word in words if word not in said] == []
    assert judged(made, tmp_path, {"n": 4}, "onnxruntime")[0] == []


def test_quantisation_is_refused_before_anything_is_built(files: Project) -> None:
    done = checked(files, quantised(np.int8, 3), *RTX, "shapes.n=4", "precision=int8")

    assert (done.status, codes(done)) == (1, ["Q1!"])


def by_tool(project: Project, kind: str) -> None:
    """`m.onnx`, a convolution and a product, as ONNX Runtime's own tool quantises it."""
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_dynamic, quantize_static

    random = np.random.default_rng(0)
    shapes = {"a": (4, 3, 3, 3), "bias": (4,), "w": (4, 2), "b": (2,)}
    tensors = [
        numpy_helper.from_array(random.standard_normal(each).astype("f4"), name) for name, each in shapes.items()
    ]
    nodes = [
        helper.make_node("Conv", ["x", "a", "bias"], ["c"], "stem"),
        helper.make_node("Relu", ["c"], ["r"], "act"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flat"),
        helper.make_node("Gemm", ["f", "w", "b"], ["y"], "head"),
    ]
    ends = [value("x", [1, 3, 8, 8])], [value("y", [1, 2])]
    onnx.save(model(nodes, *ends, tensors), project.root / "float.onnx")

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = [{"x": random.random((1, 3, 8, 8)).astype("f4")} for _ in range(4)]

        def get_next(self) -> Any:
            return self.left.pop() if self.left else None

    paths, symmetric = (project.root / "float.onnx", project.root / "m.onnx"), {"ActivationSymmetric": True}
    signed = {"activation_type": QuantType.QInt8, "weight_type": QuantType.QInt8}
    options: dict[str, Any] = {
        "by default": {},
        "asymmetric": signed,
        "with biases": {**signed, "extra_options": {**symmetric, "WeightSymmetric": True}},
        "wide": {"activation_type": QuantType.QUInt16, "weight_type": QuantType.QInt8},
        "fit": {
            **signed,
            "per_channel": True,
            "extra_options": {**symmetric, "WeightSymmetric": True, "QuantizeBias": False},
        },
    }
    if kind == "dynamic":
        quantize_dynamic(*paths)
    else:
        quantize_static(*paths, Reader(), **options[kind])


@pytest.mark.parametrize(
    ("kind", "code", "said"),
    [
        (
            "by default",
            "Q1",
            ["'bias_DequantizeLinear'", "of int32, a bias", "'x_QuantizeLinear'", "has zero point -128"],
        ),
        (
            "asymmetric",
            "Q1",
            ["'bias_DequantizeLinear'", "of int32, a bias", "'x_QuantizeLinear'", "has zero point -128"],
        ),
        ("with biases", "Q1", ["'bias_DequantizeLinear'", "dequantises 'bias_quantized' of int32, a bias"]),
        ("wide", "Q1", ["'x_QuantizeLinear'", "is of uint16"]),
        ("dynamic", "R10", ["'x_QuantizeLinear'", "operator DynamicQuantizeLinear", "operator ConvInteger"]),
    ],
)
def test_what_a_tool_quantises_in_another_form_is_refused_before_anything_is_built(
    files: Project, kind: str, code: str, said: list[str]
) -> None:
    """q-zero-point: its defaults are what TensorRT's parser refuses."""
    by_tool(files, kind)

    done = files.mobuild("check", "model=m.onnx", *RTX, check=False)
    built = files.mobuild("model=m.onnx", *RTX, check=False)

    assert (done.status, set(codes(done))) == (1, {f"{code}!"})
    assert [words for words in said if words not in done.out] == []
    assert (built.status, built.out) == (1, "")
    assert f"{code}: node" in built.err
    assert codes(files.mobuild("check", "model=m.onnx", "hardware=cpu")) == []


def test_the_form_that_tensorrt_takes_raises_nothing_and_builds(files: Project) -> None:
    """q-zero-point: the control."""
    by_tool(files, "fit")

    assert codes(files.mobuild("check", "model=m.onnx", *RTX)) == []
    assert files.mobuild("model=m.onnx", *RTX).out.endswith("engine.plan\n")


# q-nan-calibration

METHODS = ("percentile", "minmax", "entropy")


def calibrated(project: Project, arrays: Sequence[Any], masks: Sequence[Any] | None = None, *words: str) -> Finished:
    """The INT8 graph of a product with samples of two inputs, as files of the project."""
    random = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(random.standard_normal(shape).astype("f4"), name)
        for name, shape in (("a", (8, 16)), ("b", (16, 4)))
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "b"], ["p"]),
        helper.make_node("Mul", ["p", "mask"], ["y"]),
    ]
    ends = [value("x", ["n", "length", 8]), value("mask", ["n", "length", 1])], [value("y", ["n", "length", 4])]
    onnx.save(model(nodes, *ends, weights), project.root / "m.onnx")
    (project.root / "samples").mkdir()
    for i, array in enumerate(arrays):
        mask = masks[i] if masks else np.ones((len(array), 1), "f4")
        np.savez(project.root / "samples" / f"{i:04}.npz", x=array, mask=mask)
    shapes = ("shapes.n=[1,4,8]", "shapes.length=[1,4,8]")
    given = ("nodes.calibration.data.arrays=samples", "nodes.calibration.bins=256", *words)
    return project.mobuild(
        "target=quantized", "model=m.onnx", "hardware=cpu", "precision=int8", *shapes, *given, check=False
    )


def samples(count: int = 120, lengths: Sequence[int] = (4,)) -> list[Any]:
    random = np.random.default_rng(1)
    return [random.standard_normal((lengths[i % len(lengths)], 8)).astype("f4") for i in range(count)]


@pytest.mark.parametrize(
    ("method", "bad", "sample"),
    [("percentile", "nan", 2), ("minmax", "nan", 7), ("minmax", "inf", 0), ("entropy", "-inf", 119)],
)
def test_a_value_that_is_not_finite_is_told_with_its_sample_and_its_input(
    files: Project, method: str, bad: str, sample: int
) -> None:
    """q-nan-calibration: ORT#23749, TensorRT#2628; every method and place is in `nodes/test_calibrate.py`."""
    arrays = samples()
    arrays[sample][1, 3] = float(bad)

    done = calibrated(files, arrays, None, f"nodes.calibration.method={method}")

    assert (done.status, done.out) == (1, "")
    assert f"node 'calibration': sample {sample}, input 'x': expected finite numbers, found {bad} at [1, 3]" in done.err
    assert "mend or leave out the sample" in done.err
    assert "blocked m/cpu+int8" in done.err


def test_the_input_that_is_not_finite_is_the_one_that_is_named(files: Project) -> None:
    """q-nan-calibration: with two inputs, of which the first is fine."""
    masks = [np.ones((4, 1), "f4") for _ in range(120)]
    masks[5][0] = np.nan

    done = calibrated(files, samples(), masks)

    assert done.status == 1
    assert "sample 5, input 'mask': expected finite numbers, found nan at [0, 0]" in done.err


@pytest.mark.parametrize("method", METHODS)
def test_an_outlier_is_told_with_the_quantile_and_goes_on(files: Project, method: str) -> None:
    """q-nan-calibration: TensorRT#2126."""
    arrays = samples()
    arrays[2][1, 3] = 1e6

    done = calibrated(files, arrays, None, f"nodes.calibration.method={method}")

    assert done.status == 0, done.err
    assert "warning: m/cpu+int8" in done.err
    assert "input 'x': an outlier of 1e+06 in sample 2, while 99 % of the values lie within ±2." in done.err


@pytest.mark.parametrize("method", METHODS)
def test_ragged_lengths_are_calibrated_without_a_word(files: Project, method: str) -> None:
    """q-nan-calibration: ORT#18792, and a control."""
    done = calibrated(files, samples(lengths=(3, 4, 5)), None, f"nodes.calibration.method={method}")

    assert done.status == 0, done.err
    assert "warning" not in done.err
