"""Completion in the shell: by the script that `mobuild -sc install=bash` prints, and by its queries."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.projects import Project


@pytest.fixture(scope="module")
def det(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with one recipe, `det`."""
    root = tmp_path_factory.mktemp("det")
    project = Project(root, root / "cache")
    project.mobuild("init", "det")
    return project


def offered(project: Project, line: str) -> list[str]:
    return project.mobuild("-sc", "query=bash", env={"COMP_LINE": line}).out.split()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("mobuild pla", ["plan"]),
        ("mobuild lo", ["log", "lock"]),
        ("mobuild hardware=l", ["hardware=l20", "hardware=l4", "hardware=l40s"]),
        ("mobuild plan hardware=l", ["hardware=l20", "hardware=l4", "hardware=l40s"]),
        ("mobuild plan -m target=engine hardware=gt", ["hardware=gtx1070"]),
        ("mobuild -m hardware=cpu,a30/2", ["hardware=cpu,a30/2g.12gb"]),
        ("mobuild why recipe=d", ["recipe=det"]),
        ("mobuild recipe=", ["recipe=crepe_tiny", "recipe=det", "recipe=minilm"]),
        ("mobuild -m recipe=det,m", ["recipe=det,minilm"]),
        ("mobuild --oops pla", ["plan"]),
        ("mobuild nodes.onnx.in", ["nodes.onnx.inputs."]),
        ("mobuild plan pla", []),
    ],
)
def test_the_word_at_the_end_of_the_line_is_completed(det: Project, line: str, words: list[str]) -> None:
    assert offered(det, line) == words


def test_a_new_word_may_be_a_verb_or_an_override(det: Project) -> None:
    words = offered(det, "mobuild ")

    assert {"plan", "why", "clean", "hardware=", "target="} <= set(words)


def test_completion_and_help_work_where_several_recipes_have_no_default(det: Project, tmp_path: Path) -> None:
    project = Project(tmp_path, det.cache)
    project.mobuild("init", "one")
    project.mobuild("init", "two")

    assert offered(project, "mobuild plan recipe=t") == ["recipe=two"]
    assert "Usage: mobuild" in project.mobuild("--help").out


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash")
def test_bash_completes_with_the_installed_script(det: Project) -> None:
    script = (
        'eval "$(mobuild -sc install=bash)"\n'
        'COMP_LINE="mobuild plan hardware=l"; COMP_WORDS=(mobuild plan hardware=l); COMP_CWORD=2\n'
        'hydra_bash_completion; echo "${COMPREPLY[@]}"\n'
    )
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

    done = subprocess.run(
        ["bash", "-c", script], cwd=det.root, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )

    assert done.stderr == ""
    assert done.stdout == "hardware=l20 hardware=l4 hardware=l40s\n"
