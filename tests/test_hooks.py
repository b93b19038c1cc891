"""Hooks in a recipe: their code and what it reads is in the key, as all code of the user's is."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from mobuild.backend import Opening
from mobuild.backends.onnxruntime import OnnxRuntime
from mobuild.data import Data
from mobuild.node import code_references
from mobuild.nodes.validate_together import ValidateTogether
from tests.projects import Project, recipe_project

NODES = """\
  onnx: {kind: source, uri: net.onnx}
  rewritten: {kind: rewrite, hook: "graph.py:named"}
  engine: {kind: build_engine, needs: {model: rewritten}}
backend: {name: onnxruntime, hook: "session.py:quiet"}
shapes: {n: [1, 4, 8]}
"""
FILES = {
    "recipes/graph.py": """\
from pathlib import Path

from names import NAME


def named(model):
    table = Path(__file__).parent / "table.txt"
    model.graph.node[0].name = NAME + table.read_text().strip()
""",
    "recipes/names.py": 'NAME = "relu"\n',
    "recipes/table.txt": "_1\n",
    "recipes/session.py": "def quiet(options):\n    options.log_severity_level = 4\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = recipe_project(tmp_path, NODES, FILES)
    value = helper.make_tensor_value_info
    inputs, outputs = [value("x", TensorProto.FLOAT, ["n", 3])], [value("y", TensorProto.FLOAT, ["n", 3])]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, project.root / "net.onnx")
    return project


def test_what_a_hook_is_made_of_and_reads_makes_its_node_stale(project: Project) -> None:
    assert project.built("target=engine", recipe="small") == {"rewritten", "engine"}
    assert project.built("target=engine", recipe="small") == set()

    project.write("recipes/names.py", 'NAME = "first"\n')
    assert project.built("target=engine", recipe="small") == {"rewritten", "engine"}
    project.write("recipes/table.txt", "_2\n")
    assert project.built("target=engine", recipe="small") == {"rewritten", "engine"}
    project.write("recipes/session.py", "def quiet(options):\n    options.log_severity_level = 3\n")
    assert project.built("target=engine", recipe="small") == {"engine"}
    project.write("recipes/session.py", "def quiet(options):\n    # no noise\n    options.log_severity_level = 3\n")
    assert project.built("target=engine", recipe="small") == set()


def test_a_validation_of_several_engines_counts_the_hooks_of_each() -> None:
    opening = Opening(OnnxRuntime(hook="session.py:quiet"))
    data = Data(npz="data.npz", transform="data.py:scaled")

    node = ValidateTogether(data, predict="pair.py:run", engines={"enc": opening})

    assert set(code_references(node)) == {"data.py:scaled", "pair.py:run", "session.py:quiet"}


def test_a_hook_that_fails_is_told_with_its_recipe(project: Project) -> None:
    project.write("recipes/session.py", "def quiet(options):\n    options.log_severity_level = 'low'\n")

    done = project.mobuild("target=engine", check=False)

    assert done.status == 1
    assert "node 'engine': hook 'session.py:quiet' raises at recipes/session.py:2 in quiet: TypeError: " in done.err
    assert "it is called as hook(options: onnxruntime.SessionOptions)" in done.err
    assert "recipe=small" in done.err


def test_a_hook_that_is_not_there_is_told_with_the_nearest_file(project: Project) -> None:
    done = project.mobuild("target=engine", "backend.hook=sessions.py:quiet", check=False)

    assert done.status == 2
    assert "recipe 'small', node 'engine': user code 'sessions.py:quiet': there is no file" in done.err
    assert "Did you mean 'session.py'?" in done.err
