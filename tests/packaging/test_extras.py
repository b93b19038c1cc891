"""What works with which extra installed, and what is said when one is missing."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy
import onnx
import pytest
from onnx import helper, numpy_helper

from mobuild.blame import EXTRAS, PACKAGES
from tests.installations import REPOSITORY, Environment, bare_environment, full_environment, linked

ONNX = ("onnx", "numpy", "protobuf", "ml_dtypes", "typing_extensions")


@pytest.fixture(scope="session")
def onnx_and_rtx(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    """`pip install mobuild[onnx,tensorrt-rtx]`: no torch."""
    made = full_environment(tmp_path_factory.mktemp("rtx") / "venv", wheel, "[onnx,tensorrt-rtx]")
    yield made
    shutil.rmtree(made.folder)  # 500 MB, of which pytest would keep three


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with an ONNX model: 8 numbers to 3."""
    folder = tmp_path / "project"
    folder.mkdir()
    weights = numpy_helper.from_array(numpy.ones((8, 3), "float32"), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
        "det",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 8])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["batch", 3])],
        [weights],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), folder / "det.onnx")
    return folder


DET = ("model=det.onnx", "shapes.batch=[1,4,8]")


def test_an_onnx_file_becomes_a_plan_where_torch_is_not_installed(onnx_and_rtx: Environment, project: Path) -> None:
    assert not (onnx_and_rtx.site / "torch").exists()

    built = onnx_and_rtx.mobuild(project, "target=engine", *DET, "hardware=l4")
    again = onnx_and_rtx.mobuild(project, "plan", "target=engine", *DET, "hardware=l4")

    plan = Path(built.out.strip())
    assert plan.name == "engine.plan"
    assert plan.stat().st_size > 1000
    measured = json.loads(plan.with_name("engine.plan.json").read_text())["measurements"]
    assert measured["builder"].startswith("TensorRT-RTX 1.")
    assert measured["target"] == "8.9"
    assert "only TensorRT-RTX loads this plan" in built.err
    assert {line.split()[0] for line in again.out.splitlines()} == {"fresh"}


def test_core_alone_lists_plans_and_starts_a_recipe(core: Environment, tmp_path: Path) -> None:
    core.mobuild(tmp_path, "init", "det")
    listed = core.mobuild(tmp_path, "list")
    planned = core.mobuild(tmp_path, "plan", "hardware=l4")
    drawn = core.mobuild(tmp_path, "graph", "hardware=l4")
    core.mobuild(tmp_path, "check", "hardware=l4")

    assert {"crepe_tiny", "det"} <= set(listed.out.splitlines()[0].split())
    assert [line.split()[:3] for line in planned.out.splitlines()] == [
        ["stale", "det/l4", "onnx"],
        ["waiting", "det/l4", "sanitized"],
        ["waiting", "det/l4", "engine"],
    ]
    assert "engine" in drawn.out


def test_core_alone_has_no_heavy_library(core: Environment) -> None:
    heavy = {"torch", "onnx", "onnxruntime", "numpy", "tensorrt_rtx"}

    assert {path.name for path in core.site.iterdir()} & heavy == set()


def complaint(environment: Environment, project: Path, *words: str) -> list[str]:
    """The lines of the error, without the log's."""
    done = environment.mobuild(project, *words, check=False)
    assert done.status == 1, done.err
    lines = done.err.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("error: "))
    return lines[begin : begin + 2]


def test_an_export_without_torch_names_the_extra(core: Environment, project: Path) -> None:
    core.mobuild(project, "init", "net")

    said = complaint(core, project, "target=onnx")

    assert said[0].startswith(f"error: node 'onnx': needs the module 'torch', which {core.folder}/bin/python")
    assert said[1].startswith(f"  install it: {core.folder}/bin/python")
    assert said[1].endswith(" -m pip install 'mobuild[export]'")


def test_sanitizing_without_onnx_names_the_extra(core: Environment, project: Path) -> None:
    said = complaint(core, project, "target=sanitized", *DET)

    assert said[0].startswith("error: node 'sanitized': needs the module 'onnx', which ")
    assert said[1].endswith("-m pip install 'mobuild[onnx]'")


@pytest.mark.parametrize(
    ("hardware", "there", "module", "extra"),
    [
        ("cpu", ONNX, "onnxruntime", "onnxruntime"),
        ("l4", (*ONNX, "onnxruntime", "flatbuffers", "packaging"), "tensorrt_rtx", "tensorrt-rtx"),
    ],
)
def test_an_engine_without_its_builder_names_the_extra(
    core: Environment,
    wheel: Path,
    project: Path,
    tmp_path: Path,
    hardware: str,
    there: tuple[str, ...],
    module: str,
    extra: str,
) -> None:
    environment = bare_environment(tmp_path / "venv", wheel, core.site, linked(tmp_path, *there))

    said = complaint(
        environment, project, "target=engine", *DET, f"hardware={hardware}", "nodes.engine.needs.model=onnx"
    )

    assert said == [
        f"error: node 'engine': {module} cannot be imported: No module named '{module}'",
        f"  pip install 'mobuild[{extra}]'",
    ]


def test_the_extras_bring_what_the_messages_promise() -> None:
    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    brought = {extra: {re.split(r"[<>=\[]", line)[0] for line in lines} for extra, lines in extras.items()}

    for module, extra in EXTRAS.items():
        assert PACKAGES.get(module, module) in brought[extra] | brought["onnx"]
