"""Caches that are copied, on another file system, read-only or not permitted: right, or refused in words."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.faults.steps import NODES, Steps, assert_whole, environment, object_files, record_files, steps_project
from tests.projects import Finished, Project

COPIES = {
    "cp -r": "cp -r {0} {1}",
    "cp -a": "cp -a {0} {1}",
    "tar": "mkdir {1} && tar -C {0} -cf - . | tar -C {1} -xf -",
    "rsync": "rsync -a {0}/ {1}/",
    "without local/": "mkdir {1} && cp -r {0}/format {0}/objects {0}/records {1}/",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Steps:
    """The graph, built once; nobody writes into it."""
    steps = steps_project(tmp_path_factory.mktemp("steps"))
    command_line(steps)
    return steps


@pytest.fixture
def built(made: Steps, tmp_path: Path) -> Steps:
    """A copy to spoil."""
    return Steps(made.project.copy(tmp_path), tmp_path / "runs")


def command_line(steps: Steps, *before: str, status: int = 0) -> Finished:
    command = [*before, sys.executable, "-m", "mobuild", "target=[last,pair]"]
    done = subprocess.run(command, cwd=steps.project.root, env=environment(steps), capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    return Finished(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("how", COPIES)
def test_nothing_is_built_again_after_a_copy(made: Steps, tmp_path: Path, monkeypatch, how: str) -> None:
    if not shutil.which(how.split()[0]) and how != "without local/":
        pytest.skip(f"{how} is not here")
    copied = Steps(Project(made.project.root, tmp_path / "copied"), tmp_path / "runs")
    subprocess.run(COPIES[how].format(made.project.cache, copied.project.cache), shell=True, check=True)
    for name, value in copied.env.items():
        monkeypatch.setenv(name, value)
    wanted = made.artifacts()

    ran = copied.build()

    assert (ran, copied.artifacts()) == (set(), wanted)
    assert_whole(copied.project.cache)


def test_a_copy_in_place_of_the_cache_is_looked_at_anew(built: Steps) -> None:
    command_line(built)
    assert "5 fresh" in command_line(built).err
    old = built.project.cache.with_name("old")
    built.project.cache.rename(old)
    shutil.copytree(old, built.project.cache)
    for path in object_files(built.project.cache):
        path.chmod(0o644)
        path.write_bytes(path.read_bytes()[:-1])

    command_line(built)

    assert set(built.ran()) == set(NODES)


@pytest.mark.parametrize("far", ["cache", "project"])
def test_cache_and_project_may_lie_on_different_file_systems(tmp_path: Path, monkeypatch, far: str) -> None:
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK) or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("/dev/shm is not a file system of its own here")
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        steps = steps_project(
            Path(folder) if far == "project" else tmp_path,
            Path(folder, "cache") if far == "cache" else tmp_path / "cache",
        )
        for name, value in steps.env.items():
            monkeypatch.setenv(name, value)

        first, again = steps.build(), steps.build()

        assert (first, again) == (set(NODES), set())
        assert len(steps.artifacts()) == 3
        assert_whole(steps.project.cache)


@pytest.fixture
def obedient(tmp_path: Path) -> Iterator[Sequence[str]]:
    """Words before a command that make it obey permission bits, which root otherwise does not."""
    if os.geteuid() != 0:
        yield ()
    elif shutil.which("setpriv"):
        yield ("setpriv", "--inh-caps=-all", "--bounding-set=-all")
    else:
        pytest.skip("root, and no setpriv (util-linux) to give that up")
    subprocess.run(["chmod", "-R", "u+rwX", str(tmp_path)], check=True)  # for whoever removes it


def forbid(path: Path, mode: str) -> None:
    subprocess.run(["chmod", "-R", mode, str(path)], check=True)


def test_a_cache_without_write_permission_serves_and_refuses_to_build(built: Steps, obedient: Sequence[str]) -> None:
    forbid(built.project.cache, "a-w")
    shutil.rmtree(built.project.root / "build")

    served, artifacts = command_line(built, *obedient), built.artifacts()
    built.project.write("data/a.txt", "another\n")
    refused = command_line(built, *obedient, status=1)

    assert "5 fresh" in served.err and len(artifacts) == 3
    assert refused.errors[0] == (
        f"node 'one': cache '{built.project.cache}': is read-only, nothing can be built into it\n"
        "  choose another folder with cache.dir=<folder> or MOBUILD_CACHE=<folder>"
    )
    assert built.ran() == {}


FORBIDDEN = {
    "cache": "cache",
    "cache/format": "format",
    "cache/records": "cache",
    "cache/objects": "cache",
    "project/build": "project/build",
    "project/data/a.txt": "data/a.txt",
    "project/data": "data",
    "project/step.sh": "step.sh",
    "project/recipes/steps.yaml": "steps.yaml",
    "project/recipes": "recipes",
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_what_is_not_permitted_is_named(built: Steps, tmp_path: Path, obedient: Sequence[str], name: str) -> None:
    forbid(tmp_path / name, "a-rwx")

    done = command_line(built, *obedient, status=2 if name.endswith(".yaml") else 1)

    assert "Traceback" not in done.err and "fault in mobuild" not in done.err
    assert FORBIDDEN[name] in done.errors[0]


def test_the_part_of_this_machine_that_is_not_permitted_costs_time_alone(
    built: Steps, tmp_path: Path, obedient: Sequence[str]
) -> None:
    forbid(tmp_path / "cache/local", "a-rwx")

    assert "5 fresh" in command_line(built, *obedient).err


def test_files_of_the_store_that_may_not_be_read_are_built_again(built: Steps, obedient: Sequence[str]) -> None:
    wanted = built.artifacts()
    for path in [*object_files(built.project.cache), *record_files(built.project.cache)]:
        forbid(path, "a-rwx")

    command_line(built, *obedient)

    assert set(built.ran()) == set(NODES)
    assert built.artifacts() == wanted
