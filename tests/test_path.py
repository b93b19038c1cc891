"""`mobuild path`: the place for scripts, and a status that tells whether they may use what lies there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.projects import Project, recipe_project

NODES = """\
  text: {kind: source, uri: text.txt}
  copy: {kind: command, cmd: "cp {in.text} {out}", in: {text: text}, out: .txt}
  prep: {kind: command, cmd: "cp {in.copy} {out}/a", in: {copy: copy}, out: folder}
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = recipe_project(tmp_path, NODES, {"text.txt": "one\n"})
    made.mobuild("target=[copy,prep]")
    return made


def test_what_is_up_to_date_is_a_path_and_nothing_else(project: Project) -> None:
    done = project.mobuild("path", "target=[text,copy,prep]")

    assert done.out.split() == [
        f"{project.root}/{name}" for name in ("text.txt", "build/small/cpu/copy.txt", "build/small/cpu/prep")
    ]
    assert done.err == ""


def test_what_is_stale_is_a_path_with_the_reason_and_status_1(project: Project) -> None:
    project.write("text.txt", "two\n")

    done = project.mobuild("path", "target=[copy,prep]", check=False)

    assert done.status == 1
    assert done.out.splitlines()[0] == f"{project.root}/build/small/cpu/copy.txt"
    first, hint, second, _ = done.err.splitlines()
    assert first.startswith("warning: recipe 'small', variant 'cpu': 'copy' is not up to date: inputs.text: ")
    assert hint == "  build it: mobuild 'target=[copy,prep]' recipe=small"
    assert second.endswith("'prep' is not up to date: waits for 'copy'")


@pytest.mark.parametrize("name", ["copy.txt", "prep/a"])
def test_what_was_changed_in_place_is_not_up_to_date(project: Project, name: str) -> None:
    project.write(f"build/small/cpu/{name}", "mine\n")

    done = project.mobuild("path", name.partition(".")[0].partition("/")[0], check=False)

    assert done.status == 1
    assert "is not up to date: it differs from the artifact in the cache" in done.err


def test_what_lies_in_the_cache_alone_is_not_built_here(project: Project) -> None:
    project.mobuild("clean")

    done = project.mobuild("path", "copy", check=False)

    assert (done.status, done.out) == (1, "")
    assert "'copy' is not built; expected" in done.err


def test_what_cannot_be_planned_any_more_is_not_up_to_date(project: Project) -> None:
    (project.root / "text.txt").unlink()

    done = project.mobuild("path", "copy", check=False)

    assert done.status == 1
    assert done.out == f"{project.root}/build/small/cpu/copy.txt\n"
    assert "is not up to date: " in done.err
