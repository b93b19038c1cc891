"""Disks and quotas that are full: said in words, nothing half is kept, and with room the next run comes through."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.steps import NODES, Steps, assert_whole, environment, steps_project
from tests.projects import Finished, recipe_project, small_disk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, whose size the test sets."""
    with small_disk(tmp_path / "disk", "1m") as folder:
        yield folder


def resize(disk: Path, kib: int) -> None:
    subprocess.run(["mount", "-o", f"remount,size={kib}k", str(disk)], check=True)


def run(steps: Steps, *before: str, **more: str) -> Finished:
    command = [*before, sys.executable, "-m", "mobuild", "target=[last,pair]"]
    done = subprocess.run(
        command, cwd=steps.project.root, env=environment(steps, **more), capture_output=True, text=True
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def assert_said(done: Finished, word: str) -> None:
    """It failed, in words, with how to go on, and it is not called a fault of mobuild's."""
    assert done.status == 1
    assert "Traceback" not in done.err and "fault in mobuild" not in done.err
    assert word in done.err and any("\n" in error for error in done.errors)


@pytest.mark.parametrize("kib", [48, 80, 112, 160])
def test_a_disk_with_everything_on_it_that_fills_up(tmp_path: Path, disk: Path, kib: int) -> None:
    steps = steps_project(disk, runs=tmp_path / "runs")
    (disk / "tmp").mkdir()
    resize(disk, kib)

    full = run(steps, BYTES="9000", TMPDIR=str(disk / "tmp"))
    resize(disk, 20_000)
    after = run(steps, BYTES="9000", TMPDIR=str(disk / "tmp"))

    assert_said(full, "")
    assert "full" in full.err or "No space left" in full.err
    assert after.status == 0, after.err
    assert_whole(steps.project.cache)
    assert len(steps.artifacts()) == 3


@pytest.mark.skipif(not shutil.which("prlimit"), reason="prlimit (util-linux) is not here")
def test_a_limit_on_the_size_of_files(tmp_path: Path) -> None:
    steps = steps_project(tmp_path)

    limited = run(steps, "prlimit", "--fsize=100000", BYTES="150000")
    ran = steps.ran()
    after = run(steps, BYTES="150000")

    assert_said(limited, "node 'one'")
    assert after.status == 0
    assert set(ran) == {"one"} and set(steps.ran()) == set(NODES)
    assert_whole(steps.project.cache)


def test_a_record_of_reads_that_had_no_room_is_told(tmp_path: Path, disk: Path) -> None:
    """Temporary files may lie on a disk of their own, which a node fills and clears again."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    nodes = """\
  all: {kind: command, cmd: "sh -c 'cat /dev/zero > $TMPDIR/fill; cat words/* > $0; rm $TMPDIR/fill' {out}", out: .txt}
"""
    words = {f"words/{'a long name ' * 8}{number}.txt": f"{number}\n" for number in range(200)}
    project = recipe_project(tmp_path, nodes, words)

    done = project.mobuild("target=all", env={"TMPDIR": str(disk)})

    sidecar = json.loads((project.root / "build/small/cpu/all.txt.json").read_text())
    assert "preload" not in sidecar["observed_by"]
    assert (
        "warning: small/cpu all: the observer of preload stopped (its records could not be written: the disk is full, "
        "or the library does not load); later reads are not known"
    ) in done.err.splitlines()


def test_without_room_for_temporary_files_it_says_what_to_set(tmp_path: Path, disk: Path) -> None:
    project = recipe_project(tmp_path, "  a: {kind: command, cmd: 'touch {out}', out: .txt}\n")
    everywhere = "import tempfile; tempfile._candidate_tempdir_list = lambda: ['/nowhere']; import mobuild.cli"

    done = subprocess.run(
        [sys.executable, "-c", f"{everywhere}; mobuild.cli.main()", "target=a"],
        cwd=project.root,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 1
    assert done.stderr == (
        "error: no folder takes temporary files: No usable temporary directory found in ['/nowhere']\n"
        "  make room there, or set TMPDIR to another folder\n"
    )
