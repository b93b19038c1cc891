"""Variables that a command's Python script reads: nothing watches it, so its code tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from mobuild.syntax import meaning
from tests.projects import Project, recipe_project

NODES = """\
  wide: {kind: command, cmd: "python tools/wide.py {out}", out: .txt}
"""
SCRIPT = """\
import os, sys

from settings import width

open(sys.argv[1], "w").write(width())
"""
SETTINGS = """\
import os


def width():
    return os.environ.get("SHOP_WIDTH", "16") + os.environ["PATH"][:1]
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return recipe_project(tmp_path, NODES, {"tools/wide.py": SCRIPT, "tools/settings.py": SETTINGS})


def test_a_variable_that_a_script_reads_is_named_once_and_counts(project: Project) -> None:
    first = project.mobuild("target=wide", env={"SHOP_WIDTH": "48"})
    second = project.mobuild("plan", "target=wide", env={"SHOP_WIDTH": "64"})
    again = project.mobuild("plan", "target=wide", env={"SHOP_WIDTH": "48"})

    assert "the code read environment SHOP_WIDTH, which is declared nowhere" in first.err
    assert "stale" in second.out and "environment SHOP_WIDTH: " in second.out
    assert "fresh" in again.out


def test_strict_refuses_such_a_variable_and_its_declaration_is_heard(project: Project) -> None:
    strict = project.mobuild("target=wide", "cache.strict=true", check=False, env={"SHOP_WIDTH": "48"})
    project.edit("recipes/small.yaml", "out: .txt}", 'out: .txt, env: {SHOP_WIDTH: "32"}}')
    declared = project.mobuild("target=wide", "cache.strict=true", env={"SHOP_WIDTH": "48"})

    assert strict.status == 1
    assert "the code read environment SHOP_WIDTH" in strict.errors[0]
    assert Path(declared.out.strip()).read_text().startswith("32")


@pytest.mark.parametrize(
    "line",
    [
        'os.environ["X"]',
        'os.environ.get("X", "1")',
        'os.getenv("X")',
        '"X" in os.environ',
        'environ["X"]',
        'getenv("X")',
        'system.environ.pop("X")',
    ],
)
def test_every_way_to_read_a_variable_by_name_is_found(tmp_path: Path, line: str) -> None:
    (tmp_path / "reads.py").write_text(f"print({line})\n")

    assert meaning(tmp_path / "reads.py").variables == ("X",)


def test_what_is_only_set_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "sets.py").write_text('import os\nos.environ["X"] = "1"\nprint(os.environ[name], os.path.join("X"))\n')

    assert meaning(tmp_path / "sets.py").variables == ()
