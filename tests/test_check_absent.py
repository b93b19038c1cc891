"""`check` tells what is not there: data cut short, a function, files, a builder; nothing is built or run."""

from __future__ import annotations

import os
import re
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from mobuild.definitions import lacks
from tests.onnxmodel.models import model, save_external, value
from tests.projects import Project, toy_project

DEFINING = {
    "a function": "def load(weights): ...",
    "a coroutine": "async def load(): ...",
    "a class": "class load: ...",
    "a value": "load = 1",
    "several values": "first, (load, *rest) = 1, (2, 3)",
    "an annotation": "load: int = 1",
    "an import": "from os import path as load",
    "a module": "import load.inner",
    "a condition": "if True:\n    pass\nelse:\n    def load(): ...",
    "an attempt": "try:\n    from fast import load\nexcept ImportError:\n    load = None",
    "a handler": "try:\n    pass\nexcept ValueError as load:\n    pass",
    "a loop": "for load in (1, 2): pass",
    "a block": "with open('x') as load: pass",
    "a walrus": "print(load := 1)",
    "a pattern": "match [1]:\n    case [*load]: pass",
    "a function that says global": "def make():\n    global load\n    load = 1\nmake()",
    "a star": "from other import *",
    "its dictionary": "globals()['lo' + 'ad'] = 1",
    "setattr": "import sys\nsetattr(sys.modules[__name__], 'load', 1)",
    "a module's own __getattr__": "def __getattr__(name): return 1",
    "no syntax of this Python": "def load(:",
}
NOT_DEFINING = {
    "another name": "def lode(weights): ...",
    "a method": "class Net:\n    def load(self): ...",
    "a local": "def make():\n    load = 1",
    "a use": "print(load)",
    "a comprehension": "pass",
    "an argument": "def make(load): ...",
}


@pytest.mark.parametrize("text", DEFINING.values(), ids=DEFINING)
def test_what_a_file_may_define_is_not_missed(tmp_path: Path, text: str) -> None:
    (tmp_path / "net.py").write_text(text)

    assert lacks("net.py:load", tmp_path, tmp_path) == ("", "")
    assert lacks("net:load.method", tmp_path, tmp_path) == ("", "")


@pytest.mark.parametrize("text", NOT_DEFINING.values(), ids=NOT_DEFINING)
def test_what_a_file_surely_lacks_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "net.py").write_text(text)

    message, hint = lacks("net.py:load", tmp_path, tmp_path)

    assert message.startswith(f"user code 'net.py:load': {tmp_path}/net.py has no attribute 'load'.")
    assert hint.startswith("it has: ")


def test_a_misspelt_function_is_told_without_an_import(tmp_path: Path) -> None:
    project = toy_project(tmp_path)
    project.write("recipes/toy.py", "raise SystemExit('imported')\ndef load(weights): ...\n")

    done = project.mobuild("check", "nodes.onnx.model=toy.py:laod", check=False)

    assert done.status == 1
    assert (
        f"error   N1   toy/cpu onnx: node 'onnx': user code 'toy.py:laod': {project.root}/recipes/toy.py "
        "has no attribute 'laod'. Did you mean 'load'?\n             it has: load\n"
    ) in without_digits(done.out)


def test_an_empty_folder_is_told(tmp_path: Path) -> None:
    project = toy_project(tmp_path)
    (project.root / "models" / "none").mkdir()

    done = project.mobuild("check", "nodes.weights.uri=models/none")

    assert f"N1   toy/cpu weights: node 'weights': the folder '{project.root}/models/none' holds no file" in (
        without_digits(done.out)
    )


@pytest.mark.parametrize("name", ["m.onnx", "."], ids=["file", "folder"])
def test_external_data_that_is_cut_short_is_told(tmp_path: Path, name: str) -> None:
    project = Project(tmp_path / "project", tmp_path / "cache")
    file = save_external(project.root / "det")
    words = ("check", f"model=det/{name}" if name != "." else "model=det", "hardware=l4", "shapes.n=4")
    assert project.mobuild(*words).status == 0
    data = file.parent / "w.bin"
    os.truncate(data, data.stat().st_size - 1)

    done = project.mobuild(*words, check=False)

    assert done.status == 1
    assert "N1 " in done.out
    assert f"'{data}'" in done.out
    assert "cut short" in done.out


@pytest.mark.parametrize(("hardware", "backend"), [("l4", "tensorrt"), ("cpu", "onnxruntime")])
def test_a_builder_that_is_not_installed_is_a_note(tmp_path: Path, hardware: str, backend: str) -> None:
    project = Project(tmp_path / "project", tmp_path / "cache")
    save_external(project.root / "det")

    done = project.mobuild("check", "model=det/m.onnx", f"hardware={hardware}", f"backend={backend}", "shapes.n=4")

    assert done.status == 0
    assert ("note    E4 " in done.out) == (backend == "tensorrt")
    assert ("node 'engine': tensorrt is not installed here; it is built on a machine with" in done.out) == (
        backend == "tensorrt"
    )


def test_strings_are_taken_where_the_builder_has_them(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", tmp_path / "cache")
    project.root.mkdir()
    joined = helper.make_node("StringConcat", ["x", "x"], ["y"])
    ends = [value(name, ["n"], TensorProto.STRING) for name in ("x", "y")]
    onnx.save(model([joined], ends[:1], ends[1:], opset=20), project.root / "s.onnx")
    words = ("model=s.onnx", "shapes.n=4")

    refused = project.mobuild("check", *words, "hardware=l4", check=False)
    assert refused.status == 1
    assert "input 'x': TensorRT-RTX 1.7.1.116 has no type string" in refused.out

    assert project.mobuild("check", *words, "hardware=cpu").status == 0
    assert project.mobuild(*words, "hardware=cpu").status == 0


def without_digits(text: str) -> str:
    """What was printed, without the digits that overrides give to the names of variants."""
    return re.sub(r"\+[0-9a-f]{8}", "", text)
