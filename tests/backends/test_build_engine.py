from __future__ import annotations

from pathlib import Path

import engine_nets
import numpy
import onnx
import pytest

from mobuild.backends.onnxruntime import OnnxRuntime
from mobuild.backends.tensorrt import TensorRT
from mobuild.errors import ConfigError, NodeFailed, Refused, ToolchainError
from mobuild.node import Built, decode, encode
from mobuild.nodes.build_engine import BuildEngine


class WrongWeights(OnnxRuntime):
    """A builder that changes the model on its way, as a buggy one does."""

    def build(self, model, profiles, precision, out):  # type: ignore[no-untyped-def]
        loaded = onnx.load(model)
        weights = onnx.numpy_helper.to_array(loaded.graph.initializer[0]) + numpy.float32(0.1)
        loaded.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weights, "w"))
        onnx.save(loaded, out)
        return Built()


def test_engine_with_other_numbers_than_the_model_fails(tmp_path: Path) -> None:
    model = engine_nets.linear(tmp_path / "m.onnx")
    node = BuildEngine(WrongWeights(), {"batch": [2, 4, 8]})

    with pytest.raises(NodeFailed, match=r"output 'y' at batch=2: expected .* largest difference"):
        node.build({"model": model}, tmp_path / "out")


def test_axis_without_size_is_refused_before_building(tmp_path: Path) -> None:
    model = engine_nets.linear(tmp_path / "m.onnx")

    with pytest.raises(Refused, match="input 'x', axis 0: 'batch' has no size in shapes"):
        BuildEngine(OnnxRuntime()).build({"model": model}, tmp_path / "out")

    assert not (tmp_path / "out").exists()


def test_unnamed_axis_is_called_after_its_input_and_place(tmp_path: Path) -> None:
    model = engine_nets.linear(tmp_path / "m.onnx", batch=None)

    built = BuildEngine(OnnxRuntime(), {"x_0": 2}).build({"model": model}, tmp_path / "out")

    assert list(built.measurements["parity"]) == ["0.min"]


def test_static_model_needs_no_shapes(tmp_path: Path) -> None:
    model = engine_nets.linear(tmp_path / "m.onnx", batch=2)

    built = BuildEngine(OnnxRuntime()).build({"model": model}, tmp_path / "out")

    assert built.measurements["profiles"] == []
    assert list(built.measurements["parity"]) == ["0.min"]


def test_linked_external_data_is_built(tmp_path: Path) -> None:
    stored = engine_nets.linear_external(tmp_path / "stored")
    model = tmp_path / "linked"
    model.mkdir()
    for file in stored.iterdir():
        (model / file.name).symlink_to(file)

    built = BuildEngine(OnnxRuntime(), {"batch": 2}).build({"model": model}, tmp_path / "out")

    assert list(built.measurements["parity"]) == ["0.min"]


def test_node_survives_the_way_to_the_worker() -> None:
    node = BuildEngine(OnnxRuntime(), [{"batch": [1, 2, 3]}, {"batch": 8}])

    assert decode(encode(node)) == node


def test_equal_shapes_are_equal_nodes() -> None:
    one, two = BuildEngine(OnnxRuntime(), {"batch": 8}), BuildEngine(OnnxRuntime(), [{"batch": [8, 8, 8]}])

    assert one == two


def test_unknown_precision_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        BuildEngine(OnnxRuntime(), precision="fp8")

    assert caught.value.message == "precision: expected one of fp32, fp16, bf16, int8, found 'fp8'."


def test_missing_tensorrt_says_what_to_install_and_what_builds_here(tmp_path: Path) -> None:
    model = engine_nets.linear(tmp_path / "m.onnx")

    with pytest.raises(ToolchainError) as caught:
        BuildEngine(TensorRT("8.9"), {"batch": 2}).build({"model": model}, tmp_path / "out")

    assert caught.value.message == "backend 'tensorrt': TensorRT is not installed here"
    assert "pip install 'mobuild[tensorrt]'" in caught.value.hint
    assert "backend=tensorrt_rtx builds here, with no GPU" in caught.value.hint


def test_tensorrt_without_its_libraries_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = engine_nets.linear(tmp_path / "m.onnx")
    (tmp_path / "tensorrt.py").write_text("import ctypes\nraise ImportError('libnvinfer.so.11: cannot open')\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    with pytest.raises(ToolchainError) as caught:
        BuildEngine(TensorRT("8.9"), {"batch": 2}).build({"model": model}, tmp_path / "out")

    assert caught.value.message == (
        "backend 'tensorrt': tensorrt is installed, its libraries are not: libnvinfer.so.11: cannot open"
    )


def test_version_as_a_number_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        TensorRT("8.9", version=10.10)  # type: ignore[arg-type]

    assert caught.value.message == (
        "backend.version 10.1 must be quoted: without quotes, 10.10 reads as the number 10.1"
    )
    assert caught.value.hint == ('write backend.version: "10.10"; on a command line backend.version=\'"10.10"\'')
