"""Needs of one member of a folder: all that the member means counts, and nothing else lies beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.projects import Project, recipe_project

MADE = """\
  made: {kind: command, cmd: "cp -r {in.parts} {out}", needs: {parts: parts}}
  parts: {kind: source, uri: parts}
"""
SOURCE = "  made: {kind: source, uri: parts}\n"
SANITIZED = "  sanitized: {kind: sanitize, needs: {model: made/net/model.onnx}}\n"
BESIDE = """\
  beside: {kind: command, cmd: "sh -c 'cat $(dirname $1)/* > $2' - {in.a} {out}", needs: {a: made/net/a.txt}, out: .txt}
"""


def save(folder: Path, weight: float) -> None:
    """A model in `folder`, whose only weight lies in a file beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 512])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 512])],
        [numpy_helper.from_array(np.full(512, weight, np.float32), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (folder / "model.data").unlink(missing_ok=True)
    onnx.save(model, str(folder / "model.onnx"), save_as_external_data=True, location="model.data", size_threshold=0)


@pytest.mark.parametrize("made", [MADE, SOURCE])
def test_the_data_of_a_model_counts_where_the_model_is_needed(made: str, tmp_path: Path) -> None:
    project = recipe_project(tmp_path, made + SANITIZED)
    save(project.root / "parts/net", 1.0)
    before = Path(project.mobuild("target=sanitized").out.strip())
    assert weight(before) == 1.0

    save(project.root / "parts/net", 2.0)
    after = Path(project.mobuild("target=sanitized").out.strip())

    assert weight(after) == 2.0


def test_the_data_of_a_model_counts_whatever_the_model_is_called(tmp_path: Path) -> None:
    nodes = "  made: {kind: source, uri: parts/model.pb}\n  sanitized: {kind: sanitize, needs: {model: made}}\n"
    project = recipe_project(tmp_path, nodes)
    for value in (1.0, 2.0):
        save(project.root / "parts", value)
        (project.root / "parts/model.onnx").rename(project.root / "parts/model.pb")

        assert weight(Path(project.mobuild("target=sanitized").out.strip())) == value


def weight(path: Path) -> float:
    return float(numpy_helper.to_array(onnx.load(path).graph.initializer[0])[0])


def test_what_lies_beside_a_member_is_not_there(tmp_path: Path) -> None:
    project = beside(tmp_path)

    done = project.mobuild("target=beside")

    assert Path(done.out.strip()).read_text() == "a\n"


def test_another_file_of_the_folder_changes_nothing(tmp_path: Path) -> None:
    project = beside(tmp_path)
    project.mobuild("target=beside")

    project.write("parts/net/b.txt", "edit\n")

    assert project.built("target=beside", recipe="small") == {"made"}


def beside(root: Path) -> Project:
    return recipe_project(root, MADE + BESIDE, {"parts/net/a.txt": "a\n", "parts/net/b.txt": "b\n"})
