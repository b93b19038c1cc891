"""Public ONNX files: check predicts what TensorRT-RTX makes of them. All: `python -m tests.public_models`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.public_models import FETCHED, INSTALLED, Public, installed, tried

_FEW = ("light_shufflenet.onnx", "logreg_iris.onnx", "sigmoid.onnx")
HERE = [each for each in (*FETCHED, *INSTALLED) if each in FETCHED or each.member.endswith(_FEW)]


@pytest.mark.parametrize("public", [each for each in HERE if installed(each)], ids=lambda each: each.name)
def test_check_predicts_what_the_builder_does(tmp_path: Path, public: Public) -> None:
    pytest.importorskip("tensorrt_rtx")
    file = installed(public)
    assert file

    outcome = tried(public, file, tmp_path)

    assert outcome.predicted, outcome
