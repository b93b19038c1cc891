"""`mobuild verify`: every damage is found and named, heals, and harms nothing; rebuilds are compared."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.projects import Project, recipe_project

NODES = """\
  prep: {kind: command, cmd: "sh -c 'mkdir -p $0/sub; echo a > $0/a; echo b > $0/sub/b' {out}", out: folder}
  end: {kind: command, cmd: "sh -c 'cat $0 $0 > $1' {in.m} {out}", needs: {m: prep/sub/b}, out: .txt}
  stamp: {kind: command, cmd: "sh -c 'date +%s.%N > $0' {out}", out: .txt}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = recipe_project(tmp_path_factory.mktemp("verify"), NODES)
    project.mobuild("target=[end,stamp]")
    return project


@pytest.fixture
def project(built: Project, tmp_path: Path) -> Project:
    project = built.copy(tmp_path)
    project.mobuild("target=[end,stamp]")  # its own refs and tokens
    return project


def artifact_of(project: Project, node: str) -> Path:
    """The object of a node's artifact."""
    sidecar = next((project.root / "build/small/cpu").glob(f"{node}*.json"))
    digest = json.loads(sidecar.read_text())["digest"]
    return project.cache / "objects" / digest[:2] / digest[2:]


def verify(project: Project, *words: str, status: int = 0) -> dict[str, Any]:
    done = project.mobuild("verify", "format=json", *words, check=False)
    assert done.status == status, done.err
    document: dict[str, Any] = json.loads(done.out)
    return document


def truncate(path: Path) -> None:
    path.chmod(0o644)
    os.truncate(path, path.stat().st_size - 1)


def flip(path: Path) -> None:
    """Change one bit and put the mtime back."""
    before = path.stat()
    path.chmod(0o644)
    data = path.read_bytes()
    path.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def empty(path: Path) -> None:
    path.chmod(0o644)
    path.write_bytes(b"")


def test_a_sound_cache_is_status_0(project: Project) -> None:
    found = verify(project)

    assert (found["damaged"], found["stray_objects"]) == ([], 0)
    assert found["objects"] == len([path for path in (project.cache / "objects").rglob("*") if path.is_file()])


@pytest.mark.parametrize("words", [(), ("target=end",)], ids=["all", "target"])
@pytest.mark.parametrize(
    ("damage", "problem"), [(truncate, "damaged"), (flip, "damaged"), (empty, "damaged"), (Path.unlink, "lost")]
)
def test_damage_is_named_once_and_heals(
    project: Project, damage: Callable[[Path], None], problem: str, words: tuple[str, ...]
) -> None:
    path = artifact_of(project, "end")
    damage(path)

    found = verify(project, *words, status=1)["damaged"]

    assert [(one["problem"], one["part"], one["name"]) for one in found] == [(problem, "artifact", "small/cpu end")]
    assert found[0]["subject"] == path.parent.name + path.name
    assert len(list(project.cache.glob("local/*/quarantine/*/object"))) == (problem == "damaged")
    assert verify(project, *words)["damaged"] == []
    assert project.built("target=end", recipe="small") == {"end"}
    assert (project.root / "build/small/cpu/end.txt").read_text() == "b\nb\n"


def test_damage_that_no_token_shows_is_found(project: Project) -> None:
    """As a write through a shared memory map may leave it: the stat token that is remembered fits."""
    path = artifact_of(project, "end")
    flip(path)
    note_token(project, path)
    assert project.built("target=end", recipe="small") == set()

    assert [one["problem"] for one in verify(project, status=1)["damaged"]] == ["damaged"]


def note_token(project: Project, path: Path) -> None:
    project.python(
        "from pathlib import Path; from mobuild.store import Store; import sys\n"
        f"path = Path({str(path)!r}); store = Store.open(Path({str(project.cache)!r}))\n"
        "store.files.note(path, path.parent.name + path.name)"
    )


def test_a_lost_member_of_a_folder_costs_the_folder_alone(project: Project) -> None:
    for path in (project.cache / "objects").rglob("*"):
        if path.is_file() and path.read_bytes() == b"a\n":
            path.unlink()

    found = verify(project, status=1)["damaged"]

    assert [(one["problem"], one["name"]) for one in found] == [("lost", "small/cpu prep")]
    assert project.built("target=end", recipe="small") == {"prep"}


