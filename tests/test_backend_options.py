"""`backend: {tensorrt: {…}}`: options of a recipe that hold for one backend alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mobuild.config.compose import hydra_for
from mobuild.config.entry import compose_job
from mobuild.config.overrides import complete, take_apart
from mobuild.config.project import find_project
from mobuild.errors import ConfigError
from tests.projects import Project, recipe_project

NODES = """\
  onnx: {kind: source, uri: det.onnx}
  engine: {kind: build_engine, needs: {model: onnx}}
builders: [tensorrt, onnxruntime]
backend:
  tensorrt: {typing: weak, version: "10.9", builder_optimization_level: 5, raw: {REFIT: true}}
  onnxruntime: {level: basic}
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return recipe_project(tmp_path, NODES, {"det.onnx": ""})


def backend(project: Project, *words: str) -> Any:
    found = find_project(project.root)
    with hydra_for(found):
        node: Any = compose_job(complete(take_apart(words), found), found).graph.nodes["engine"].node
    return node.backend


@pytest.mark.parametrize("words", [(), ("backend=tensorrt",)])
def test_options_under_a_name_are_those_of_that_backend(project: Project, words: tuple[str, ...]) -> None:
    found = backend(project, "hardware=l4", *words)

    assert (found.typing, found.version, found.builder_optimization_level) == ("weak", "10.9", 5)
    assert found.raw == {"REFIT": True}
    assert found.workspace == "4GiB"


@pytest.mark.parametrize(
    ("words", "name", "level"),
    [
        (("hardware=cpu",), "onnxruntime", "basic"),
        (("hardware=cpu", "backend=onnxruntime"), "onnxruntime", "basic"),
        (("hardware=cpu", "backend=onnxruntime", "backend.level=all"), "onnxruntime", "all"),
        (("hardware=l4", "backend=tensorrt_rtx"), "tensorrt_rtx", None),
    ],
)
def test_another_backend_does_not_hear_them(project: Project, words: tuple[str, ...], name: str, level: Any) -> None:
    found = backend(project, *words)

    assert (found.name, getattr(found, "level", None)) == (name, level)


@pytest.mark.parametrize("words", [(), ("backend=tensorrt",)])
def test_an_option_on_the_command_line_goes_first(project: Project, words: tuple[str, ...]) -> None:
    asked = ("backend.version=10.10", "backend.builder_optimization_level=1", "backend.raw.TF32=false")

    found = backend(project, "hardware=l4", *words, *asked)

    assert (found.version, found.builder_optimization_level, found.typing) == ("10.10", 1, "weak")
    assert found.raw == {"REFIT": True, "TF32": False}


def test_a_name_that_is_no_backend_is_an_unknown_option(project: Project) -> None:
    with pytest.raises(ConfigError, match="unknown field 'tensort'"):
        backend(project, "hardware=l4", "backend.tensort.version=10.9")
