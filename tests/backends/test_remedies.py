"""Refusals that a recipe cannot reach, because mobuild checks before it builds: the builder's own words."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import engine_nets
import pytest
from onnx import TensorProto

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
            "give every dynamic axis its sizes: shapes.batch=[1,8,32]",
        ),
        (
            [{"x": [[8, 16], [4, 16], [16, 16]]}],
            "Invalid optimization profiles for input",
            "give every dynamic axis its sizes in rising order: shapes.batch=[1,8,32]",
        ),
        (
            [{"z": [[1, 16], [4, 16], [16, 16]]}],
            "missing dimensions in profile",
            "give every dynamic axis its sizes in rising order: shapes.batch=[1,8,32]",
        ),
    ],
)
def test_refused_profile_comes_with_a_remedy(tmp_path: Path, profiles: Any, words: str, hint: str) -> None:
    model = engine_nets.linear(tmp_path / "m.onnx")

    message, found = refusal(model, profiles, tmp_path / "out")

    assert words in message
    assert found == hint


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
    assert hint == "the ONNX file is damaged or of another format; fetch or export it again"
