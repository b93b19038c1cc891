"""The pipelines of cache/README.md: every line of them is run, in a clean clone, as a runner would."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from tests.projects import Project, validated_project
from tests.test_revisions import git

PAGE = Path(__file__).parent.parent / "cache/README.md"
STUBS = ("pip", "gh", "curl")  # what needs a network: their words are noted, and all is well


def pipeline(name: str) -> dict[Any, Any]:
    (block,) = re.findall(rf"```yaml\n# {re.escape(name)}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    found: dict[Any, Any] = yaml.safe_load(block)
    return found


@dataclass(frozen=True)
class Runner:
    """A machine of a pipeline: one checkout, an empty cache, and no network."""

    folder: Path
    checkout: Path
    environment: Mapping[str, str]

    def run(self, lines: Sequence[str], **variables: str) -> str:
        """Run the lines in one shell that ends at the first failure; all that was said."""
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", "\n".join(lines)],
            cwd=self.checkout,
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{lines}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def called(self, program: str) -> str:
        return (self.folder / f"{program}.called").read_text()


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A repository with a base branch and a change on another."""
    project = validated_project(tmp_path_factory.mktemp("origin"))
    project.write(".gitignore", "build/\ncache/\n*.tar\n*.xml\ncompare.md\n")
    git(project, "init", "-q", "-b", "main")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "first")
    git(project, "checkout", "-qb", "change")
    project.edit("recipes/late.py", "2.0", "2.5")
    git(project, "commit", "-qam", "second")
    return project


def runner(origin: Project, folder: Path) -> Runner:
    """A clean clone of the change, with programs of a runner."""
    programs = folder / "bin"
    programs.mkdir(parents=True)
    for name in STUBS:
        (programs / name).write_text(f'#!/bin/sh\necho "$@" >> {folder}/{name}.called\n')
        (programs / name).chmod(0o755)
    (programs / "mobuild").write_text(f'#!/bin/sh\nexec {sys.executable} -m mobuild "$@"\n')
    (programs / "mobuild").chmod(0o755)
    subprocess.run(["git", "clone", "-q", "-b", "change", str(origin.root), str(folder / "checkout")], check=True)
    environment = {key: value for key, value in os.environ.items() if key != "MOBUILD_CACHE"}
    path = f"{programs}{os.pathsep}{environment['PATH']}"
    return Runner(folder, folder / "checkout", {**environment, "PATH": path})


def steps(document: Mapping[Any, Any], is_tag: bool) -> list[str]:
    """The `run` lines of the job, of a pull request or of a tag."""
    found = []
    for step in document["jobs"]["models"]["steps"]:
        condition = step.get("if", "")
        is_of_tags = condition.startswith("startsWith(")
        is_of_others = "!startsWith" in condition or "pull_request" in condition
        if "run" in step and not (is_of_tags and not is_tag) and not (is_of_others and is_tag):
            found.append(step["run"])
    return found


def test_a_pull_request_on_github_and_then_a_tag(origin: Project, tmp_path: Path) -> None:
    document = pipeline(".github/workflows/models.yaml")
    first, again = runner(origin, tmp_path / "first"), runner(origin, tmp_path / "again")
    output = tmp_path / "output"
    variables = {"GITHUB_OUTPUT": str(output), "GITHUB_BASE_REF": "main", "PR": "7", "GH_TOKEN": "-"}

    first.run(steps(document, is_tag=False), **variables)

    comment = (first.checkout / "compare.md").read_text()
    assert comment.startswith("### toy/cpu: origin/main (commit ") and "| validation | accuracy | 0." in comment
    assert "not run" not in comment.replace("latency", "")
    assert first.called("gh") == "pr comment 7 --edit-last --create-if-none --body-file compare.md\n"
    assert ElementTree.parse(first.checkout / "junit.xml").getroot().get("failures") == "0"
    key = output.read_text()
    assert re.fullmatch(r"key=mobuild-1-[0-9a-f]{32}\n", key)

    shutil.copy(first.checkout / "models.tar", again.checkout)  # as the cache of the same key brings it
    output.unlink()
    said = again.run(steps(document, is_tag=True), **variables)

    assert output.read_text() == key
    assert re.search(r"^\d+ fresh in ", said, re.MULTILINE) and "built" not in said


def test_a_merge_request_on_gitlab_and_then_a_tag(origin: Project, tmp_path: Path) -> None:
    document = pipeline(".gitlab-ci.yml")
    before = document[".models"]["before_script"]
    machine, other = runner(origin, tmp_path / "first"), runner(origin, tmp_path / "other")
    variables = {
        **dict.fromkeys(("COMMENT_TOKEN", "CI_PROJECT_ID", "CI_MERGE_REQUEST_IID"), "7"),
        **{"CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main", "CI_API_V4_URL": "https://gitlab/api/v4"},
    }

    machine.run([*before, *document["build"]["script"]], **variables)
    machine.run([*before, *document["compare"]["script"]], **variables)

    assert (machine.checkout / "compare.md").read_text().startswith("### toy/cpu: FETCH\\_HEAD (commit ")
    assert "https://gitlab/api/v4/projects/7/merge_requests/7/notes" in machine.called("curl")

    shutil.copy(machine.checkout / "models.tar", other.checkout)
    said = other.run([*before, *document["release"]["script"]], **variables)
    assert "built" not in said


def test_a_tag_that_was_never_built_ships_nothing(origin: Project, tmp_path: Path) -> None:
    machine = runner(origin, tmp_path / "clean")

    with pytest.raises(AssertionError, match="frozen=true: 5 of 7 nodes would be built"):
        machine.run(pipeline(".gitlab-ci.yml")["release"]["script"])
