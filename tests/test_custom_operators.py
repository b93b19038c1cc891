"""Operators of the user's own: a library that is compiled, keyed, loaded wherever the model runs, and taken along."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.projects import Project, recipe_project

SOURCE = Path(__file__).parent / "native" / "swirl.cc"
NODES = """\
  onnx: {kind: source, uri: net.onnx}
  code: {kind: source, uri: swirl.cc}
  ops: {kind: command, cmd: "c++ -shared -fPIC -O2 {in.code} -o {out}", in: {code: code}, out: .so}
  sanitized: {kind: sanitize}
  calibration: {kind: calibrate, data: {npz: data.npz}}
  quantized: {kind: quantize}
  engine: {kind: build_engine}
  reference: {kind: reference}
  validation: {kind: validate, data: {npz: data.npz}, metric: "metric.py:largest"}
libraries: {ops: ops}
shapes: {batch: [1, 4, 8]}
"""
METRIC = """\
def largest(outputs, labels):
    return {"accuracy": outputs["y"].argmax(-1) == labels}
"""
_WITH_NOTHING_ELSE = """
import sys
from pathlib import Path
import numpy
from mobuild_runtime.runner import open_engine
print(open_engine(Path(sys.argv[1]), "onnxruntime").run({"x": numpy.ones((1, 8), "float32")})["y"].tolist())
"""

needs_compiler = pytest.mark.skipif(not shutil.which("c++"), reason="no C++ compiler is here")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A model with the operator `my.ops::Swirl` before its matrix product, and the operator's source."""
    project = recipe_project(tmp_path, NODES, {"recipes/metric.py": METRIC, "swirl.cc": SOURCE.read_text()})
    random = np.random.default_rng(0)
    weights = random.standard_normal((8, 4)).astype(np.float32)
    x = random.standard_normal((120, 8)).astype(np.float32)
    np.savez(project.root / "data.npz", x=x, label=((x * x + 0.5) @ weights).argmax(-1))
    nodes = [
        helper.make_node("Swirl", ["x"], ["s"], name="turn", domain="my.ops"),
        helper.make_node("MatMul", ["s", "w"], ["y"]),
    ]
    value = helper.make_tensor_value_info
    inputs, outputs = [value("x", TensorProto.FLOAT, ["batch", 8])], [value("y", TensorProto.FLOAT, ["batch", 4])]
    graph = helper.make_graph(nodes, "net", inputs, outputs, [numpy_helper.from_array(weights, "w")])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("my.ops", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), project.root / "net.onnx")
    return project


@needs_compiler
def test_a_model_with_an_operator_of_its_own_is_built_and_validated(project: Project) -> None:
    project.mobuild("target=validation")

    found = json.loads((project.root / "build/small/cpu/validation.json").read_text())
    assert found["metrics"]["accuracy"]["value"] == 1.0
    assert found["tensors"]["y"]["cosine_min"] > 0.999999


@needs_compiler
@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_such_a_model_is_built_in_other_precisions(project: Project, precision: str) -> None:
    project.mobuild("target=validation", f"precision={precision}")

    assert project.states(f"cpu+{precision}", "small")["validation"] == "built"


@needs_compiler
def test_another_library_rebuilds_what_loads_it(project: Project) -> None:
    project.mobuild("target=validation")

    project.edit("swirl.cc", "#define SHIFT 0.5f", "#define SHIFT 0.25f")

    assert project.built("target=validation", recipe="small") == {
        *("ops", "sanitized", "engine", "reference", "validation")
    }


@needs_compiler
def test_a_comment_in_the_library_rebuilds_the_library_alone(project: Project) -> None:
    project.mobuild("target=engine")

    project.edit("swirl.cc", "// ONNX Runtime's wheels", "// The wheels")

    assert project.built("target=engine", recipe="small") == {"ops"}


@needs_compiler
def test_an_engine_takes_its_library_along(project: Project, tmp_path: Path) -> None:
    project.mobuild("target=engine")
    package = tmp_path / "image" / "mobuild_runtime"
    shutil.copytree(Path(__file__).parents[1] / "mobuild" / "runtime", package)
    moved = shutil.move(project.root / "build/small/cpu/engine", package.parent / "engine")
    shutil.rmtree(project.cache)

    command = [sys.executable, "-c", _WITH_NOTHING_ELSE, str(moved)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=package.parent)

    weights = numpy_helper.to_array(onnx.load(project.root / "net.onnx").graph.initializer[0])
    assert np.allclose(json.loads(done.stdout), 1.5 * weights.sum(0), atol=1e-5)


@needs_compiler
def test_the_printed_command_loads_the_library(project: Project) -> None:
    built = project.root / project.mobuild("target=[engine,ops,sanitized]").out.split()[0]

    lines = project.mobuild("command", "engine").out
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    subprocess.run(["sh", "-ec", lines], cwd=project.root, env={"PATH": path}, check=True)

    assert (project.root / "engine.onnx").read_bytes() == (built / "model.onnx").read_bytes()


def test_an_unknown_domain_is_refused_before_anything_is_built(project: Project) -> None:
    done = project.mobuild("check", "target=engine", "libraries.ops=null", check=False)

    assert done.status == 1
    assert "nodes 'turn'" in done.out or "node 'turn'" in done.out
    assert "operator my.ops::Swirl: ONNX Runtime has no domain 'my.ops' of its own" in done.out
    assert "name the node that makes the library with it: libraries: {NAME: NODE}" in done.out


def test_a_build_without_the_library_makes_no_engine(project: Project) -> None:
    done = project.mobuild("target=engine", "libraries.ops=null", check=False)

    assert done.status == 1
    assert "R10: node 'turn': operator my.ops::Swirl: ONNX Runtime has no domain 'my.ops' of its own" in done.err


def test_a_library_that_cannot_be_loaded_is_named(project: Project) -> None:
    project.write("broken.so", "no library")
    words = ("nodes.broken.kind=source", "nodes.broken.uri=broken.so", "libraries.ops=broken")

    done = project.mobuild("target=engine", *words, check=False)

    assert done.status == 1
    assert "cannot load the operators of" in done.err
    assert "export RegisterCustomOps" in done.err


def test_a_library_that_is_no_node_is_refused(project: Project) -> None:
    done = project.mobuild("target=engine", "libraries.ops=opps", check=False)

    assert done.status == 2
    assert "needs 'library_ops' from 'opps', which is no node. Did you mean 'ops'?" in done.err
