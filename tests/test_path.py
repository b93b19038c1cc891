"""`mobuild path`: the place for scripts, and a status that tells whether they may use what lies there."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.onnxmodel.models import matmul
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


def test_what_lies_in_the_cache_alone_is_said_to_and_comes_back(project: Project) -> None:
    project.mobuild("clean")

    done = project.mobuild("path", "copy", check=False)

    assert (done.status, done.out) == (1, "")
    assert done.errors == (
        "recipe 'small', variant 'cpu': 'copy' is in the cache and not in build/; "
        f"expected {project.root}/build/small/cpu/copy.txt\n"
        "  put it there, which runs nothing: mobuild target=copy recipe=small",
    )
    assert project.built("recipe=small", "target=copy", recipe="small") == set()
    assert project.mobuild("path", "copy").err == ""


def test_what_a_failed_build_took_away_is_in_the_cache_once_its_cause_is_gone(project: Project) -> None:
    project.edit("recipes/small.yaml", "cp {in.copy} {out}/a", "cp {in.copy} {out}/no/a")
    project.mobuild("target=prep", check=False)

    failed = project.mobuild("path", "prep", check=False)
    project.edit("recipes/small.yaml", "cp {in.copy} {out}/no/a", "cp {in.copy} {out}/a")
    back = project.mobuild("path", "prep", check=False)

    assert "'prep' is not built; expected" in failed.errors[0]
    assert "its last build failed: node 'prep': " in failed.errors[0]
    assert project.mobuild("plan", "target=prep").out.splitlines()[-1].startswith("fresh ")
    assert "'prep' is in the cache and not in build/" in back.errors[0]


def test_one_target_that_is_not_there_hides_no_other(project: Project) -> None:
    (project.root / "build/small/cpu/copy.txt").unlink()

    done = project.mobuild("path", "target=[copy,prep]", check=False)

    assert (done.status, done.out) == (1, f"{project.root}/build/small/cpu/prep\n")
    assert len(done.errors) == 1


def test_a_source_that_is_gone_is_told_with_what_helps(project: Project) -> None:
    (project.root / "text.txt").unlink()

    done = project.mobuild("path", "text", check=False)

    assert done.errors[0].startswith("recipe 'small', variant 'cpu': 'text' is not built; expected ")
    assert "there is no such file" in done.errors[0] and "put it there, or write where it is" in done.errors[0]


def test_what_cannot_be_planned_any_more_is_not_up_to_date(project: Project) -> None:
    (project.root / "text.txt").unlink()

    done = project.mobuild("path", "copy", check=False)

    assert done.status == 1
    assert done.out == f"{project.root}/build/small/cpu/copy.txt\n"
    assert "is not up to date: " in done.err


def test_what_a_gate_holds_back_is_not_to_be_built_again(tmp_path: Path) -> None:
    made = Project(tmp_path / "project", tmp_path / "cache")
    made.root.mkdir()
    onnx.save(matmul(), made.root / "m.onnx")
    words = ("model=m.onnx", "target=engine", "hardware=cpu", "shapes.n=4", "constraints.engine_mb=0.0001")
    made.mobuild(*words, check=False)

    done = made.mobuild("path", *words, check=False)

    assert done.status == 1
    assert "gate failed: engine_mb" in done.err
    assert "change the limit that it misses" in done.err
    assert "build it: " not in done.err
