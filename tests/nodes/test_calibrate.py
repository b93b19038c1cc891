"""Calibration: ranges from samples by every method, and what is said of data that cannot give them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mobuild.data import Data
from mobuild.errors import ConfigError, NodeFailed
from mobuild.node import Built, code_references, decode, encode
from mobuild.nodes.calibrate import Calibrate
from mobuild.nodes.calibrate.histogram import TensorValues
from tests.onnxmodel.models import embedding, model, value

METHODS = {"minmax": {}, "percentile": {}, "entropy": {"bins": 256}}


def network() -> Any:
    """x [batch, length, 8] → MatMul → Relu → MatMul → y."""
    random = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(random.standard_normal(shape).astype("f4"), name)
        for name, shape in (("a", (8, 16)), ("b", (16, 4)))
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "b"], ["y"]),
    ]
    return model(nodes, [value("x", ["batch", "length", 8])], [value("y", ["batch", "length", 4])], weights)


def ragged(count: int = 12) -> list[Any]:
    random = np.random.default_rng(1)
    return [random.standard_normal((3 + i % 3, 8)).astype("f4") for i in range(count)]


def calibrate(folder: Path, arrays: Sequence[Any], net: Any = None, name: str = "x", **options: Any) -> Built:
    """The node on samples of one input, in files; the artifact is `folder/out`."""
    samples = folder / "samples"
    samples.mkdir()
    for i, array in enumerate(arrays):
        np.savez(samples / f"{i:04}.npz", **{name: array})
    onnx.save(net or network(), folder / "m.onnx")
    node = Calibrate(Data(arrays="samples"), **options)
    return node.build({"model": folder / "m.onnx", "data": samples}, folder / "out")


def ranges(folder: Path) -> dict[str, list[float]]:
    found: dict[str, list[float]] = json.loads((folder / "out" / "ranges.json").read_text())["ranges"]
    return found


def hidden(arrays: Sequence[Any]) -> Any:
    weight = numpy_helper.to_array(network().graph.initializer[0])
    return np.concatenate([(array @ weight).reshape(-1) for array in arrays])


@pytest.mark.parametrize("method", METHODS)
def test_ragged_lengths_give_ranges_by_every_method(tmp_path: Path, method: str) -> None:
    arrays = ragged()

    built = calibrate(tmp_path, arrays, method=method, **METHODS[method])

    found = ranges(tmp_path)
    assert list(found) == (["r", "x"] if method == "entropy" else ["h", "r", "x", "y"])
    largest = max(float(np.abs(array).max()) for array in arrays)
    assert 0 < found["x"][1] <= largest * 1.01 and -largest * 1.01 <= found["x"][0] < 0
    assert found["r"][1] > 0
    assert built.measurements["samples"] == 12


def test_minmax_gives_the_least_and_greatest_values(tmp_path: Path) -> None:
    arrays = ragged()

    calibrate(tmp_path, arrays, method="minmax")

    values = hidden(arrays)
    assert ranges(tmp_path)["h"] == pytest.approx([values.min(), values.max()], rel=1e-5)
    assert ranges(tmp_path)["r"][0] == 0


def test_percentile_leaves_out_the_largest_absolute_values(tmp_path: Path) -> None:
    arrays = [each * 50 if i == 3 else each for i, each in enumerate(ragged(200))]

    calibrate(tmp_path, arrays, percentile=98.0)

    exact = np.quantile(np.abs(np.concatenate(arrays)), 0.98)
    step = max(float(np.abs(each).max()) for each in arrays) / 2048
    assert ranges(tmp_path)["x"] == pytest.approx([-exact, exact], abs=2 * step)


def test_entropy_gives_another_range_than_minmax(tmp_path: Path) -> None:
    (tmp_path / "e").mkdir()
    (tmp_path / "m").mkdir()

    calibrate(tmp_path / "e", ragged(60), method="entropy", bins=512)
    calibrate(tmp_path / "m", ragged(60), method="minmax")

    assert ranges(tmp_path / "e")["r"][1] < 0.95 * ranges(tmp_path / "m")["r"][1]


def test_ranges_agree_with_onnx_runtimes_own_percentile_calibrator(tmp_path: Path) -> None:
    from onnxruntime.quantization.calibrate import CalibrationDataReader, CalibrationMethod, create_calibrator

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = [{"x": each[None]} for each in arrays]

        def get_next(self) -> Any:
            return self.left.pop(0) if self.left else None

    arrays = [np.random.default_rng(i).standard_normal((50, 8)).astype("f4") for i in range(40)]
    calibrate(tmp_path, arrays, percentile=99.0)
    options = {"num_bins": 2048, "percentile": 99.0}
    theirs = create_calibrator(
        tmp_path / "m.onnx", None, tmp_path / "a.onnx", CalibrationMethod.Percentile, extra_options=options
    )
    theirs.collect_data(Reader())

    want = {name: [float(limit) for limit in data.range_value] for name, data in theirs.compute_data().items()}

    for name, found in ranges(tmp_path).items():
        assert found == pytest.approx(want[name], abs=0.01 * max(map(abs, want[name]))), name


def test_a_histogram_does_not_depend_on_the_order_of_values() -> None:
    values = (np.random.default_rng(0).standard_normal(3000) * np.logspace(-4, 3, 3000)).astype("f4")
    one, other = TensorValues(128), TensorValues(128)

    for part in np.split(values, 10):
        one.add(part)
    for part in np.split(values[::-1], 3):
        other.add(part)

    assert one.histogram(128)[0].tolist() == other.histogram(128)[0].tolist()
    assert one.histogram(128)[0].sum() == values.size


def test_two_processes_write_the_same_bytes(tmp_path: Path) -> None:
    calibrate(tmp_path, ragged())
    code = (
        "from pathlib import Path; from mobuild.data import Data; from mobuild.nodes.calibrate import Calibrate\n"
        "Calibrate(Data(arrays='samples')).build({'model': Path('m.onnx'), 'data': Path('samples')}, Path('again'))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(Path(__file__).parents[2])}

    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True, capture_output=True)

    for name in ("ranges.json", "manifest.json"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("bad", ["nan", "inf"])
def test_a_value_that_is_not_finite_is_named_by_every_method(tmp_path: Path, method: str, bad: str) -> None:
    arrays = ragged()
    arrays[2][1, 3] = float(bad)

    with pytest.raises(NodeFailed) as error:
        calibrate(tmp_path, arrays, method=method, **METHODS[method])

    assert error.value.message == (
        f"sample 2, input 'x': expected finite numbers, found {bad} at [1, 3] (1 of 40 values are NaN or infinite)"
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("method", METHODS)
def test_an_outlier_is_a_warning_with_the_quantile(tmp_path: Path, method: str) -> None:
    arrays = ragged(120)
    arrays[2][1, 3] = 1e6

    built = calibrate(tmp_path, arrays, method=method, **METHODS[method])

    (warning,) = built.warnings
    assert warning.startswith("input 'x': an outlier of 1e+06 in sample 2, while 99 % of the values lie within ±2.")


def test_fine_data_raises_no_warning(tmp_path: Path) -> None:
    assert not calibrate(tmp_path, ragged(120)).warnings


def test_a_tensor_that_overflows_inside_the_model_is_named(tmp_path: Path) -> None:
    arrays = [each * np.float32(1e38) for each in ragged(4)]

    with pytest.raises(NodeFailed) as error:
        calibrate(tmp_path, arrays)

    assert error.value.message == ("sample 0: tensor 'h' holds NaN or infinite values, though the inputs are finite")


def test_ids_beyond_an_embedding_are_named_with_the_samples_that_hold_them(tmp_path: Path) -> None:
    arrays = [np.full(3, 45 + i, np.int64) for i in range(10)]

    with pytest.raises(NodeFailed) as error:
        calibrate(tmp_path, arrays, embedding(), name="ids")

    assert error.value.message.startswith("samples 0 to 9: ONNX Runtime fails in node 'lookup': ")
    assert error.value.hint == (
        "input 'ids' holds 45 (sample 0) to 54 (sample 9); its range is [0, 50], from 0 up to, but without, 50"
    )


def test_wrong_input_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NodeFailed) as error:
        calibrate(tmp_path, ragged(), name="xs")

    assert str(error.value) == "sample 0: 'xs' is no input of the model. Did you mean 'x'?\n  inputs: x"


@pytest.mark.parametrize("count", [0, 1])
def test_an_empty_or_one_sample_set_is_refused(tmp_path: Path, count: int) -> None:
    with pytest.raises(NodeFailed) as error:
        calibrate(tmp_path, ragged(count))

    assert error.value.message == (
        f"calibration data: expected at least 2 samples, 100 or more for good ranges, found {count}"
    )


def test_duplicate_samples_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NodeFailed) as error:
        calibrate(tmp_path, ragged(2) * 3)

    assert error.value.message == "calibration data: 4 of 6 samples equal an earlier one"


def test_a_tensor_that_is_always_zero_is_a_warning_and_has_an_empty_range(tmp_path: Path) -> None:
    net = network()
    net.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.zeros((8, 16), "f4"), "a"))

    built = calibrate(tmp_path, ragged(120), net)

    assert ranges(tmp_path)["r"] == [0.0, 0.0]
    assert list(built.warnings) == ["zero in every calibration sample: 'h', 'r', 'y'; their ranges say nothing"]


@pytest.mark.parametrize("method", METHODS)
def test_a_tensor_that_is_always_empty_is_a_warning_and_has_an_empty_range(tmp_path: Path, method: str) -> None:
    """What a detector finds, say, on samples that show nothing."""
    none = numpy_helper.from_array(np.array([0], "i8"), "none")
    net = network()
    net.graph.initializer.append(none)
    cut = helper.make_node("Slice", ["r", "none", "none", "none_1"], ["cut"])
    net.graph.initializer.append(numpy_helper.from_array(np.array([1], "i8"), "none_1"))
    net.graph.node.insert(2, cut)
    net.graph.node[3].input[0] = "cut"

    built = calibrate(tmp_path, ragged(120), net, method=method, **METHODS[method])

    assert ranges(tmp_path)["cut"] == [0.0, 0.0]
    assert next(iter(built.warnings)).startswith("empty in every calibration sample: 'cut'")


def test_a_convolution_that_reads_the_input_and_has_a_fixed_batch_is_calibrated(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.ones((2, 3, 3, 3), "f4"), "w")
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    net = model([node], [value("x", [4, 3, 8, 8])], [value("y", [4, 2, 6, 6])], [weight])
    arrays = [np.random.default_rng(i).random((3, 8, 8)).astype("f4") for i in range(6)]

    built = calibrate(tmp_path, arrays, net, method="minmax")

    assert built.measurements["samples"] == 6
    assert ranges(tmp_path)["x"] == pytest.approx([np.min(arrays), np.max(arrays)])


def test_a_model_without_any_of_the_operators_is_refused(tmp_path: Path) -> None:
    net = model([helper.make_node("Relu", ["x"], ["y"])], [value("x", ["n", 8])], [value("y", ["n", 8])])

    with pytest.raises(NodeFailed) as error:
        calibrate(tmp_path, ragged(), net)

    assert error.value.message == (
        "found none of Conv, MatMul, Gemm on floats in the model's main graph: nothing to calibrate"
    )


def test_a_model_with_q_nodes_needs_no_data(tmp_path: Path) -> None:
    scale = [numpy_helper.from_array(np.float32(0.1), "s"), numpy_helper.from_array(np.int8(0), "z")]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    onnx.save(model(nodes, [value("x", ["n", 8])], [value("y", ["n", 8])], scale), tmp_path / "m.onnx")

    built = Calibrate().build({"model": tmp_path / "m.onnx"}, tmp_path / "out")

    assert built.measurements["calibration"] == "1 Q nodes found: nothing to calibrate"
    assert ranges(tmp_path) == {}
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["count"] == 0


def test_no_data_is_refused_before_anything_runs() -> None:
    with pytest.raises(ConfigError) as error:
        Calibrate().check({"model": {"operators": {"MatMul": 2}, "quantize_nodes": 0}})

    assert error.value.message == (
        "calibration needs data: the model has no Q nodes of its own, and ranges are never made up"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "percentil"}, "method: expected one of percentile, minmax, entropy, found 'percentil'. Did you"),
        (
            {"method": "entropy", "bins": 128},
            "bins: with method entropy expected more than 128, found 128, which gives",
        ),
        ({"percentile": 0.9999}, "percentile: expected more than 50, at most 100, found 0.9999"),
        ({"bins": 3}, "bins: expected an even number of at least 2, found 3"),
        ({"operators": "Conv"}, "operators: expected a list such as [Conv, MatMul, Gemm], found 'Conv'"),
    ],
)
def test_options_without_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        Calibrate(**options)

    assert error.value.message.startswith(message)


def test_an_option_that_onnx_runtime_does_not_know_is_named(tmp_path: Path) -> None:
    with pytest.raises(NodeFailed, match=r"raw: ONNX Runtime's HistogramCollector does not take it: .*'colour'"):
        calibrate(tmp_path, ragged(), raw={"colour": 1})


def test_the_node_travels_with_its_data_and_names_its_code() -> None:
    node = Calibrate(Data(jsonl="a.jsonl", transform="a.py:f", limit=3))

    assert decode(encode(node)) == node
    assert code_references(node) == ("a.py:f",)
    assert node.sources == {"data": "a.jsonl"}
    assert Calibrate(Data(iterator="a.py:f")).sources == {}


def test_integers_are_not_calibrated(tmp_path: Path) -> None:
    cast = helper.make_node("Cast", ["ids"], ["f"], to=TensorProto.FLOAT)
    products = [helper.make_node("MatMul", ["f", "f"], ["y"]), helper.make_node("MatMul", ["ids", "ids"], ["k"])]
    net = model(
        [cast, *products],
        [value("ids", ["n", 3, 3], TensorProto.INT32)],
        [value("y", ["n", 3, 3]), value("k", ["n", 3, 3], TensorProto.INT32)],
    )

    calibrate(tmp_path, [np.arange(i, i + 9, dtype=np.int32).reshape(3, 3) for i in range(4)], net, name="ids")

    assert list(ranges(tmp_path)) == ["f", "y"]
