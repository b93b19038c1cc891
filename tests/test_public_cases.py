"""Every public fault of exports, simplifiers, quantisers and engines has a test with its id in the docstring."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

IDS = (
    "exp-batch-baked-legacy",
    "exp-control-flow",
    "exp-dup-io-names",
    "exp-external-data",
    "exp-external-links",
    "exp-nondeterministic-bytes",
    "exp-opset-silent",
    "exp-over-2gb",
    "exp-train-mode",
    "exp-unused-input",
    "ort-affinity",
    "ort-ir-opset",
    "ort-silent-cpu",
    "q-nan-calibration",
    "q-zero-point",
    "sim-missing-output-shape",
    "sim-static-batch",
    "trt-batch-const",
    "trt-memory-and-target",
    "trt-ops",
    "trt-profile",
    "trt-version-mismatch",
    "trt11-fp16-gone",
)


@cache
def proven() -> str:
    """The docstrings of all tests."""
    found = []
    for path in Path(__file__).parent.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found.append(ast.get_docstring(node) or "")
    return "\n".join(found)


@pytest.mark.parametrize("name", IDS)
def test_a_public_fault_has_a_test_of_its_kind(name: str) -> None:
    assert re.search(rf"(?<![\w-]){name}(?![\w-])", proven())
