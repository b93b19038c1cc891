"""Real builds of TensorRT-RTX, one fresh process each, with no GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import engine_nets
import pytest
from engine_nets import build
from onnx import TensorProto

from mobuild.backends.tensorrt_rtx import TensorRTRTX
from mobuild.errors import ConfigError
from mobuild.nodes.build_engine import BuildEngine
from mobuild.runtime import cuda

BATCH = {"batch": [1, 4, 8]}


def engine(capability: Any = "8.9", shapes: Any = BATCH, **options: Any) -> BuildEngine:
    return BuildEngine(TensorRTRTX(capability, **options), shapes)


def test_plan_is_built_and_described(tmp_path: Path) -> None:
    model = engine_nets.linear(tmp_path / "m.onnx")

    done = build(engine(), model, tmp_path / "out")

    assert done.error == ""
    assert done.measurements["engine_bytes"] == (tmp_path / "out").stat().st_size > 1000
    assert done.measurements["builder"].startswith("TensorRT-RTX 1.")
    assert done.measurements["target"] == "8.9"
    assert done.measurements["profiles"] == [{"x": "1×16 / 4×16 / 8×16"}]
    assert done.measurements["weight_bytes"] == {"float32": 2048}
    assert "Detected 1 inputs and 1 output network tensors." in done.log


@pytest.mark.skipif(not cuda.probe()[1], reason="a GPU is here")
def test_missing_card_is_said_beside_the_parity(tmp_path: Path) -> None:
    model = engine_nets.linear(tmp_path / "m.onnx")

    done = build(engine(), model, tmp_path / "out")

    assert done.measurements["parity"] == f"not run: {cuda.probe()[1]}"


def test_equal_builds_in_fresh_processes_give_equal_bytes(tmp_path: Path) -> None:
    model = engine_nets.linear(tmp_path / "m.onnx")

    for name in ("one", "two"):
        assert build(engine(), model, tmp_path / name).error == ""

    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_workspace_changes_the_plan(tmp_path: Path) -> None:
    model = engine_nets.convolutions(tmp_path / "m.onnx")

    build(engine(shapes={}, workspace="1GiB"), model, tmp_path / "one")
    build(engine(shapes={}, workspace="2GiB"), model, tmp_path / "two")

    assert (tmp_path / "one").read_bytes() != (tmp_path / "two").read_bytes()


def test_two_profiles_are_built_into_one_plan(tmp_path: Path) -> None:
    model = engine_nets.linear(tmp_path / "m.onnx")

    done = build(engine(shapes=[BATCH, {"batch": 16}]), model, tmp_path / "out")

    assert done.measurements["profiles"] == [{"x": "1×16 / 4×16 / 8×16"}, {"x": "16×16 / 16×16 / 16×16"}]


def test_several_capabilities_are_built_into_one_plan(tmp_path: Path) -> None:
    model = engine_nets.linear(tmp_path / "m.onnx")

    done = build(engine(["8.6", "8.9"]), model, tmp_path / "out")

    assert done.error == ""
    assert done.measurements["target"] == "8.6, 8.9"


def test_weights_in_external_data_are_found(tmp_path: Path) -> None:
    model = engine_nets.linear_external(tmp_path / "model")

    done = build(engine(), model, tmp_path / "out")

    assert done.error == ""


def test_float16_model_is_built_for_turing(tmp_path: Path) -> None:
    model = engine_nets.linear(tmp_path / "m.onnx", TensorProto.FLOAT16)

    done = build(engine("7.5"), model, tmp_path / "out")

    assert done.error == ""


def test_fp32_matrix_product_for_turing_is_refused_with_the_remedy(tmp_path: Path) -> None:
    model = engine_nets.linear(tmp_path / "m.onnx")

    done = build(engine("7.5"), model, tmp_path / "out")

    assert done.error == "NodeFailed"
    assert "built no engine: " in done.message
    assert "for Turing (SM75): FP32 GEMM is not supported" in done.message
    assert done.hint == (
        "Turing has no fp32 matrix product in TensorRT-RTX: build a model of float16 (precision=fp16),\n"
        "or for a card of compute capability 8.0 or newer (hardware=l4)"
    )
    assert not (tmp_path / "out").exists()


def test_unsupported_capability_is_refused_with_the_list(tmp_path: Path) -> None:
    model = engine_nets.linear(tmp_path / "m.onnx")

    done = build(engine("9.0"), model, tmp_path / "out")

    assert done.error == "NodeFailed"
    assert "does not build for compute capability 9.0, only for 7.5, 8.0, 8.6, 8.9, 12.0" in done.message
    assert done.hint == "backend=tensorrt builds for it where TensorRT is installed"


def test_hardware_without_capability_is_refused(tmp_path: Path) -> None:
    model = engine_nets.linear(tmp_path / "m.onnx")

    done = build(engine(""), model, tmp_path / "out")

    assert done.error == "ConfigError"
    assert done.hint == "choose a GPU (hardware=l4), or backend=onnxruntime"


@pytest.mark.parametrize(
    ("net", "options", "words", "hint"),
    [
        ("convolutions", {"workspace": "1MiB"}, "within workspace limit", "workspace=4GiB"),
        ("wide_convolutions", {"workspace": "16MiB"}, "OutOfMemory (Requested size", "workspace=4GiB"),
        ("branches_of_other_rank", {}, "Must have inputs with equal ranks", "backend=onnxruntime"),
        ("determinant", {}, "UNSUPPORTED_NODE", "backend=onnxruntime"),
        (
            "static",
            {"raw": {"STRIP_PLAN": True}},
            "CHECK(status == CUDA_SUCCESS)",
            "need a GPU while building",
        ),
        ("static", {"raw": {"VERSION_COMPATIBLE": True}}, "libnvinfer_lean", "EXCLUDE_LEAN_RUNTIME"),
    ],
)
def test_refusal_comes_in_the_builders_words_with_a_remedy(
    tmp_path: Path, net: str, options: dict[str, Any], words: str, hint: str
) -> None:
    path = tmp_path / "m.onnx"
    model = engine_nets.linear(path, batch=2) if net == "static" else getattr(engine_nets, net)(path)

    done = build(engine(shapes={}, **options), model, tmp_path / "out")

    assert done.error == "NodeFailed"
    assert words in done.message
    assert hint in done.hint


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"builder_optimization_level": 9}, "builder_optimization_level: expected 9, found 5"),
        (
            {"builder_optimization_level": "x"},
            "refuses builder_optimization_level: expected a value of type int, found 'x'",
        ),
        ({"nonsense": 1}, "object has no attribute 'nonsense'"),
        ({"EXCLUDE_LEAN_RUNTIME": True}, "can only be set if kVERSION_COMPATIBLE is set"),
        (
            {"profiling_verbosity": "DETAILD"},
            "expected one of LAYER_NAMES_ONLY, DETAILED, NONE, found 'DETAILD'. Did you mean 'DETAILED'?",
        ),
        ({"hardware_compatibility_level": "AMPERE_PLUS"}, "expected HardwareCompatibilityLevel.AMPERE_PLUS"),
    ],
)
def test_raw_option_that_the_builder_did_not_take_fails(tmp_path: Path, raw: dict[str, Any], message: str) -> None:
    model = engine_nets.linear(tmp_path / "m.onnx")

    done = build(engine(raw=raw), model, tmp_path / "out")

    assert done.error == "NodeFailed"
    assert message in done.message
    assert "cudaError 35" not in done.message


def test_raw_option_reaches_the_builder(tmp_path: Path) -> None:
    model = engine_nets.linear(tmp_path / "m.onnx")

    build(engine(), model, tmp_path / "one")
    done = build(engine(raw={"profiling_verbosity": "DETAILED"}), model, tmp_path / "two")

    assert done.error == ""
    assert (tmp_path / "one").read_bytes() != (tmp_path / "two").read_bytes()


def test_damaged_onnx_names_the_file(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    model.write_bytes(b"no model")

    done = build(engine(), model, tmp_path / "out")

    assert done.error == "NodeFailed"
    assert f"'{model}': expected an ONNX model" in done.message


def test_equal_wishes_are_equal_backends() -> None:
    assert TensorRTRTX("8.9", "1024MiB") == TensorRTRTX(["8.9"], 1 << 30) == TensorRTRTX(8.9, "1GiB")  # type: ignore[arg-type]


def test_malformed_capability_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"compute_capability: expected the form '8.9', found '89'"):
        TensorRTRTX("89")


def test_malformed_workspace_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        TensorRTRTX("8.9", "4GB")

    assert caught.value.message == "workspace: expected a size such as 512MiB or 4GiB, found '4GB'"