class Bomb:
    """Unpickling it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return open, (str(self.path), "w")


@pytest.mark.parametrize("content", ["garbage", "pickle"])
def test_what_is_no_record_is_set_aside_and_does_nothing(project: Project, tmp_path: Path, content: str) -> None:
    key = json.loads((project.root / "build/small/cpu/end.txt.json").read_text())["key"]
    record = project.cache / "records" / key[:2] / key / "plain.json"
    data = pickle.dumps(Bomb(tmp_path / "boom")) if content == "pickle" else b'{"schema": 1, "key": [}'
    record.chmod(0o644)
    record.write_bytes(data)

    found = verify(project, status=1)

    assert [(one["problem"], one["subject"]) for one in found["damaged"]] == [("unreadable", f"{key}/plain.json")]
    assert record.with_name("plain.json.damaged-1").read_bytes() == data
    assert found["stray_objects"] == 1
    assert project.built("target=end", recipe="small") == {"end"}
    assert verify(project)["stray_objects"] == 0
    assert not (tmp_path / "boom").exists()


def test_people_read_what_was_damaged_and_what_becomes_of_it(project: Project) -> None:
    path = artifact_of(project, "end")
    flip(path)
    digest = path.parent.name + path.name

    done = project.mobuild("verify", check=False)

    assert done.status == 1
    lines = done.out.splitlines()
    assert lines[0] == (
        f"damaged    small/cpu end: artifact, object {digest} was moved to quarantine; "
        "its record was set aside, and it is built again when it is needed"
    )
    assert lines[1].endswith(": 1 damaged")


def test_a_target_is_verified_without_the_rest(project: Project) -> None:
    flip(artifact_of(project, "stamp"))

    assert verify(project, "target=end")["damaged"] == []


def test_a_rebuild_tells_what_is_deterministic_and_leaves_the_good_one(project: Project) -> None:
    before = artifact_of(project, "stamp").read_bytes()

    rows = verify(project, "target=[end,stamp]", "verify.rebuild=true")["rebuilt"]
    lines = project.mobuild("verify", "target=[end,stamp]", "verify.rebuild=true").out.splitlines()

    assert {row["node"]: row["result"] for row in rows} == {
        "small/cpu prep": "deterministic",
        "small/cpu end": "deterministic",
        "small/cpu stamp": "varies",
    }
    assert "varies        small/cpu stamp  equal 0 of 2 times (command)" in lines
    assert artifact_of(project, "stamp").read_bytes() == before
    assert project.built("target=[end,stamp]", recipe="small") == set()
    assert list(project.cache.glob("local/*/staging/*")) == []


def test_a_rebuild_that_fails_is_status_1(tmp_path: Path) -> None:
    project = recipe_project(
        tmp_path, """  c: {kind: command, cmd: "sh -c 'test ! -e stop && echo 1 > $0' {out}", out: .txt}\n"""
    )
    project.mobuild("target=c")
    (project.root / "stop").touch()

    (row,) = verify(project, "target=c", "verify.rebuild=true", status=1)["rebuilt"]

    assert row["result"] == "failed"
    assert row["detail"].startswith("node 'c': ")
    assert project.mobuild("path", "c").out


def test_a_rebuild_without_a_target_is_status_2(project: Project) -> None:
    done = project.mobuild("verify", "verify.rebuild=true", check=False)

    assert done.status == 2
    assert done.errors[0].startswith("verify.rebuild: of what?\n  name a target: ")


def test_what_a_kept_failure_needs_is_no_stray(tmp_path: Path) -> None:
    nodes = """\
  one: {kind: command, cmd: "sh -c 'echo one | tee $0' {out}", out: .txt}
  two: {kind: command, cmd: "false {in.x} {out}", needs: {x: one}, out: .txt}
"""
    project = recipe_project(tmp_path, nodes)
    project.mobuild("target=two", check=False)
    for path in project.cache.glob("records/*/*/*.json"):
        path.unlink()
    logged = project.mobuild("gc", "gc.dry_run=true", "format=json").out

    assert verify(project)["stray_objects"] == json.loads(logged)["stray_objects"] == 0
    assert list(project.cache.glob("objects/*/*"))


def test_a_damaged_log_is_told_once_as_damage_and_then_as_lost(project: Project) -> None:
    """Nothing needs a log, so its loss must not fail every later run."""
    project.mobuild("target=[end,stamp]")
    record = json.loads(next(project.cache.glob("records/*/*/*.json")).read_text())
    log = project.cache / "objects" / record["log"][:2] / record["log"][2:]
    log.chmod(0o644)
    log.write_text("another text")

    first, second = verify(project, status=1), verify(project)

    assert {(one["problem"], one["part"]) for one in first["damaged"]} == {("damaged", "log")}
    assert {(one["problem"], one["part"]) for one in second["damaged"]} == {("lost", "log")}
