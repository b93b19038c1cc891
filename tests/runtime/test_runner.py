from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest
from onnx import TensorProto, helper, save_model

import mobuild.runtime
from mobuild.runtime import cuda, plans
from mobuild.runtime.errors import EngineError, RuntimeMissing
from mobuild.runtime.runner import Tensor, open_engine

PACKAGE = Path(mobuild.runtime.__file__).parent


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """y = x + x, x of shape (n, 3)."""
    value = helper.make_tensor_value_info
    inputs, outputs = [value("x", TensorProto.FLOAT, ["n", 3])], [value("y", TensorProto.FLOAT, ["n", 3])]
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "double", inputs, outputs)
    path = tmp_path / "double.onnx"
    save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_engine_tells_its_inputs_and_outputs(model: Path) -> None:
    engine = open_engine(model, "onnxruntime")

    assert engine.inputs == (Tensor("x", "float32", ("n", 3)),)
    assert engine.outputs == (Tensor("y", "float32", ("n", 3)),)


def test_engine_gives_outputs_by_name(model: Path) -> None:
    x = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)

    outputs = open_engine(model, "onnxruntime").run({"x": x})

    assert list(outputs) == ["y"]
    assert (outputs["y"] == 2 * x).all()


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({}, "the engine takes the inputs ['x'], found []"),
        ({"z": numpy.zeros((1, 3), "float32")}, "the engine takes the inputs ['x'], found ['z']"),
        ({"x": numpy.zeros((1, 3))}, "input 'x': expected float32, found float64"),
        ({"x": numpy.zeros((1, 4), "float32")}, "input 'x': expected the shape n×3, found 1×4"),
        ({"x": numpy.zeros(3, "float32")}, "input 'x': expected the shape n×3, found 3"),
    ],
)
def test_feeds_that_do_not_fit_are_refused(model: Path, feeds: dict[str, Any], message: str) -> None:
    engine = open_engine(model, "onnxruntime")

    with pytest.raises(EngineError) as caught:
        engine.run(feeds)

    assert caught.value.message == message


def test_unknown_runtime_is_refused(model: Path) -> None:
    with pytest.raises(EngineError) as caught:
        open_engine(model, "onnx")

    assert (
        str(caught.value)
        == "no runtime is called 'onnx'\n  runtimes: onnxruntime, tensorrt_rtx, tensorrt, tensorrt_lean, torch"
    )


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"there is no engine at '.*/nothing\.plan'"):
        open_engine(tmp_path / "nothing.plan", "tensorrt_rtx")


def test_file_that_is_no_engine_is_refused_in_the_runtimes_words(tmp_path: Path) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(b"no engine")

    with pytest.raises(EngineError, match=r"onnxruntime .* cannot load the model: Load model from"):
        open_engine(path, "onnxruntime")


@pytest.mark.skipif(not cuda.probe()[1], reason="a GPU is here")
def test_plan_without_a_card_says_that_there_is_none(tmp_path: Path) -> None:
    path = tmp_path / "engine.plan"
    path.write_bytes(b"plan")

    with pytest.raises(RuntimeMissing) as caught:
        open_engine(path, "tensorrt_rtx")

    assert caught.value.message == f"TensorRT-RTX cannot run here: {cuda.probe()[1]}"


@pytest.mark.parametrize(("there", "found"), [("a_lib_bindings", "a_lib_bindings"), ("a_lib", "a_lib"), ("", "a_lib")])
def test_bindings_do_where_the_package_before_them_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: str, found: str
) -> None:
    if there:
        (tmp_path / f"{there}.py").write_text("")
        (tmp_path / "a_lib_bindings.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))

    assert plans.package("a_lib") == found


def test_probe_gives_a_capability_or_a_reason() -> None:
    capability, missing = cuda.probe()

    assert bool(capability) != bool(missing)


def test_package_runs_under_the_name_that_it_has_in_images(tmp_path: Path, model: Path) -> None:
    (tmp_path / "mobuild_runtime").symlink_to(PACKAGE)
    code = (
        "import sys, pathlib, mobuild_runtime.runner as r; assert 'numpy' not in sys.modules;"
        "e = r.open_engine(pathlib.Path(sys.argv[1]), 'onnxruntime');"
        "print(e.inputs[0].name, any(m == 'mobuild' or m.startswith('mobuild.') for m in sys.modules))"
    )

    command = [sys.executable, "-c", code, str(model)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)

    assert done.stdout == "x False\n"


@pytest.mark.parametrize("file", sorted(PACKAGE.rglob("*.py")), ids=lambda file: str(file.relative_to(PACKAGE)))
def test_package_imports_itself_only_relatively(file: Path) -> None:
    imports = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom)]

    assert not [node.module for node in imports if not node.level and (node.module or "").startswith("mobuild")]
