from __future__ import annotations

from pathlib import Path
from typing import Any

import engine_nets
import numpy
import onnx
import pytest
from engine_nets import build

from mobuild.backends.onnxruntime import OnnxRuntime
from mobuild.errors import ConfigError, NodeFailed, ToolchainError
from mobuild.nodes.build_engine import BuildEngine
from mobuild.runtime.runner import open_engine


def engine(shapes: Any = (("batch", [1, 4, 8]),), **options: Any) -> BuildEngine:
    return BuildEngine(OnnxRuntime(**options), dict(shapes))


def test_parity_is_measured_at_every_corner_of_every_profile(tmp_path: Path) -> None:
    model = engine_nets.linear(tmp_path / "m.onnx")
    node = BuildEngine(OnnxRuntime(), [{"batch": [1, 4, 8]}, {"batch": 16}])

    built = node.build({"model": model}, tmp_path / "out")

    parity = built.measurements["parity"]
    assert list(parity) == ["0.min", "0.opt", "0.max", "1.min"]
    assert all(each["max_abs"] < 1e-5 for each in parity.values())


def test_engine_is_an_onnx_model_with_the_same_inputs(tmp_path: Path) -> None:
    model = engine_nets.linear(tmp_path / "m.onnx")

    built = engine().build({"model": model}, tmp_path / "out")

    onnx.checker.check_model(str(tmp_path / "out"))
    assert built.onnx["inputs"] == [{"name": "x", "dtype": "float32", "shape": ["batch", 16]}]
    assert built.measurements["target"] == "CPUExecutionProvider"


def test_huge_sizes_are_left_out_and_said_so(tmp_path: Path) -> None:
    model = engine_nets.linear(tmp_path / "m.onnx")
    node = engine({"batch": [1, 2, 1 << 20]})

    built = node.build({"model": model}, tmp_path / "out")

    assert built.measurements["parity"]["0.max"] == "not run: 16777216 input elements, more than 8388608"


def test_equal_builds_in_fresh_processes_give_equal_bytes(tmp_path: Path) -> None:
    model = engine_nets.linear(tmp_path / "m.onnx")

    for name in ("one", "two"):
        assert build(engine(), model, tmp_path / name).error == ""

    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_external_data_gives_a_folder_that_runs_elsewhere(tmp_path: Path) -> None:
    model = engine_nets.linear_external(tmp_path / "model")

    engine().build({"model": model}, tmp_path / "out")
    moved = (tmp_path / "out").rename(tmp_path / "moved")

    assert sorted(file.name for file in moved.iterdir()) == ["model.onnx", "model.onnx.data"]
    outputs = open_engine(moved, "onnxruntime").run({"x": numpy.ones((2, 16), numpy.float32)})
    assert outputs["y"].shape == (2, 32)


@pytest.mark.parametrize(
    ("provider", "library", "hint"),
    [
        ("CUDAExecutionProvider", "libonnxruntime_providers_cuda.so", "pip install onnxruntime-gpu"),
        ("TensorrtExecutionProvider", "libonnxruntime_providers_tensorrt.so", "pip install onnxruntime-gpu"),
        (
            "NvTensorRTRTXExecutionProvider",
            "libonnxruntime_providers_nv_tensorrt_rtx.so",
            "pip install onnxruntime-trt-rtx",
        ),
        ("OpenVINOExecutionProvider", "libonnxruntime_providers_openvino.so", "pip install onnxruntime-openvino"),
    ],
)
def test_provider_that_is_not_here_is_refused_with_its_library(
    tmp_path: Path, provider: str, library: str, hint: str
) -> None:
    model = engine_nets.linear(tmp_path / "m.onnx")

    with pytest.raises(ToolchainError) as caught:
        engine(provider=provider).build({"model": model}, tmp_path / "out")

    assert f"asked for the provider {provider!r}, this build has only" in caught.value.message
    assert "'CPUExecutionProvider'" in caught.value.message
    assert caught.value.message.endswith(f" and no {library}")
    assert caught.value.hint == hint
    assert not (tmp_path / "out").exists()


def test_option_that_the_provider_ignores_is_refused(tmp_path: Path) -> None:
    model = engine_nets.linear(tmp_path / "m.onnx")
    node = engine(provider="AzureExecutionProvider", provider_options={"device_id": 1})

    with pytest.raises(NodeFailed, match="AzureExecutionProvider ignores the option 'device_id'"):
        node.build({"model": model}, tmp_path / "out")


def test_options_of_the_cpu_provider_are_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        engine(provider_options={"device_id": 1})

    assert caught.value.message == "provider_options: CPUExecutionProvider takes none, found device_id"


def test_misspelt_provider_is_refused_with_the_choices(tmp_path: Path) -> None:
    model = engine_nets.linear(tmp_path / "m.onnx")

    with pytest.raises(ToolchainError) as caught:
        engine(provider="CpuExecutionProvider").build({"model": model}, tmp_path / "out")

    assert "asked for the provider 'CpuExecutionProvider'" in caught.value.message
    assert caught.value.hint.startswith("choose one of: ")


def test_missing_provider_is_why_it_does_not_run_here() -> None:
    assert "'CUDAExecutionProvider'" in OnnxRuntime("CUDAExecutionProvider").runs_here()
    assert OnnxRuntime().runs_here() == ""


def test_damaged_onnx_names_the_file(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    model.write_bytes(b"no model")

    with pytest.raises(NodeFailed, match="expected an ONNX model"):
        engine().build({"model": model}, tmp_path / "out")


def test_unknown_operator_is_refused_in_the_builders_words(tmp_path: Path) -> None:
    nodes = [onnx.helper.make_node("Nonsense", ["x"], ["y"])]
    value = onnx.helper.make_tensor_value_info
    inputs, outputs = [value("x", 1, [2])], [value("y", 1, [2])]
    model = engine_nets.save(tmp_path / "m.onnx", nodes, inputs, outputs, {})

    with pytest.raises(NodeFailed, match=r"onnxruntime 1\.\d+\.\d+ cannot load the model: .*Nonsense"):
        engine({}).build({"model": model}, tmp_path / "out")


def test_raw_entries_reach_the_session(tmp_path: Path) -> None:
    model = engine_nets.linear_external(tmp_path / "model")
    raw = {"session.optimized_model_external_initializers_min_size_in_bytes": "100000"}

    OnnxRuntime(raw=raw).build(model / "model.onnx", (), "fp32", tmp_path / "out")

    assert [file.name for file in (tmp_path / "out").iterdir()] == ["model.onnx"]


def test_unknown_level_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        OnnxRuntime(level="extnded")

    assert caught.value.message == (
        "level: expected one of disable, basic, extended, all, found 'extnded'. Did you mean 'extended'?"
    )
