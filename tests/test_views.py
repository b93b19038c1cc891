"""What lies below build/ is left alone while it is as a run left it, and put right when it is not."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.projects import Project, recipe_project

NODES = """\
  text: {kind: source, uri: text.txt}
  end: {kind: command, cmd: "cp {in.text} {out}", in: {text: text}, out: .txt}
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project whose build/ was found right, and is remembered so."""
    project = recipe_project(tmp_path, NODES, {"text.txt": "one\n"})
    for _ in range(4):  # builds; writes run.json anew; notes; relies on that
        planned(project)
    return project


def planned(project: Project) -> None:
    """A run that repeats no answer."""
    shutil.rmtree(project.root / "build" / ".answers", ignore_errors=True)
    project.mobuild("target=end")


def folder(project: Project) -> Path:
    (run,) = (project.root / "build").glob("*/*/run.json")
    return run.parent


def rewritten(path: Path) -> None:
    """Other content of equal size, and the old times."""
    seen = path.stat()
    path.write_bytes(path.read_bytes().replace(b"o", b"0"))
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))


@pytest.mark.parametrize("damage", [Path.unlink, rewritten])
@pytest.mark.parametrize("name", ["end.txt", "end.txt.json", "run.json"])
def test_a_damaged_file_is_put_right(project: Project, name: str, damage: Callable[[Path], None]) -> None:
    path = folder(project) / name
    before = path.read_bytes()

    damage(path)
    planned(project)

    if name == "run.json":  # names the run that wrote it
        assert json.loads(path.read_bytes())["nodes"] == json.loads(before)["nodes"]
    else:
        assert path.read_bytes() == before


def test_an_artifact_under_a_former_name_is_taken_away(project: Project) -> None:
    former = folder(project) / "end.onnx"
    former.write_bytes(b"old")

    planned(project)

    assert not former.exists()


def test_other_overrides_of_the_same_variant_are_told(project: Project) -> None:
    before = json.loads((folder(project) / "run.json").read_bytes())["overrides"]

    project.mobuild("target=[end]")

    assert json.loads((folder(project) / "run.json").read_bytes())["overrides"] != before


def test_what_why_compares_with_is_put_back(project: Project) -> None:
    (ref,) = project.cache.glob("local/*/refs/*/*.json")
    before = ref.read_bytes()

    ref.unlink()
    planned(project)

    assert ref.read_bytes() == before


def test_refs_are_of_today_again(project: Project) -> None:
    """By their times gc tells what a project that is gone for the moment may still want."""
    (ref,) = project.cache.glob("local/*/refs/*/*.json")

    for _ in range(4):  # looked into, and known to be left
        os.utime(ref, (1_700_000_000, 1_700_000_000))
        planned(project)
        assert time.time() - ref.stat().st_mtime < 3600
        planned(project)


def test_a_document_is_the_same_from_the_record_and_from_what_is_known_of_it(tmp_path: Path) -> None:
    nodes = NODES.replace("out: .txt}\n", "out: .txt, cwd: '', env: {B: b, A: a}}\n")
    project = recipe_project(tmp_path, nodes, {"text.txt": "one\n"})
    project.mobuild("target=end")
    seen = (folder(project) / "end.txt.json").stat()

    for _ in range(2):
        planned(project)

    assert (folder(project) / "end.txt.json").stat().st_mtime_ns == seen.st_mtime_ns
