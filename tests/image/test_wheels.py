"""What of a wheel comes into an image, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from mobuild.image import locked, wheels
from mobuild.image.tree import Tree
from tests.image.packages import wheel


def test_only_the_data_of_the_wheel_itself_goes_elsewhere(tmp_path: Path) -> None:
    files = {
        "a/__init__.py": b"",
        "a/tables.data/x.bin": b"x",
        "a/tables.data/purelib/y.bin": b"y",
        "a-1.data/purelib/a/z.py": b"",
        "a-1.data/scripts/tool": b"#!python",
    }
    tree = Tree()

    wheels.unpack([wheel(tmp_path / "a-1-py3-none-any.whl", files)], (), tree)

    found = [entry.path[len(wheels.SITE) + 1 :] for entry in tree.entries() if not entry.is_folder]
    assert found == ["a/__init__.py", "a/tables.data/purelib/y.bin", "a/tables.data/x.bin", "a/z.py"]


def test_a_wheel_of_a_local_version_is_fetched_as_it_was_pinned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info, file = "a-1.0+cpu.dist-info", "a-1.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"
    metadata = b"Metadata-Version: 2.1\nName: a\nVersion: 1.0+cpu\n"
    (tmp_path / "index").mkdir()
    (tmp_path / "got").mkdir()
    wheel(tmp_path / "index" / file, {f"{info}/METADATA": metadata, f"{info}/WHEEL": b"Wheel-Version: 1.0\n"})
    for name, value in (("NO_INDEX", "1"), ("FIND_LINKS", str(tmp_path / "index")), ("CONFIG_FILE", "/dev/null")):
        monkeypatch.setenv(f"PIP_{name}", value)

    found = wheels.resolve(["a"], "amd64")
    wheels.fetch(found, "amd64", tmp_path / "got")

    locked.check(found, tmp_path / "got")
    assert [package.file for package in found] == [file]
