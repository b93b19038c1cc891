"""Public faults of sweeps, relative paths and caches of pipelines: the `cfg-`, `cache-` and `ci-` rows of the cases."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.projects import Project, recipe_project

ENDING = '''\
"""Ends as it is told."""
import os, pathlib, signal, sys
how, out = sys.argv[1:]
if how == "raises":
    raise ValueError("no such layer")
if how == "exit0":
    sys.exit(0)
if how == "exit4":
    sys.exit(4)
if how == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
pathlib.Path(out).write_text(how)
'''
ENDS = {
    "raises": "ended with status 1",
    "exit0": "ended with status 0",
    "exit4": "ended with status 4",
    "killed": "was killed by SIGKILL",
}


@pytest.mark.parametrize("order", [("good", *ENDS), (*ENDS, "good")], ids=["the good one first", "the good one last"])
def test_a_job_that_ends_oddly_stops_no_other(tmp_path: Path, order: tuple[str, ...]) -> None:
    """cfg-multirun-failure: hydra#2284, #1465, #2551."""
    nodes = '  end: {kind: command, cmd: "python end.py ${how} {out}", out: .txt}\nhow: good\n'
    project = recipe_project(tmp_path, nodes, {"end.py": ENDING})

    done = project.mobuild("-m", "target=end", f"how={','.join(order)}", check=False)

    assert done.status == 1
    assert len(done.errors) == len(ENDS)
    for text in ENDS.values():
        assert sum(text in error for error in done.errors) == 1, done.err
    assert [Path(line).read_text() for line in done.out.splitlines()] == ["good"]


PATHS = """\
  weights: {kind: source, uri: weights/w.pt}
  copy: {kind: command, cmd: "cp {in.weights} {out}", in: {weights: weights}, out: .pt}
"""


@pytest.mark.parametrize("words", [[], ["-m"], ["hydra.job.chdir=true"], ["-m", "hydra.job.chdir=true"]], ids=str)
@pytest.mark.parametrize("folder", [".", "sub/deeper"])
def test_a_relative_path_is_relative_to_the_project(tmp_path: Path, words: list[str], folder: str) -> None:
    """cfg-relative-path: hydra#922, #2414."""
    project = recipe_project(tmp_path, PATHS, {"weights/w.pt": "x", "sub/deeper/note.txt": ""})
    inside = Project(project.root / folder, project.cache)

    done = inside.mobuild("target=copy", *words)

    (line,) = done.out.splitlines()
    assert (inside.root / line).read_text() == "x"


def test_a_relative_path_that_leads_nowhere_is_told_as_it_was_tried(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, PATHS)

    done = project.mobuild("target=copy", check=False)

    assert done.status == 1
    assert str(project.root / "weights" / "w.pt") in done.err


def test_a_path_is_no_key(tmp_path: Path) -> None:
    """cache-path-keyed: onnxruntime_backend#126, ORT#22244, #12322."""
    project = recipe_project(tmp_path, PATHS, {"weights/w.pt": "one"})
    assert project.built("target=copy", recipe="small") == {"copy"}

    project.write("weights/w.pt", "two")
    assert project.built("target=copy", recipe="small") == {"copy"}

    shutil.move(project.root / "weights", project.root / "moved")
    project.edit("recipes/small.yaml", "weights/w.pt", "moved/w.pt")
    assert project.built("target=copy", recipe="small") == set()

    shutil.move(project.root, tmp_path / "elsewhere")
    elsewhere = Project(tmp_path / "elsewhere", project.cache)
    assert elsewhere.built("target=copy", recipe="small") == set()


def test_the_key_of_a_pipelines_cache_is_never_empty_or_constant(tmp_path: Path) -> None:
    """ci-cache-immutable: actions/cache#171, #921, #106."""
    project = recipe_project(tmp_path, '  end: {kind: command, cmd: "touch {out}", out: .txt}\n' + PATHS)
    project.write("weights/w.pt", "one")

    without_files = project.mobuild("cache", "key", "target=end").out.strip()
    before = project.mobuild("cache", "key", "target=copy").out.strip()
    project.write("weights/w.pt", "two")
    after = project.mobuild("cache", "key", "target=copy").out.strip()

    assert all(len(key) >= 32 for key in (without_files, before, after))
    assert len({without_files, before, after}) == 3


def test_an_older_closure_under_a_newer_key_is_of_use_and_never_wrong(tmp_path: Path) -> None:
    """ci-cache-immutable: a prefix restores what another commit exported."""
    end = '  end: {kind: command, cmd: "cp {in.copy} {out}", in: {copy: copy}, out: .txt}\n'
    project = recipe_project(tmp_path, PATHS + end)
    project.write("weights/w.pt", "one")
    project.mobuild("target=end")
    exported = tmp_path / "closure.tar"
    project.mobuild("cache", "export", str(exported), "target=end")

    project.edit("recipes/small.yaml", "cp {in.copy} {out}", "cp -p {in.copy} {out}")
    there = Project(project.root, tmp_path / "another cache")
    there.mobuild("cache", "import", str(exported))

    assert there.built("target=end", recipe="small") == {"end"}

    project.write("weights/w.pt", "two")
    restored = Project(project.root, tmp_path / "a third cache")
    restored.mobuild("cache", "import", str(exported))
    line = restored.mobuild("target=end").out.strip()
    assert (project.root / line).read_text() == "two"
