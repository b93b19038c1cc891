"""Which networks a project defines, by the syntax of its files."""

from __future__ import annotations

from pathlib import Path

from mobuild.starting.classes import classes


def test_a_link_to_nothing_is_no_file_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("import torch\n\n\nclass Net(torch.nn.Module):\n    pass\n")
    (tmp_path / ".#net.py").symlink_to("me@machine.17")

    assert [each.name for each in classes(tmp_path, tmp_path / "recipes")] == ["Net"]
