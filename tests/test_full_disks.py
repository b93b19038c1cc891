"""A full disk: of the cache, of temporary files, below build/. It is named, and nothing that was built is lost."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mobuild.store.disk import ELSEWHERE
from tests.projects import Project, recipe_project, small_disk

SIZED = """\
  one: {kind: command, cmd: "sh -c 'seq 1 15000 > $0' {out}", out: .txt}
  two: {kind: command, cmd: "sh -c 'cat $1 $1 $1 > $0' {out} {in.one}", needs: {one: one}, out: .txt}
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 200 KiB."""
    with small_disk(tmp_path / "disk", "200k") as folder:
        yield folder


def test_a_full_cache_is_named_and_keeps_what_it_has(tmp_path: Path, disk: Path) -> None:
    project = Project(recipe_project(tmp_path, SIZED).root, disk / "cache")

    full = project.mobuild("target=two", check=False)
    kept = project.mobuild("target=one")
    subprocess.run(["mount", "-o", "remount,size=20m", str(disk)], check=True)
    ran = project.built("target=two", recipe="small")

    assert full.status == 1
    assert f"; the disk of cache '{project.cache}' is full, " in full.errors[0]
    assert full.errors[0].endswith(f"\n  make room there, or {ELSEWHERE}")
    assert "1 fresh" in kept.err
    assert ran == {"two"}


def test_a_full_disk_of_temporary_files_is_named(tmp_path: Path, disk: Path) -> None:
    project = recipe_project(tmp_path, SIZED)
    (disk / "big").write_bytes(b"x" * (196 << 10))  # Python takes another folder where it can write nothing at all

    done = project.mobuild("target=one", check=False, env={"TMPDIR": str(disk)})

    assert done.status == 1
    assert f"; the disk of temporary files '{disk}' is full, " in done.errors[0]
    assert done.errors[0].endswith("\n  make room there, or say another folder by TMPDIR=<folder>")


def test_a_full_disk_below_build_is_named_and_nothing_is_built_twice(tmp_path: Path, disk: Path) -> None:
    project = recipe_project(tmp_path, SIZED)
    (project.root / "build").symlink_to(disk)

    full = project.mobuild("target=two", check=False)
    subprocess.run(["mount", "-o", "remount,size=20m", str(disk)], check=True)
    again = project.mobuild("target=two")

    assert full.status == 1
    assert full.errors[0].startswith(f"'{project.root}/build/small/cpu/two.txt': cannot be written: No space left")
    assert "2 fresh" in again.err
