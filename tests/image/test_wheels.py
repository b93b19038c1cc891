"""What of a wheel comes into an image, and where."""

from __future__ import annotations

from pathlib import Path

from mobuild.image import wheels
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
