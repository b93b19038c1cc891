"""Refusals that a recipe cannot reach, because mobuild checks before it builds: the builder's own words."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import engine_nets
import pytest
from onnx import TensorProto

from mobuild import blame
from mobuild.engine_errors import runtime_errors
from mobuild.errors import NodeFailed
from mobuild.remedies import REMEDIES, remedy
from mobuild.runtime.errors import EngineError

_CHILD = """
import json, sys
from pathlib import Path
from mobuild.backends.tensorrt_rtx import TensorRTRTX
from mobuild.errors import NodeFailed
try:
    TensorRTRTX(sys.argv[4]).build(Path(sys.argv[1]), json.loads(sys.argv[2]), "fp32", Path(sys.argv[3]))
except NodeFailed as error:
    print("ANSWER" + json.dumps([error.message, error.hint]))
"""


def refusal(model: Path, profiles: Any, out: Path, capability: str = "8.9") -> tuple[str, str]:
    command = [sys.executable, "-c", _CHILD, str(model), json.dumps(profiles), str(out), capability]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    message, hint = json.loads(done.stdout.rpartition("ANSWER")[2])
    return message, hint


@pytest.mark.parametrize(
    ("profiles", "words", "hint"),
    [
        (
            [],
            "no optimization profile has been defined",
            "give every dynamic axis its sizes (shapes.batch=[1,8,32])",
        ),
        (
            [{"x": [[8, 16], [4, 16], [16, 16]]}],
            "Invalid optimization profiles for input",
            "the sizes of an input do not fit the model: "
            "give every dynamic axis its sizes in rising order: shapes.batch=[1,8,32]",
        ),
        (
            [{"z": [[1, 16], [4, 16], [16, 16]]}],
            "missing dimensions in profile",
            "the sizes of an input do not fit the model: "
            "give every dynamic axis its sizes in rising order: shapes.batch=[1,8,32]",
        ),
    ],
)
def test_refused_profile_comes_with_a_remedy(tmp_path: Path, profiles: Any, words: str, hint: str) -> None:
    model = engine_nets.linear(tmp_path / "m.onnx")

    message, found = refusal(model, profiles, tmp_path / "out")

    assert words in message
    assert hint in found


def test_bfloat16_for_turing_comes_with_a_remedy(tmp_path: Path) -> None:
    model = engine_nets.linear(tmp_path / "m.onnx", dtype=TensorProto.BFLOAT16)

    message, hint = refusal(model, [{"x": [[1, 16], [4, 16], [16, 16]]}], tmp_path / "out", "7.5")

    assert "the model contains HW-specific datatypes: b16" in message
    assert hint == (
        "Turing has no bfloat16: precision=fp16, or a card of compute capability 8.0 or newer (hardware=l4)"
    )


def test_damaged_onnx_comes_with_a_remedy(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    model.write_bytes(b"no model")

    message, hint = refusal(model, [], tmp_path / "out")

    assert "cannot read the model: (deserializeOnnxModel): MODEL_DESERIALIZE_FAILED" in message
    assert hint == "the ONNX file is damaged or of another format: fetch or export it again"


# Messages as they were met in the field, by the reference that tells of them: words of the cause, and of the fix.
MET = [
    (
        "yuvraj108c/ComfyUI-Rife",
        "type object 'tensorrt.BuilderFlag' has no attribute 'FP16'",
        "TensorRT 11 has no precision flags",
        "put the types into the graph (precision=fp16 does it), or pin tensorrt<11",
    ),
    (
        "NVIDIA/TensorRT#3923",
        "'IBuilderConfig' object has no attribute 'max_workspace_size'",
        "TensorRT 10 removed it",
        "the limit of the memory pool: workspace=4GiB",
    ),
    (
        "yuvraj108c/ComfyUI-Dwpose",
        "Error Code 1: Serialization (Serialization assertion stdVersionRead == kSERIALIZATION_VERSION failed.Version "
        "tag does not match. Note: Current Version: 237, Serialized Engine Version: 239)",
        "another TensorRT built this engine",
        "build it again where it shall run, or for that version",
    ),
    (
        "onnxruntime#15250",
        "The engine plan file is generated on an incompatible device, expecting compute 7.5 got compute 6.1",
        "the engine is for another GPU",
        "backend.hardware_compatibility=ampere_plus",
    ),
    (
        "NVIDIA/TensorRT#1116",
        "Network has dynamic or shape inputs, but no optimization profile has been defined.",
        "a dynamic axis has no size",
        "shapes.batch=[1,8,32]",
    ),
    (
        "TensorRT-RTX 1.7.1",
        "In node -1: UNSUPPORTED_NODE: Assertion failed: ctx->getOpsetVersion() >= 7: Pre-opset 7 broadcasting is "
        "unsupported in this version of the ONNX parser",
        "older than 7",
        "convert_version(model, 13)",
    ),
    ("NVIDIA/TensorRT#2780", "/bin/bash: trtexec: command not found", "have no trtexec", "libnvinfer-bin"),
    (
        "roboflow/rf-detr#376",
        "IShuffleLayer /Reshape_3: reshape changes volume: Profile kMAX values are not self-consistent",
        "a size is a constant inside the graph (a Reshape",
        "export again with that axis dynamic",
    ),
    (
        "roboflow/rf-detr#376",
        "kOPT values for profile 0 violate shape constraints: IShuffleLayer /Reshape: reshape would change volume",
        "a size is a constant inside the graph (a Reshape",
        "export again with that axis dynamic",
    ),
    (
        "TensorRT-RTX 1.7.1",
        "kOPT values for profile 0 violate shape constraints: /add: dimensions not compatible for elementwise.",
        "sizes of a profile do not go together",
        "the same sizes (shapes)",
    ),
    (
        "NVIDIA/TensorRT#1775",
        "could not find plugin. Plugin not found, are the plugin name, version, and namespace correct?",
        "neither has the operator nor finds a plugin",
        "backend.plugins=[path]",
    ),
    (
        "NVIDIA/TensorRT#4698",
        "Assertion failed: Non-zero zero point is not supported.",
        "quantised asymmetrically, or dynamically",
        "symmetric static int8: give mobuild the float model and precision=int8",
    ),
    (
        "TensorRT-RTX 1.7.1",
        "UNSUPPORTED_NODE: Assertion failed: legalUINT8: TensorRT does not support UINT8 types for inner",
        "uint8 is for inputs and outputs",
        "cast to float or int32",
    ),
    (
        "TensorRT-RTX 1.7.1",
        "UNSUPPORTED_NODE: Assertion failed: ctx->getWeightsContext().convertOnnxWeights(initializer, &weights)",
        "a type that TensorRT lacks",
        "float32, float16, int32, int64 or bool",
    ),
    (
        "NVIDIA/TensorRT#3566",
        "The timing cache will not be used!",
        "of another version or card, or cut off",
        "a new one is begun",
    ),
    (
        "NVIDIA/TensorRT#3566",
        "Detected invalid timing cache, setup a local cache instead",
        "of another version or card, or cut off",
        "a new one is begun",
    ),
    (
        "NVIDIA/TensorRT#3101",
        "Detected finite FP32 values which would overflow in FP16 and converting them to the closest one.",
        "weights lie beyond 65504",
        "keep those tensors in fp32 (nodes.quantized.keep_fp32), or use precision=bf16",
    ),
    (
        "onnxruntime#27353",
        "External data path: '/hub/blobs/ab' (resolved path: '/hub/blobs/ab') escapes model directory: '/hub'",
        "a link that leaves the model's folder",
        "copy the file beside the model, or link the whole folder",
    ),
    (
        "onnxruntime#23602",
        "Unsupported model IR version: 11, max supported IR version: 10",
        "newer than this ONNX Runtime",
        "the IR version may be lowered where the opset allows",
    ),
    (
        "onnxsim#45",
        "Field 'shape' of 'type' is required but missing.",
        "an output of the graph has no shape",
        "run shape inference before the simplifier, or leave that out",
    ),
    (
        "onnxsim#262",
        "The model does not have an ir_version set properly.",
        "larger than 2 GiB",
        "external data (kind export does), and give tools the path",
    ),
    ("onnxsim#262", "EncodeError: Failed to serialize proto", "larger than 2 GiB", "external data"),
    (
        "onnxruntime#11928",
        "ValueError: Quantization parameters are not specified for param 1182. In static mode quantization params",
        "calibration never saw this tensor",
        "run shape inference on the model first",
    ),
    (
        "infinity#330",
        "Gather node. indices element out of data bounds, idx=514 must be within the inclusive range [-514,513]",
        "beyond an embedding or position table",
        "the tokenizer's size, its padding token and the longest sequence",
    ),
    (
        "TRT-8600",
        "Error Code 9: Internal Error (Calibration table does not match calibrator algorithm type.)",
        "wrote the calibration cache",
        "calibrate again",
    ),
    (
        "numpy",
        "Unable to allocate 2.18 PiB for an array with shape (99999999999, 3, 32, 32) and data type float64",
        "less memory",
        "smaller ones: shapes.",
    ),
    (
        "torch",
        "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
        "allocate 400000000000000 bytes. Error code 12 (Cannot allocate memory)",
        "less memory",
        "smaller ones: shapes.",
    ),
]


@pytest.mark.parametrize(("source", "message", "cause", "fix"), MET)
def test_a_message_of_the_field_gets_its_cause_and_remedy(source: str, message: str, cause: str, fix: str) -> None:
    found = next(each for each in REMEDIES if re.search(each.pattern, message))

    assert source in found.reference
    assert cause in found.cause
    assert fix in " ".join(found.fix.split("\n"))
    assert remedy(f"TensorRT 10.16 built no engine: {message}") == found.hint


def test_every_remedy_has_a_cause_a_fix_and_a_reference() -> None:
    for each in REMEDIES:
        assert re.compile(each.pattern)
        assert all((each.cause, each.fix, each.reference)), each


def test_a_message_that_is_not_known_gets_no_remedy() -> None:
    assert remedy("Internal error 77: the moon is full") == ""


def test_a_runtime_error_gets_the_remedy_for_its_words() -> None:
    with pytest.raises(NodeFailed) as caught, runtime_errors():
        raise EngineError("TensorRT 11.4 refuses the plan: Version tag does not match")

    assert caught.value.hint.startswith("another TensorRT built this engine than the one that opens it: ")


def test_an_exception_of_a_tool_gets_the_remedy_for_its_words() -> None:
    error = blame.translate(RuntimeError("Field 'shape' of 'type' is required but missing."), "sanitized")

    assert error.hint.startswith("an output of the graph has no shape: ")
