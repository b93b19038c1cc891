"""Reference and validation through the command line: what re-runs, what is only compared, what fails."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.projects import Project, validated_project, write_data

EVAL = '''\
"""Counts how often the model at --model is positive."""
import json, sys

import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1])
x = np.load("data/evaluation.npz")["x"]
json.dump({"positive": float((session.run(None, {"x": x})[0] > 0).mean())}, open(sys.argv[2], "w"))
'''
CMD = f"{sys.executable} eval.py {{in.engine}} {{out}}/m.json"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The toy project with data, validated in INT8 on the CPU and by proxy in fp16 for l20."""
    project = validated_project(tmp_path_factory.mktemp("toy"))
    project.mobuild("target=validation", "precision=int8")
    project.mobuild("target=validation", "precision=fp16", "hardware=l20")
    return project


def report(project: Project, variant: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((project.root / "build" / "toy" / variant / "validation.json").read_text())
    return document


def test_int8_is_measured_on_the_device_and_its_stages_are_told_apart(built: Project) -> None:
    found = report(built, "cpu+int8")

    assert (found["device"], found["samples"], found["worst_stage"]) == ("real", 200, "quantized")
    assert list(found["stages"]) == ["quantized", "engine"]
    assert found["tensors"]["y"]["cosine_mean"] > 0.99
    assert found["metrics"]["accuracy"]["paired"]["samples"] == 200


def test_without_the_card_fp16_is_measured_by_proxy(built: Project) -> None:
    found = report(built, "l20+fp16")

    assert found["device"] == "proxy"
    assert found["unseen"].startswith("every tensor in half precision was rounded to float16; ")
    assert 0.9999 < found["tensors"]["y"]["cosine_mean"] < 1


def test_the_numbers_are_told_for_fresh_ones_too_and_leave_standard_output_alone(built: Project) -> None:
    limit = "constraints.cosine_min=0.9"
    int8 = built.mobuild("target=validation", "precision=int8", limit)
    fp16 = built.mobuild("target=validation", "precision=fp16", "hardware=l20", limit)

    metric = report(built, "cpu+int8")["metrics"]["accuracy"]
    (told,) = (line for line in int8.err.splitlines() if line.startswith("judged  "))
    assert told.startswith(
        f"judged  toy/cpu+int8 validation: accuracy {metric['reference']:.4g} → {metric['value']:.4g} "
        f"({metric['paired']['lost']} lost, {metric['paired']['gained']} gained of 200); cosine 0.99"
    )
    assert told.endswith(" of 'y'; passed")
    assert "; passed by proxy\n" in fp16.err
    assert int8.out == f"{built.root}/build/toy/cpu+int8/validation.json\n"


def test_without_a_constraint_the_numbers_are_told_and_not_judged(built: Project) -> None:
    done = built.mobuild("target=validation", "precision=fp16", "hardware=l20", "constraints.cosine_min=null")

    assert "; no constraint is about it (by proxy)\n" in done.err


def test_other_evaluation_data_leaves_calibration_and_engine_fresh(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)
    write_data(project, "evaluation", seed=3, count=200)

    ran = project.built("target=validation", "precision=int8", variant="cpu+int8")
    write_data(project, "evaluation", seed=2, count=200)
    again = project.built("target=validation", "precision=int8", variant="cpu+int8")

    assert ran == {"reference", "validation"}
    assert again == set()


def test_another_metric_leaves_the_reference_fresh(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)
    project.edit("recipes/metrics.py", "labels > 0", "labels >= 0")

    ran = project.built("target=validation", "precision=int8", variant="cpu+int8")

    assert ran == {"validation"}


def test_a_proxy_is_shared_by_all_cards(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)
    project.edit("recipes/toy.yaml", "[1, 4, 16]", "[1, 2, 8]")

    ran = project.built("target=validation", "precision=fp16", "hardware=l4", variant="l4+fp16")

    assert ran == {"engine"}


def test_the_script_that_the_command_names_is_part_of_the_key(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)
    project.write("eval.py", EVAL)
    project.edit("recipes/toy.yaml", "metric:", f'cmd: "{CMD}", metric:')

    first = project.built("target=validation", "precision=int8", variant="cpu+int8")
    project.edit("eval.py", "> 0", "> 0.5")
    second = project.built("target=validation", "precision=int8", variant="cpu+int8")

    assert first == second == {"reference", "validation"}
    assert sorted(report(project, "cpu+int8")["metrics"]) == ["accuracy", "positive"]


def test_the_reference_runs_the_command_where_and_with_what_the_validation_does(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)
    python = project.root / "own" / "python"
    project.write("own/python", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    project.write("labels.txt", "2")
    project.write(
        "eval.py",
        "import json, os, sys\n"
        "json.dump({'sum': int(open(sys.argv[1]).read()) + int(os.environ['GAIN'])}, open(sys.argv[3], 'w'))\n",
    )
    project.edit(
        "recipes/toy.yaml",
        "  validation: {",
        "  labels: {kind: source, uri: labels.txt}\n"
        "  validation: {python: own/python, env: {GAIN: '3'}, needs: {labels: labels, model: quantized},\n"
        f"    cmd: '{python} eval.py {{in.labels}} {{in.engine}} {{out}}/m.json', ",
    )

    project.mobuild("target=validation")

    found = report(project, "cpu")["metrics"]["sum"]
    assert (found["value"], found["reference"]) == (5, 5)


def test_the_folder_that_a_script_writes_to_is_no_input(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)
    project.write("eval.py", EVAL)
    project.edit("recipes/toy.yaml", "metric:", f'cmd: "{CMD}", metric:')
    first = project.mobuild("target=validation")

    project.write("out", "")
    second = project.built("target=validation")

    assert "file out" not in first.err
    assert second == set()


def test_the_script_judges_the_graph_where_the_card_is_missing(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)
    project.write("eval.py", EVAL)
    project.edit("recipes/toy.yaml", "metric:", f'cmd: "{CMD}", metric:')

    project.mobuild("target=validation", "precision=fp16", "hardware=l20")

    positive = report(project, "l20+fp16")["metrics"]["positive"]
    assert positive["value"] == pytest.approx(positive["reference"], abs=0.01)


def test_a_script_that_fails_stops_the_run_and_resumes_once_mended(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)
    project.write("eval.py", "print('the set is not here')\nraise SystemExit(4)\n")
    project.edit("recipes/toy.yaml", "metric:", f'cmd: "{CMD}", metric:')

    failed = project.mobuild("target=validation", "precision=int8", check=False)
    states = project.states("cpu+int8")
    project.write("eval.py", EVAL)
    ran = project.built("target=validation", "precision=int8", variant="cpu+int8")

    assert failed.status == 1
    assert "node 'reference': " in failed.err and "ended with status 4\n  the set is not here" in failed.err
    assert (states["reference"], states["validation"]) == ("failed", "blocked")
    assert ran == {"reference", "validation"}


def test_a_validation_without_data_says_what_to_write(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)
    project.edit(
        "recipes/toy.yaml", '  validation: {data: {npz: data/evaluation.npz}, metric: "metrics.py:accuracy"}\n', ""
    )

    done = project.mobuild("target=validation", check=False)

    assert done.status == 2
    assert "recipe 'toy', node 'validation': no evaluation data: expected `data` or `cmd`, found neither" in done.err
    assert 'write in the recipe validation: {data: {npz: evaluation.npz}, metric: "file.py:function"}' in done.err


def test_other_calibration_data_runs_calibration_and_what_follows(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)
    before = (project.root / "data/calibration.npz").read_bytes()

    write_data(project, "calibration", seed=3, count=120)
    ran = project.built("target=validation", "precision=int8", variant="cpu+int8")
    (project.root / "data/calibration.npz").write_bytes(before)
    back = project.built("target=validation", "precision=int8", variant="cpu+int8")

    assert ran == {"calibration", "quantized", "engine", "validation"}
    assert back == set()


def test_another_method_runs_calibration_and_what_follows(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)
    project.edit("recipes/toy.yaml", "calibration: {", "calibration: {method: minmax, ")

    ran = project.built("target=validation", "precision=int8", variant="cpu+int8")

    assert ran == {"calibration", "quantized", "engine", "validation"}


def test_an_excluded_node_needs_no_new_calibration(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)
    project.edit("recipes/toy.yaml", "  calibration:", '  quantized: {exclude: ["*first*"]}\n  calibration:')

    ran = project.built("target=validation", "precision=int8", variant="cpu+int8")

    assert ran == {"quantized", "engine", "validation"}


def test_a_tolerance_is_judged_on_the_stored_measurement(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)

    missed = project.mobuild("target=validation", "precision=int8", "constraints.cosine_min=1.5", check=False)
    met = project.built("target=validation", "precision=int8", "constraints.cosine_min=0.9", variant="cpu+int8")

    assert missed.status == 1
    assert "node 'validation': gate failed" in missed.err
    assert "cosine_min of output 'y': measured 0.99" in missed.err
    assert met == set()
