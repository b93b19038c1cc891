"""The model's environment is another than mobuild's: exports run there, with the versions that are there, calibration
and engine under mobuild's own. What is installed comes from pip's index."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.installations import SITE, must_run
from tests.projects import recipe_project, validated_project

PYTHON39 = Path.home() / ".pyenv/versions/3.9.18/bin/python"

RELU = '''\
"""Writes a network of one matrix with the onnx that is here, in words which Python 3.8 takes."""
import sys

import numpy
import onnx
from onnx import helper, numpy_helper

assert (version := onnx.__version__) == "1.16.2", version
weights = numpy_helper.from_array(numpy.random.default_rng(0).normal(size=(8, 4)).astype("float32"), "w")
value = helper.make_tensor_value_info
graph = helper.make_graph(
    [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
    "net",
    [value("x", onnx.TensorProto.FLOAT, ["batch", 8])],
    [value("y", onnx.TensorProto.FLOAT, ["batch", 4])],
    [weights],
)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), sys.argv[1])
print("python %d.%d" % sys.version_info[:2])
'''


def toolchain(artifact: Path, node: str) -> dict[str, str]:
    """The versions in the key of a node, from its sidecar."""
    document: dict[str, Any] = json.loads(next(artifact.parent.glob(f"{node}.*.json")).read_text())
    found: dict[str, str] = document["fingerprint"]["toolchain"]
    return found


def test_an_export_has_the_onnx_of_its_own_environment_and_the_engine_that_of_mobuild(tmp_path: Path) -> None:
    project = validated_project(tmp_path)
    old = project.root / "old"
    must_run(sys.executable, "-m", "venv", "--without-pip", str(old))
    pip = (sys.executable, "-m", "pip", "--python", str(old / "bin/python"))
    must_run(*pip, "install", "--quiet", "--no-deps", "onnx==1.18.0")
    (next((old / "lib").glob("python*/site-packages")) / "others.pth").write_text(f"{SITE}\n")  # torch and the rest

    words = ("target=[onnx,quantized,engine]", "precision=int8", "toolchain.export.python=./old")
    engine = Path(project.mobuild(*words).out.split()[-1])
    built_under_mobuild = project.built("target=[onnx,quantized,engine]", "precision=int8", variant="cpu+int8")

    assert toolchain(engine, "onnx")["onnx"] == "1.18.0"
    assert toolchain(engine, "quantized")["onnx"] == version("onnx") != "1.18.0"
    assert "onnx" in built_under_mobuild


@pytest.mark.skipif(not PYTHON39.exists(), reason=f"no interpreter {PYTHON39}")
def test_a_command_exports_under_an_older_python_with_a_locked_set(tmp_path: Path) -> None:
    project = recipe_project(
        tmp_path,
        "  onnx: {kind: command, cmd: 'python tools/relu.py {out}', out: .onnx}\n"
        "  sanitized: {kind: sanitize}\n"
        "  calibration: {kind: calibrate, data: {npz: calibration.npz}}\n"
        "  quantized: {kind: quantize}\n"
        "  engine: {kind: build_engine}\n"
        "precision: int8\n"
        "shapes: {batch: [1, 4, 8]}\n",
        {
            "tools/relu.py": RELU,
            "export.lock": "numpy==1.26.4\nonnx==1.16.2\nprotobuf==4.25.5\n",
            "conf/toolchain/old.yaml": f"command: {{python: '{PYTHON39}', requirements: export.lock}}\n",
        },
    )
    subprocess.run(
        [sys.executable, "-c", "import numpy as n; n.savez('calibration.npz', x=n.random.rand(120, 8).astype('f'))"],
        cwd=project.root,
        check=True,
    )

    artifacts = project.mobuild("target=[onnx,engine]", "toolchain=old").out.split()
    engine = Path(artifacts[-1])

    assert "python 3.9" in project.mobuild("log", "onnx", "toolchain=old").out
    assert toolchain(engine, "onnx") == {"numpy": "1.26.4", "onnx": "1.16.2", "python": "3.9"}
    assert toolchain(engine, "engine")["onnx"] == version("onnx")
