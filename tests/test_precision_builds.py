"""What a change of precision builds, through the command line."""

from __future__ import annotations

import json

import pytest

from tests.projects import Project
from tests.transformer import transformer

RECIPE = """\
# @package _global_
defaults:
  - /recipe/standard
  - _self_
nodes:
  onnx: {kind: source, uri: models/encoder.onnx}
  quantized: {keep_fp32: []}
shapes: {batch: [1, 2, 4], sequence: [4, 8, 16]}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with one recipe, `encoder`, built in fp32."""
    root = tmp_path_factory.mktemp("encoder")
    project = Project(root / "project", root / "cache")
    project.write("recipes/encoder.yaml", RECIPE)
    (project.root / "models").mkdir()
    transformer(project.root / "models" / "encoder.onnx", layers=1)
    project.mobuild("recipe=encoder", "target=engine")
    return project


def built(project: Project, variant: str, *words: str) -> set[str]:
    return project.built("recipe=encoder", "target=engine", *words, variant=variant, recipe="encoder")


def test_fp32_has_no_step_of_quantisation(project: Project) -> None:
    states = project.states(recipe="encoder")

    assert states["engine"] == "built"
    assert "quantized" not in states and "calibration" not in states


def test_half_builds_on_what_is_there(project: Project) -> None:
    assert built(project, "cpu+fp16", "precision=fp16") == {"quantized", "engine"}


def test_half_for_another_card_takes_the_same_graph(project: Project) -> None:
    built(project, "cpu+fp16", "precision=fp16")

    assert built(project, "l20+fp16", "precision=fp16", "hardware=l20") == {"engine"}


def test_engine_reports_the_precision_found(project: Project) -> None:
    built(project, "cpu+fp16", "precision=fp16")

    sidecar = json.loads((project.root / "build/encoder/cpu+fp16/engine.onnx.json").read_text())
    assert sidecar["measurements"]["engine_precision"] == ["fp16"]


def test_option_of_int8_rebuilds_nothing_in_half(project: Project) -> None:
    built(project, "cpu+fp16", "precision=fp16")

    done = project.mobuild("recipe=encoder", "target=engine", "precision=fp16", "+nodes.quantized.per_channel=false")

    assert "0.0 s" in done.err and "built" not in done.err.replace("never built", "")


def test_bfloat16_for_a_cpu_is_refused_before_anything_runs(project: Project) -> None:
    done = project.mobuild("recipe=encoder", "target=engine", "precision=bf16", check=False)

    assert done.status == 1
    assert done.errors == (
        "recipe 'encoder', hardware 'cpu': R3: node 'engine': precision bf16: ONNX Runtime has no bfloat16 kernels for "
        "CPUs\n"
        "  precision=fp32, or another hardware=… or backend=…",
    )


def test_engine_that_goes_past_quantize_fails(project: Project) -> None:
    done = project.mobuild(
        "recipe=encoder", "target=engine", "precision=fp16", "+nodes.engine.needs={model: sanitized}", check=False
    )

    assert done.status == 1
    assert "precision: expected fp16 in the graph, found fp32" in done.err
