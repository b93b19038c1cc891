"""Damage in the store: it heals, or it is refused in words; it is never served."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mobuild.errors import StoreError
from mobuild.fingerprint import digest_bytes
from tests.faults.damages import DAMAGES, PICKLE, flip, remove
from tests.faults.steps import NODES, Steps, assert_whole, object_files, record_files, run_states, steps_project
from tests.projects import Project, recipe_project


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Steps]:
    """The graph, built; every test leaves it whole."""
    steps = steps_project(tmp_path_factory.mktemp("steps"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**steps.env, "PWNED": str(steps.runs.with_name("pwned"))}.items():
            patch.setenv(name, value)
        assert steps.build() == set(NODES)
        yield steps


def artifacts(cache: Path) -> list[Path]:
    """The objects of artifacts, of folders and of their members; not the logs, which a build does not read."""
    logs = {json.loads(path.read_bytes())["log"] for path in record_files(cache)}
    return [path for path in object_files(cache) if path.parent.name + path.name not in logs]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("files", [artifacts, record_files], ids=["objects", "records"])
def test_each_file_of_the_store_in_turn_heals(
    built: Steps, files: Callable[[Path], list[Path]], damage: Callable[[Path], None]
) -> None:
    wanted, places = built.artifacts(), files(built.project.cache)
    assert len(places) == (6 if files is artifacts else 4)

    for place in places:
        shutil.rmtree(built.project.root / "build")
        damage(place)
        ran = built.build()

        assert built.artifacts() == wanted, place
        assert ran, place  # the damage was noticed

    assert built.build() == set()
    assert_whole(built.project.cache)
    assert not built.runs.with_name("pwned").exists()


def test_a_damaged_log_is_not_shown(built: Steps) -> None:
    (record,) = [path for path in record_files(built.project.cache) if b"step.sh three" in path.read_bytes()]
    log = json.loads(record.read_bytes())["log"]
    assert built.project.mobuild("log", "three", env=built.env).out == "building three\n"
    flip(built.project.cache / "objects" / log[:2] / log[2:])

    done = built.project.mobuild("log", "three", env=built.env, check=False)

    assert done.status == 1
    assert done.out == "" and "the log of 'three' in the cache was lost or damaged" in done.err


VARYING = """\
  one: {kind: command, cmd: "sh -c 'date +%N > $0' {out}", out: .txt}
  two: {kind: command, cmd: "cp {in.x} {out}", needs: {x: one}, out: .txt}
