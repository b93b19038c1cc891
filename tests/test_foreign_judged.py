"""A file of the user's is judged before anything is built of it: what no simplifying mends, in the words of `check`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mobuild.onnxmodel.lasting import lasting
from tests.onnxmodel.models import matmul, model, value
from tests.projects import Project


@pytest.fixture
def files(tmp_path: Path) -> Project:
    project = Project(tmp_path / "project", tmp_path / "cache")
    project.root.mkdir()
    return project


def determinant() -> Any:
    """Det has no name, and TensorRT-RTX has no Det."""
    return model([helper.make_node("Det", ["x"], ["y"])], [value("x", ["n", 4, 4])], [value("y", ["n"])])


def integers() -> Any:
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)
    return model([node], [value("x", ["n", 4], TensorProto.UINT16)], [value("y", ["n", 4])])


def counted() -> Any:
    """NonZero of a shape, which folds away: sanitized holds none."""
    zeros = numpy_helper.from_array(np.zeros(1, np.float32), "one")
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], start=1),
        helper.make_node("NonZero", ["s"], ["i"]),
        helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["f"], ["c"], keepdims=0),
        helper.make_node("Add", ["x", "c"], ["h"]),
        helper.make_node("Add", ["h", "one"], ["y"]),
    ]
    return model(nodes, [value("x", ["n", 4])], [value("y", ["n", 4])], [zeros])


REFUSED = {
    "R10": (determinant, ("shapes.n=4",), "node 'y': operator Det: "),
    "F2": (integers, ("shapes.n=4",), "input 'x': TensorRT-RTX 1.7.1.116 has no type uint16"),
    "P1": (matmul, (), "input 'x', axis 0: 'n' has no size in shapes"),
}


@pytest.mark.parametrize("code", REFUSED)
def test_what_simplifying_does_not_mend_is_refused_before_anything_is_built(files: Project, code: str) -> None:
    made, shapes, words = REFUSED[code]
    onnx.save(made(), files.root / "m.onnx")
    words_of_job = ("model=m.onnx", "hardware=l4", *shapes)

    told = files.mobuild("check", *words_of_job, check=False)
    done = files.mobuild(*words_of_job, check=False)

    assert (told.status, done.status) == (1, 1)
    assert code in told.out
    assert words in told.out
    assert f"{code}: " in done.err
    assert words in done.err
    (folder,) = (files.root / "build" / "m").iterdir()
    assert files.states(folder.name, "m") == {"onnx": "fresh", "sanitized": "failed", "engine": "blocked"}
    assert not [*files.cache.glob("records/*/*")]


def test_a_plan_parses_no_model(files: Project) -> None:
    """It imports no onnx; check does, and so does the build, before anything is built."""
    onnx.save(determinant(), files.root / "m.onnx")
    words = ("model=m.onnx", "hardware=l4", "shapes.n=4")

    planned, checked = files.mobuild("plan", *words), files.mobuild("check", *words, check=False)

    assert [line.split()[0] for line in planned.out.splitlines()] == ["fresh", "stale", "waiting"]
    assert (checked.status, "R10" in checked.out) == (1, True)


def test_what_simplifying_mends_is_built(files: Project) -> None:
    onnx.save(counted(), files.root / "m.onnx")

    done = files.mobuild("model=m.onnx", "hardware=l4", "shapes.n=4")

    assert done.status == 0


def test_an_engine_of_the_file_itself_is_judged_by_all_rules(files: Project) -> None:
    onnx.save(counted(), files.root / "m.onnx")
    words = ("model=m.onnx", "hardware=l4", "shapes.n=4", "nodes.engine.needs.model=onnx")

    done = files.mobuild(*words, check=False)

    assert done.status == 1
    assert "R10: node 'i': operator NonZero" in done.err


def test_another_card_of_the_sweep_that_takes_it_is_built(files: Project) -> None:
    onnx.save(determinant(), files.root / "m.onnx")

    done = files.mobuild("-m", "model=m.onnx", "hardware=l4,cpu", "shapes.n=4", check=False)

    assert done.status == 1
    (folder,) = (each for each in (files.root / "build" / "m").iterdir() if each.name.startswith("cpu"))
    assert files.states(folder.name, "m")["engine"] == "built"


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([("Det", ["x"], ["y"])], {"y"}),
        ([("Det", ["c"], ["y"])], set()),
        ([("Shape", ["x"], ["s"]), ("Det", ["s"], ["y"])], set()),
        ([("Det", ["x"], ["unused"]), ("Neg", ["x"], ["y"])], {"y"}),
        ([("Neg", ["x"], ["h"]), ("Det", ["h"], ["y"])], {"h", "y"}),
        ([("SplitToSequence", ["x"], ["h"]), ("Det", ["h"], ["y"])], {"y"}),
    ],
)
def test_a_node_lasts_that_computes_with_inputs_for_an_output(
    nodes: Sequence[tuple[str, list[str], list[str]]], expected: set[str]
) -> None:
    constant = numpy_helper.from_array(np.zeros((2, 2), np.float32), "c")
    made = [helper.make_node(*node) for node in nodes]

    assert lasting(model(made, [value("x", [2, 2])], [value("y", None)], [constant])) == expected
