"""The exit status of a fault is the same whichever verb meets it: 2 for the request, 1 for everything else."""

from __future__ import annotations

import pytest

from tests.projects import Project, toy_project

VERBS = ("build", "plan", "check", "path", "log", "command", "shell", "pin it", "cache export it.tar")
REQUESTS = {
    "an axis that the model does not have": "shapes.bacth=2",
    "int8 without data": "precision=int8",
    "a module that is nowhere": "nodes.onnx.model=gone.py:load",
    "a target that is none": "target=engnie",
    "a choice that is none": "hardware=l5",
}
OTHERS = {
    "a source that is missing": "nodes.weights.uri=models/none.pt",
    "an interpreter that is missing": "toolchain.python=/no/python",
    "a card that no builder serves": "hardware=gtx1070",
}


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = toy_project(tmp_path_factory.mktemp("statuses"))
    project.mobuild("target=sanitized")
    return project


@pytest.mark.parametrize(
    ("word", "status"),
    [*((word, 2) for word in REQUESTS.values()), *((word, 1) for word in OTHERS.values())],
    ids=[*REQUESTS, *OTHERS],
)
def test_a_fault_has_one_status_in_all_verbs(toy: Project, word: str, status: int) -> None:
    words = [word] if word.startswith("target=") else [word, "target=engine"]

    found = {verb: toy.mobuild(*verb.split(), *words, check=False).status for verb in VERBS}

    assert found == dict.fromkeys(VERBS, status)


@pytest.mark.parametrize("verb", ["why", "graph"])
def test_a_verb_that_only_tells_has_told(toy: Project, verb: str) -> None:
    done = toy.mobuild(verb, "target=engine", "precision=int8")

    assert "blocked" in done.out


def test_what_failed_for_another_reason_too_is_no_mere_request(toy: Project) -> None:
    words = ("plan", "target=engine", "nodes.weights.uri=models/none.pt", "nodes.onnx.model=gone.py:load")

    assert toy.mobuild(*words, check=False).status == 1


def test_a_folder_for_artifacts_is_told_why_it_has_none(toy: Project) -> None:
    done = toy.mobuild("path", "engine", "precision=int8", check=False)

    (error,) = done.errors
    assert "'engine' is not built; expected" in error
    assert "calibration needs data" in error and "give it some: nodes.calibration.data" in error


def test_a_sweep_counts_the_jobs_that_it_refuses(toy: Project) -> None:
    words = ("-m", "hardware=cpu,gtx1070", "builders=[onnxruntime,tensorrt]")
    refused = toy.mobuild(*words, check=False)
    unknown = toy.mobuild("-m", "target=sanitized", "hardware=cpu,l5", check=False)

    assert "; 1 of 2 jobs refused (run " in refused.err
    assert "warning: 1 of 2 jobs of the sweep cannot be composed, and are left out\n" in unknown.err
