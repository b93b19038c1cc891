"""Real builds of TensorRT-RTX, one fresh process each, with no GPU."""

from __future__ import annotations

import subprocess
import sys
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
from tests.projects import recipe_project

BATCH = {"batch": [1, 4, 8]}
_NO_CREATORS = """
static void *none[1];
void *getCreators(int *count) { *count = 0; return none; }
void setLoggerFinder(void *finder) {}
"""
_LOADING = """
import sys
import tensorrt_rtx
from mobuild.backends.network_builder import Builder
from mobuild.errors import NodeFailed
try:
    Builder(tensorrt_rtx, "TensorRT-RTX").load_plugins(sys.argv[1:])
except NodeFailed as error:
    print(error)
"""


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


def test_all_nodes_that_the_parser_refuses_are_named_at_once(tmp_path: Path) -> None:
    model = engine_nets.unsupported(tmp_path / "m.onnx")

    done = build(engine(shapes={}), model, tmp_path / "out")

    assert "cannot read the model: node 'd' (Det): UNSUPPORTED_NODE: " in done.message
    assert "; node 'swirl_7' (my.ops::Swirl): INVALID_NODE: " in done.message
    assert "backend.plugins=[path]" in done.hint


def test_the_first_tensorrt_with_an_operator_is_named(tmp_path: Path) -> None:
    done = build(engine(shapes={}), engine_nets.positions(tmp_path / "m.onnx"), tmp_path / "out")

    assert "node 'find' (NonZero): UNSUPPORTED_NODE: " in done.message
    assert done.message.endswith("(TensorRT has NonZero from 8.5 on)")


def test_memory_and_progress_are_read_from_the_log(tmp_path: Path) -> None:
    model = engine_nets.convolutions(tmp_path / "m.onnx")

    done = build(engine(shapes={}), model, tmp_path / "out")

    memory = ("host_persistent_bytes", "scratch_bytes", "activation_bytes", "device_weight_bytes")
    assert all(done.measurements[name] > 0 for name in memory)
    assert done.measurements["device_persistent_bytes"] == 0
    assert "[PROGRESS] Building engine: 1 of 6" in done.log
    assert "[PROGRESS] Building engine: done" in done.log


def test_card_of_the_hardware_is_the_default_and_several_may_be_named(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, "  model: {kind: source, uri: m.onnx}\n")
    words = ("--cfg", "job", "--resolve", "--package", "backend", "hardware=l4", "backend=tensorrt_rtx")

    own = project.mobuild(*words).out
    several = project.mobuild(*words, "backend.compute_capabilities=['8.6','8.9']").out

    assert "compute_capabilities:\n- '8.9'\n" in own
    assert "compute_capabilities:\n- '8.6'\n- '8.9'\n" in several


@pytest.mark.parametrize(
    ("source", "words", "hint"),
    [
        ("", "SymbolAddress for getCreators could not be loaded", "the library exports no TensorRT plugins"),
        (_NO_CREATORS, "No creator returned by getPluginCreators", "the library exports no TensorRT plugins"),
        (None, "Unable to load library", "ldd tells what is missing"),
    ],
)
def test_library_without_plugins_is_refused(tmp_path: Path, source: str | None, words: str, hint: str) -> None:
    library = tmp_path / "plugins.so"
    if source is not None:
        (tmp_path / "plugins.c").write_text(source)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "plugins.c"], check=True)

    done = subprocess.run([sys.executable, "-c", _LOADING, str(library)], capture_output=True, text=True, check=True)

    assert f"cannot load the plugins of '{library}': IPluginRegistry::loadLibrary" in done.stdout
    assert words in done.stdout
    assert hint in done.stdout


def test_plugins_of_other_nodes_are_loaded_before_the_model_is_read(tmp_path: Path) -> None:
    (tmp_path / "swirl.so").write_text("no library")
    model = engine_nets.linear(tmp_path / "m.onnx")

    done = build(engine(), model, tmp_path / "out", {"plugin_swirl": tmp_path / "swirl.so"})

    assert f"cannot load the plugins of '{tmp_path / 'swirl.so'}': IPluginRegistry::loadLibrary" in done.message


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


@pytest.mark.parametrize("word", ["89", "CURRENT", "NONE"])
def test_malformed_capability_is_refused(word: str) -> None:
    with pytest.raises(ConfigError, match=rf"compute_capabilities: expected the form '8.9', found '{word}'") as caught:
        TensorRTRTX(word)

    assert "hardware=auto that of the GPU here" in caught.value.hint


def test_malformed_workspace_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        TensorRTRTX("8.9", "4GB")

    assert caught.value.message == "workspace: expected a size such as 512MiB or 4GiB, found '4GB'"
