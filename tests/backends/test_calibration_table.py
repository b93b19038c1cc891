"""TensorRT's calibration cache: written as TensorRT writes it, and held against version and graph."""

from __future__ import annotations

from pathlib import Path

import engine_nets
import onnx
import pytest

from mobuild.backends import calibration_table
from mobuild.errors import NodeFailed

VERSION = "10.16.1.11"
HEADER = "TRT-101601-EntropyCalibration2"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return engine_nets.linear(tmp_path / "m.onnx")


def table(model: Path, text: str) -> bytes:
    place = model.with_name("calibration.cache")
    place.write_text(text)
    return calibration_table.for_model(str(place), model, VERSION)


@pytest.mark.parametrize(
    ("version", "number"), [("8.5.1.0", "8501"), ("8.6.1", "8601"), ("10.0.1", "100001"), (VERSION, "101601")]
)
def test_the_header_names_the_version_as_tensorrt_does(version: str, number: str) -> None:
    assert calibration_table.header(version) == f"TRT-{number}-EntropyCalibration2"


def test_a_scale_is_the_largest_value_by_127_in_hexadecimal() -> None:
    made = calibration_table.of_ranges({"y": [0.0, 127.0], "x": [-63.5, 0.01]}, VERSION)

    assert made == f"{HEADER}\nx: 3f000000\ny: 3f800000\n".encode()


def test_a_table_of_the_graph_is_taken_as_it_is(model: Path) -> None:
    text = f"{HEADER}\nx: 3a2bc5d2\nm: 3f800000\n"

    assert table(model, text) == text.encode()


@pytest.mark.parametrize("header", ["TRT-8600-EntropyCalibration2", "TRT-101601-MinMaxCalibration", ""])
def test_another_header_is_refused(model: Path, header: str) -> None:
    with pytest.raises(NodeFailed) as caught:
        table(model, f"{header}\nx: 3a2bc5d2\n")

    assert caught.value.message == f"calibration cache: expected the header '{HEADER}', found {header!r}"


def test_tensors_of_another_graph_are_named(model: Path) -> None:
    rows = "".join(f"t{number}: 3f800000\n" for number in range(7))

    with pytest.raises(NodeFailed) as caught:
        table(model, f"{HEADER}\nx: 3a2bc5d2\n{rows}")

    assert caught.value.message == (
        "calibration cache: expected tensors of the model, found 't0', 't1', 't2', 't3', 't4' and 2 more, "
        "which it does not have"
    )


@pytest.mark.parametrize("row", ["x 1.5", "x: 3a2b", "x: 1.25000000"])
def test_a_line_that_is_none_is_shown(model: Path, row: str) -> None:
    with pytest.raises(NodeFailed, match="expected '<tensor>: <8 hexadecimal digits>', found"):
        table(model, f"{HEADER}\n{row}\n")


def test_an_empty_table_is_refused(model: Path) -> None:
    with pytest.raises(NodeFailed, match="found no tensor at all"):
        table(model, f"{HEADER}\n")


def test_a_quantised_graph_has_no_use_for_a_table(tmp_path: Path) -> None:
    node = onnx.helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])
    value = onnx.helper.make_tensor_value_info
    weights = {"s": engine_nets.numpy.float32(1), "z": engine_nets.numpy.int8(0)}
    path = engine_nets.save(tmp_path / "q.onnx", [node], [value("x", 1, [2])], [value("y", 3, [2])], weights)

    with pytest.raises(NodeFailed, match="a graph with Q/DQ: expected one way to int8, found both"):
        calibration_table.for_model("", path, VERSION)