"""


def test_a_lost_artifact_whose_bytes_vary_from_build_to_build_heals(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, VARYING)
    project.mobuild("target=[one,two]")
    for path in object_files(project.cache):
        path.unlink()

    rebuilt = project.built("target=[one,two]", recipe="small")
    again = project.built("target=[one,two]", recipe="small")

    one, two = (project.root / "build/small/cpu" / name for name in ("one.txt", "two.txt"))
    assert (rebuilt, again) == ({"one", "two"}, set())
    assert one.read_bytes() == two.read_bytes()


LOCAL: dict[str, Callable[[Path], None]] = {
    "stat cache of nonsense": lambda local: (local / "files.sqlite").write_bytes(b"nonsense" * 999),
    "stat cache of pickle bytes": lambda local: (local / "files.sqlite").write_bytes(PICKLE),
    "stat cache cut short": lambda local: os.truncate(local / "files.sqlite", 5000),
    "stat cache of another program": lambda local: _other_database(local / "files.sqlite"),
    "stat cache is a folder": lambda local: _folder(local / "files.sqlite"),
    "refs of pickle bytes": lambda local: _each(local / "refs", lambda path: path.write_bytes(PICKLE)),
    "refs of lists": lambda local: _each(local / "refs", lambda path: path.write_text("[[[]]]")),
    "no refs": lambda local: shutil.rmtree(local / "refs"),
    "no locks": lambda local: shutil.rmtree(local / "locks"),
    "no staging": lambda local: shutil.rmtree(local / "staging"),
    "nothing local": lambda local: shutil.rmtree(local),
}


def _other_database(path: Path) -> None:
    path.unlink()
    subprocess.run(
        [shutil.which("python3") or "python3", "-c", _DATABASE, str(path)],
        check=True,
    )


_DATABASE = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('CREATE TABLE files (a, b)')"


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _each(folder: Path, change: Callable[[Path], object]) -> None:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    for path in files:
        change(path)


@pytest.mark.parametrize("damage", LOCAL)
def test_what_is_only_of_this_machine_costs_time_alone(built: Steps, damage: str) -> None:
    built.build()  # what an earlier test took away
    wanted = built.artifacts()
    (local,) = (built.project.cache / "local").iterdir()
    for ending in ("-wal", "-shm"):
        (local / f"files.sqlite{ending}").unlink(missing_ok=True)
    LOCAL[damage](local)
    shutil.rmtree(built.project.root / "build")

    ran = built.build()

    assert (ran, built.artifacts()) == (set(), wanted)
    assert not built.runs.with_name("pwned").exists()


@pytest.mark.parametrize("content", [b"", b"2\n", b"1 or so", b"\xff\xfe", PICKLE])
def test_a_damaged_format_is_refused(built: Steps, content: bytes) -> None:
    place = built.project.cache / "format"
    place.write_bytes(content)

    with pytest.raises(StoreError) as caught:
        built.build()

    assert caught.value.message.startswith(f"cache '{built.project.cache}': ")
    assert "format" in caught.value.message and caught.value.hint
    place.write_text("1\n")
    assert built.build() == set()


JUNK: dict[str, Callable[[Path], None]] = {
    "sidecar of junk": lambda folder: (folder / "last.json").write_bytes(PICKLE),
    "run.json of junk": lambda folder: (folder / "run.json").write_text('{"nodes": []}'),
    "run.json without end": lambda folder: (folder / "run.json").write_text('{"nodes": ' + "[" * 200_000),
    "run.json of other nodes": lambda folder: (folder / "run.json").write_text('{"nodes": {"last": 7}}'),
    "artifact cut short": lambda folder: os.truncate(folder / "last", 3),
    "artifact is a folder": lambda folder: _folder(folder / "last"),
    "artifact is a dangling link": lambda folder: _dangling(folder / "last"),
    "folder with more in it": lambda folder: (folder / "pair" / "more").write_text("more"),
    "folder with a link in it": lambda folder: (folder / "pair" / "more").symlink_to("/etc"),
    "folder with a pipe in it": lambda folder: os.mkfifo(folder / "pair" / "more"),
    "folder is a file": lambda folder: _file(folder / "pair"),
}


def _dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def _file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("a file")


@pytest.mark.parametrize("junk", JUNK)
def test_junk_below_build_is_replaced(built: Steps, junk: str) -> None:
    wanted = built.artifacts()
    JUNK[junk](built.build_folder)

    ran = built.build()

    assert (ran, built.artifacts()) == (set(), wanted)
    assert json.loads((built.build_folder / "last.json").read_text())["node"] == "last"
    assert run_states(built)["last"] == "fresh"


@pytest.mark.parametrize("damage", [each for each in DAMAGES if each is not remove], ids=lambda damage: damage.__name__)
def test_damage_is_told_once_and_by_name(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    project = recipe_project(
        tmp_path,
        "  one: {kind: command, cmd: 'cp {in.x} {out}', needs: {x: x}, out: .txt}\n  x: {kind: source, uri: x}\n",
        {"x": "content"},
    )
    project.mobuild("target=one")
    (record,) = record_files(project.cache)
    digest = json.loads(record.read_bytes())["artifact"]["digest"]
    damage(project.cache / "objects" / digest[:2] / digest[2:])

    done = project.mobuild("target=one")

    told = [line for line in done.err.splitlines() if line.startswith("warning: ")]
    assert len(told) == 1
    assert told[0].startswith(f"warning: cache object {digest} was damaged (")
    assert told[0].endswith("), and is in quarantine now")


@pytest.fixture
def one(tmp_path: Path) -> Project:
    project = recipe_project(
        tmp_path,
        "  one: {kind: command, cmd: 'cp {in.x} {out}', needs: {x: x}, out: .txt}\n  x: {kind: source, uri: x}\n",
        {"x": "content"},
    )
    project.mobuild("target=one")
    return project


def reason(project: Project) -> str:
    """Why the node is stale; asked twice, since looking at damage moves it away."""
    said = [project.mobuild("why", "target=one").out for _ in range(2)]
    assert said[0] == said[1]
    return said[0].splitlines()[1].strip()


def test_a_damaged_record_is_called_so(one: Project) -> None:
    (record,) = record_files(one.cache)
    record.chmod(0o644)
    record.write_text("{}")

    assert reason(one) == "its record in the cache is damaged"
    record.unlink()
    assert reason(one) == "its record in the cache is missing"


@pytest.mark.parametrize("part", ["artifact", "member"])
def test_a_damaged_artifact_is_told_from_a_lost_one(one: Project, part: str) -> None:
    if part == "member":
        one.edit(
            "recipes/small.yaml",
            "cp {in.x} {out}', needs: {x: x}, out: .txt",
            "cp {in.x} {out}/x', in: {x: x}, out: folder",
        )
        one.mobuild("target=one")
    digest = digest_bytes(b"content")
    path = one.cache / "objects" / digest[:2] / digest[2:]
    path.chmod(0o644)
    path.write_text("c0ntent")

    assert reason(one) == "its artifact in the cache is damaged"
    shutil.rmtree(next(one.cache.glob("local/*/quarantine")))
    assert reason(one) == "its artifact in the cache is missing"


def test_an_object_that_nothing_builds_again_is_not_said_to_be(one: Project) -> None:
    digest = digest_bytes(b"content")
    path = one.cache / "objects" / digest[:2] / digest[2:]
    path.chmod(0o644)
    path.write_text("c0ntent")

    done = one.mobuild("target=one", "frozen=true", check=False)

    assert "built again" not in done.err
    assert "its artifact in the cache is damaged" in done.err
