"""What gc removes, what it never touches, and builds that go on beside it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.projects import Project, recipe_project

NODES = """\
  text: {kind: source, uri: text.txt}
  copy: {kind: command, cmd: "cp {in.text} {out}", in: {text: text}, out: .txt}
  end: {kind: command, cmd: "sh -c 'cat $0 $0 > $1' {in.copy} {out}", in: {copy: copy}, out: .txt}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = recipe_project(tmp_path_factory.mktemp("gc"), NODES, {"text.txt": "one\n"})
    project.mobuild("target=end")
    return project


@pytest.fixture
def project(built: Project, tmp_path: Path) -> Project:
    """A built project; the refs in its cache name the one that it was copied from."""
    return built.copy(tmp_path)


def gc(project: Project, *words: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(project.mobuild("gc", "format=json", *words).out)
    return document


def records(project: Project) -> list[Path]:
    return sorted((project.cache / "records").rglob("*.json"))


def objects(project: Project) -> list[Path]:
    return sorted(path for path in (project.cache / "objects").rglob("*") if path.is_file())


def release(project: Project) -> None:
    """Forget which projects stand for what, as if their folders were gone."""
    for machine in project.cache.glob("local/*"):
        release_of(machine)


def release_of(machine: Path) -> None:
    shutil.rmtree(machine / "refs")


def make_old(project: Project, days: int) -> None:
    """Let all of the cache be that old, and unused for as long."""
    for path in records(project):
        os.utime(path, (time.time() - days * 86400,) * 2)
    make_used(project, days)


def make_used(project: Project, days: int) -> None:
    """Let all of the cache be unused for that long."""
    for path in project.cache.glob("local/*/used/*"):
        os.utime(path, (time.time() - days * 86400,) * 2)


def test_the_last_build_of_a_project_stays_and_the_one_before_goes(project: Project) -> None:
    project.mobuild("target=end")
    project.write("text.txt", "two\n")
    project.mobuild("target=end")
    release_of_the_origin(project)

    removed = gc(project, "gc.age=0")["removed"]

    assert [one["kind"] for one in removed] == ["command", "command"]
    assert project.built("target=end", recipe="small") == set()
    project.write("text.txt", "one\n")
    assert project.built("target=end", recipe="small") == {"copy", "end"}


def release_of_the_origin(project: Project) -> None:
    """Remove the refs of the project that this one was copied from."""
    for path in project.cache.glob("local/*/refs/*/*.json"):
        if json.loads(path.read_text())["project"] != str(project.root):
            path.unlink()


def test_without_options_a_month_decides(project: Project) -> None:
    release(project)

    make_old(project, days=29)
    assert gc(project)["removed"] == []
    make_old(project, days=31)
    assert len(gc(project)["removed"]) == 2

    assert (records(project), objects(project)) == ([], [])


def test_a_use_makes_it_young_again(project: Project) -> None:
    make_old(project, days=31)
    shutil.rmtree(project.root / "build")  # a repeated answer is no use
    project.mobuild("target=copy")
    release(project)

    removed = gc(project)["removed"]

    assert len(removed) == 1
    assert project.built("target=end", recipe="small") == {"end"}


def test_a_run_that_finds_build_as_it_was_left_notes_uses_once_a_day(project: Project) -> None:
    def planned() -> list[bool]:
        """Whether each record is noted as used today, after a run that planned."""
        shutil.rmtree(project.root / "build/.answers", ignore_errors=True)
        project.mobuild("target=end")
        return [path.stat().st_mtime > time.time() - 86400 for path in project.cache.glob("local/*/used/*")]

    assert planned() == [True, True]
    time.sleep(0.2)  # files of this instant are not trusted
    assert planned() == [True, True]
    make_used(project, days=2)

    assert planned() == [False, False]

    for path in project.cache.glob("local/*/refs/*/*.json"):
        os.utime(path, (time.time() - 2 * 86400,) * 2)
    assert planned() == [True, True]


def test_a_dry_run_says_the_same_and_removes_nothing(project: Project) -> None:
    release(project)
    before = records(project), objects(project)

    said = gc(project, "gc.age=0", "gc.dry_run=true")
    after = records(project), objects(project)
    done = gc(project, "gc.age=0")

    assert after == before
    assert said["dry_run"] and said["freed_bytes"] == done["freed_bytes"] > 0
    assert [one["record"] for one in said["removed"]] == [one["record"] for one in done["removed"]]


def test_a_project_that_is_gone_keeps_nothing_and_its_neighbour_in_the_same_cache_all(tmp_path: Path) -> None:
    one = recipe_project(tmp_path / "one", NODES, {"text.txt": "one\n"})
    two = Project(tmp_path / "two", one.cache)
    shutil.copytree(one.root, two.root)
    two.write("text.txt", "two\n")
    one.mobuild("target=end")
    two.mobuild("target=end")
    shutil.rmtree(one.root)

    assert {item["name"] for item in gc(two, "gc.age=0")["removed"]} == {"small/cpu copy", "small/cpu end"}

    assert two.built("target=end", recipe="small") == set()


def test_people_read_what_went_and_what_is_left(project: Project) -> None:
    release(project)
    (project.cache / "objects" / "ab").mkdir(exist_ok=True)
    (project.cache / "objects" / "ab" / ("c" * 30)).write_bytes(b"stray")

    make_old(project, days=40)
    lines = project.mobuild("gc").out.splitlines()

    assert sorted(re.sub("[0-9a-f]{8}", "…", line) for line in lines[:2]) == [
        "removed  command …: 4 bytes, unused for 40 days",
        "removed  command …: 8 bytes, unused for 40 days",
    ]
    assert lines[2:] == [
        "freed 17 bytes: records: 2, objects: 4 (1 of no record before)",
        "left 0 bytes",
    ]


@pytest.mark.parametrize("size", ["0", "1"])
def test_a_size_that_cannot_be_reached_is_said(project: Project, size: str) -> None:
    done = project.mobuild("gc", f"gc.size={size}")

    assert done.out.splitlines()[-1] == "left 12 bytes; the last build of a project: 2"
    assert done.err == "note: more than gc.size is left: pins, projects, running builds and a gc.age hold it\n"


def test_what_dead_runs_left_goes_and_old_damage_with_it(project: Project) -> None:
    (local,) = project.cache.glob("local/*")
    for name in ("staging/node-dead/out", "quarantine/ab", "runs/20200101-000000-abcd"):
        (local / name).mkdir(parents=True, exist_ok=True)
    for name in ("quarantine/ab", "runs/20200101-000000-abcd"):
        os.utime(local / name, (0, 0))
    (local / "running").mkdir(exist_ok=True)
    (local / "running" / "dead").write_text("1\n")

    left = gc(project)["leftovers"]

    assert [Path(path).name for path in left] == ["node-dead", "ab", "20200101-000000-abcd"]
    assert not any(Path(path).exists() for path in left)
    assert list((local / "running").iterdir()) == []


def test_the_part_of_a_machine_that_did_not_build_for_long_goes_with_what_it_kept(project: Project) -> None:
    (here,) = project.cache.glob("local/*")
    younger, older = here.with_name("younger"), here.with_name("older")
    for machine in (younger, older):
        shutil.copytree(here, machine)
        (machine / "staging/node-x").mkdir()
    release_of(here)
    release_of(younger)
    make_old(project, days=40)
    then = time.time() - 40 * 86400
    for path in (*younger.iterdir(), younger, *older.iterdir(), older):
        os.utime(path, (then, then))
    os.utime(younger / "running")

    removed = gc(project, "gc.age=0s")

    assert (younger.exists(), older.exists()) == (True, False)
    assert str(older) in removed["leftovers"]
    assert len(removed["removed"]) == 2


def test_a_gc_that_died_after_the_records_leaves_strays_for_the_next(project: Project) -> None:
    for path in records(project):
        path.unlink()

    assert gc(project)["stray_objects"] == 3  # two artifacts, and the empty log of both

    assert objects(project) == []
    assert project.built("target=end", recipe="small") == {"copy", "end"}


FAILS = """\
  text: {kind: source, uri: text.txt}
  copy: {kind: command, cmd: "cp {in.text} {out}", in: {text: text}, out: .txt}
  end: {kind: command, cmd: "sh -c 'cat {in.copy}; exit 1'", in: {copy: copy}, out: .txt}
"""


def test_a_failed_build_keeps_its_inputs_until_it_is_old(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, FAILS, {"text.txt": "one\n"})
    project.mobuild("target=end", check=False)
    release(project)
    make_old(project, days=31)
    (failed,) = project.cache.glob("local/*/failed/*/*")

    assert len(gc(project)["removed"]) == 1
    assert (failed / "in/copy.txt").read_text() == "one\n"

    os.utime(failed, (0, 0))
    assert gc(project)["leftovers"] == [str(failed)]
    assert (failed.exists(), objects(project)) == (False, [])


SLOW = """\
  first: {kind: command, cmd: "cp recipes/small.yaml {out}", out: .txt}
  slow:
    kind: command
    cmd: "sh -c 'touch build/begun; while ! test -e go; do sleep 0.02; done; cat $0 > $1' {in.m} {out}"
    needs: {m: first}
    out: .txt
  last: {kind: command, cmd: "sh -c 'cat $0 $1 > $2' {in.m} {in.n} {out}", needs: {m: first, n: slow}, out: .txt}
"""


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[Project, subprocess.Popen[str]]]:
    """A project whose build stands in the node `slow`, having taken `first` as a hit."""
    project = recipe_project(tmp_path, SLOW)
    project.mobuild("target=first")
    process = subprocess.Popen(
        [sys.executable, "-m", "mobuild", "target=last"],
        cwd=project.root,
        env={**os.environ, "MOBUILD_CACHE": str(project.cache)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not (project.root / "build/begun").exists():
        assert process.poll() is None and time.monotonic() < deadline, "did not begin"
        time.sleep(0.02)
    yield project, process
    process.kill()
    process.communicate()


def test_what_a_running_build_took_and_stages_stays_until_it_ends(
    running: tuple[Project, subprocess.Popen[str]],
) -> None:
    project, process = running
    release(project)

    during = gc(project, "gc.age=0")
    (project.root / "go").touch()
    out, err = process.communicate(timeout=60)
    release(project)
    after = gc(project, "gc.age=0")

    assert during["removed"] == []
    assert during["kept"] == {"in use by a running build": 1}
    assert process.returncode == 0, err
    assert Path(out.strip()).read_text() == (project.root / "recipes/small.yaml").read_text() * 2
    assert len(after["removed"]) == 3


def test_a_killed_build_keeps_nothing(running: tuple[Project, subprocess.Popen[str]]) -> None:
    project, process = running
    release(project)
    process.kill()
    process.wait()

    done = gc(project, "gc.age=0")

    assert len(done["removed"]) == 1
    assert list(project.cache.glob("local/*/staging/*")) == []


def test_builds_beside_a_gc_that_never_stops_all_succeed(project: Project) -> None:
    """The gc finds no ref: every record that nobody claims goes at once."""
    code = """
import shutil, sys
from pathlib import Path
from mobuild.store import Store, gc
limits = gc.Limits(None, 0, 1e9)
while not Path("stop").exists():
    store = Store.open(Path(sys.argv[1]))
    for refs in (store.local / "refs").iterdir():  # not the folder: without it others take the store for read-only
        shutil.rmtree(refs, ignore_errors=True)
    with store.claims.removing():
        found = gc.survey(store, limits)
        chosen = gc.choose(found, limits, 1 << 62)
        gc.remove(store, chosen, gc.without(found, chosen))
"""
    collector = subprocess.Popen([sys.executable, "-c", code, str(project.cache)], cwd=project.root)
    try:
        for number in range(4):
            project.write("text.txt", f"{number % 2}\n")
            done = project.mobuild("target=end", "-m", "hardware=cpu,l20")
            assert Path(done.out.splitlines()[0]).read_text() == f"{number % 2}\n" * 2
    finally:
        (project.root / "stop").touch()
        assert collector.wait(timeout=60) == 0
