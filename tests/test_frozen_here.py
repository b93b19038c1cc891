"""`frozen=true` builds nothing; `here=true` builds what this machine can and lists the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.projects import Project, recipe_project

NODES = """\
  text: {kind: source, uri: text.txt}
  copy: {kind: command, cmd: "cp {in.text} {out}", in: {text: text}, out: .txt}
  end: {kind: command, cmd: "cp {in.copy} {out}", in: {copy: copy}, out: .txt}
  far: {kind: command, cmd: "no-such-program {in.copy} {out}", in: {copy: copy}, out: .txt}
  last: {kind: command, cmd: "cp {in.far} {out}", in: {far: far}, out: .txt}
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return recipe_project(tmp_path, NODES, {"text.txt": "one\n"})


def test_a_frozen_run_lists_what_is_stale_and_why_and_builds_nothing(project: Project) -> None:
    done = project.mobuild("target=end", "frozen=true", check=False)

    assert (done.status, done.out) == (1, "")
    assert done.errors == (
        "frozen=true: 2 of 3 nodes would be built\n  small/cpu copy: never built\n  small/cpu end: waits for 'copy'",
    )
    assert project.states(recipe="small") == {"text": "fresh", "copy": "cancelled", "end": "cancelled"}
    assert [path.name for path in (project.root / "build/small/cpu").iterdir()] == ["run.json"]


def test_a_frozen_run_leaves_what_lies_in_build(project: Project) -> None:
    project.mobuild("target=end")
    project.write("text.txt", "two\n")

    done = project.mobuild("target=end", "frozen=true", check=False)

    assert done.status == 1
    assert (project.root / "build/small/cpu/end.txt").read_text() == "one\n"


def test_a_frozen_run_of_what_is_fresh_places_the_artifacts(project: Project) -> None:
    project.mobuild("target=end")
    project.mobuild("clean")

    done = project.mobuild("target=end", "frozen=true")

    assert done.out == f"{project.root}/build/small/cpu/end.txt\n"


def test_the_api_raises_what_is_frozen(project: Project) -> None:
    code = """
import mobuild
from mobuild.errors import Frozen
try:
    mobuild.build("end", frozen=True)
except Frozen as error:
    print(error.message)
"""

    assert project.python(code).out == "frozen=true: 2 of 3 nodes would be built\n"


def test_here_builds_what_it_can_and_lists_the_rest(project: Project) -> None:
    done = project.mobuild("target=[end,last]", "here=true")

    assert done.out == f"{project.root}/build/small/cpu/end.txt\n"
    assert [line for line in done.err.splitlines() if line.startswith(("left", "  "))] == [
        "left    small/cpu far: there is no program 'no-such-program' here; it is built where there is one",
        "left    small/cpu last: needs 'far'",
        "        there: mobuild 'target=[end,last]' here=true recipe=small",
    ]
    assert project.states(recipe="small") == {
        **dict.fromkeys(("copy", "end"), "built"),
        **dict.fromkeys(("far", "last"), "elsewhere"),
        "text": "fresh",
    }


def test_a_failure_is_still_one_with_here(project: Project) -> None:
    project.edit("recipes/small.yaml", "cp {in.copy}", "false {in.copy}")

    done = project.mobuild("target=[end,last]", "here=true", check=False)

    assert done.status == 1
    assert project.states(recipe="small")["end"] == "failed"


def test_a_plan_with_here_says_what_would_be_left(project: Project) -> None:
    project.mobuild("target=copy")

    done = project.mobuild("plan", "target=last", "here=true", "format=json")

    states = {step["node"].split()[1]: step["state"] for step in json.loads(done.out)["steps"]}
    assert states == {"text": "fresh", "copy": "fresh", "far": "elsewhere", "last": "elsewhere"}


def test_an_engine_for_a_card_that_is_not_here_is_left(tmp_path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    project = Project(tmp_path / "project", tmp_path / "cache")
    project.write("conf/project/default.yaml", "# @package _global_\nshapes: {n: [1, 2, 4]}\n")
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["y"])],
        "g",
        [value("x", TensorProto.FLOAT, ["n", 3])],
        [value("y", TensorProto.FLOAT, ["n", 3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save_model(model, project.root / "det.onnx")

    words = ("model=det.onnx", "nodes.engine.needs.model=onnx", "hardware=t4", "backend=tensorrt")
    done = project.mobuild("target=[onnx,engine]", *words, "here=true")

    (left,) = [line for line in done.err.splitlines() if line.startswith("left ")]
    assert left.endswith(
        "engine: tensorrt is not installed here; it is built on a machine with tensorrt and the card t4"
    )
    assert done.out == f"{project.root}/det.onnx\n"


def test_neither_key_makes_another_variant(project: Project) -> None:
    project.mobuild("target=end")

    again = project.mobuild("target=end", "here=true", "frozen=true")

    assert again.out == f"{project.root}/build/small/cpu/end.txt\n"
