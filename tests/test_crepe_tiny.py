"""The shipped recipe: its network, its axes, and that they go through export and sanitize."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import yaml

from mobuild import usercode
from mobuild.nodes.export import Export
from mobuild.nodes.sanitize import Sanitize

RECIPES = Path(__file__).parents[1] / "recipes"


def test_crepe_tiny_is_exported_and_sanitized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usercode, "folder", RECIPES)
    recipe = yaml.safe_load((RECIPES / "crepe_tiny.yaml").read_text())
    network = usercode.resolve("crepe_tiny.py:CrepeTiny")()
    torch.save(network.state_dict(), tmp_path / "tiny.pth")

    exported = Export(**recipe["nodes"]["onnx"]).build({"weights": tmp_path / "tiny.pth"}, tmp_path / "m.onnx")
    sanitized = Sanitize().build({"model": tmp_path / "m.onnx"}, tmp_path / "s.onnx")

    assert sanitized.warnings == []
    assert sanitized.onnx["nodes"] <= exported.onnx["nodes"] == 29
    assert sanitized.onnx["dynamic_axes"] == ["batch"] == list(recipe["shapes"])
    assert sanitized.onnx["outputs"] == [{"name": "pitch", "dtype": "float32", "shape": ["batch", 360]}]
    assert exported.measurements["parity_max_abs"] < 1e-5
