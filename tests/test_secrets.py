"""Variables whose values are written nowhere: those with a secret's name, and those that `secrets` lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.projects import Project, code_project, recipe_project

VALUE = "correct-horse-battery"
NODES = """\
  model: {kind: export, needs: {}, model: "net.py:load", exporter: torchscript, inputs: {x: [n, 4]}, outputs: [y]}
"""
NETWORK = """\
import os

import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return x * 2


def load():
    print("opening with", os.environ["LICENCE_CODE"])
    return Net()
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return recipe_project(tmp_path, NODES, {"recipes/net.py": NETWORK})


def test_a_listed_secret_is_in_no_file_and_in_no_key(project: Project) -> None:
    words = ("target=model", "secrets=[LICENCE_*]")

    first = project.mobuild(*words, env={"LICENCE_CODE": VALUE})
    again = project.built(*words, recipe="small", env={"LICENCE_CODE": "another-value-of-it"})

    assert again == set()
    log = project.mobuild("log", "model", "secrets=[LICENCE_*]", env={"LICENCE_CODE": VALUE}).out
    assert "opening with <LICENCE_CODE>" in log
    files = [path for root in (project.root, project.cache) for path in root.rglob("*") if path.is_file()]
    assert [path for path in files if VALUE.encode() in path.read_bytes()] == []
    assert VALUE not in first.err + first.out


def test_without_the_list_it_is_a_variable_like_others(project: Project) -> None:
    project.mobuild("target=model", env={"LICENCE_CODE": VALUE})

    assert project.built("target=model", recipe="small", env={"LICENCE_CODE": "another-value-of-it"}) == {"model"}


def test_a_secret_of_one_job_of_a_sweep_is_one_of_all_that_share_the_node(tmp_path: Path) -> None:
    project = code_project(tmp_path, "import os\n\n\ndef load():\n    print(os.environ['LICENCE_CODE'])\n")

    project.mobuild("-m", "target=n", "secrets=[],[LICENCE_*]", env={"LICENCE_CODE": VALUE})

    files = [path for root in (project.root, project.cache) for path in root.rglob("*") if path.is_file()]
    assert [path for path in files if VALUE.encode() in path.read_bytes()] == []


def test_a_listed_secret_cannot_be_declared(project: Project) -> None:
    project.edit("recipes/small.yaml", "outputs: [y]", "outputs: [y], env: {LICENCE_CODE: a}")

    done = project.mobuild("plan", "target=model", "secrets=[LICENCE_*]", check=False)

    assert done.status == 2
    assert "env: 'LICENCE_CODE' is a secret by its name" in done.err


def test_secrets_are_a_list_of_names(project: Project) -> None:
    done = project.mobuild("plan", "target=model", "secrets=LICENCE", check=False)

    assert (done.status, done.errors) == (
        2,
        ("secrets: expected a list of names, found 'LICENCE'\n  secrets=[PIN,LICENCE_*]",),
    )
