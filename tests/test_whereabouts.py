"""`why` names the file behind a change: of code, of a source, in a folder."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.projects import Project, recipe_project

NODES = """\
  images: {kind: source, uri: data/images}
  made: {kind: command, cmd: "cp -r {in.images} {out}", in: {images: images}, out: folder}
  count: {kind: command, cmd: "python tools/count.py {in.made} {out}", in: {made: made}, out: .txt}
"""
FILES = {
    **{f"data/images/{name}.png": name for name in "abcde"},
    "tools/count.py": "import os, sys\n\nimport words\n\nopen(sys.argv[2], 'w').write(str(os.listdir(sys.argv[1])))\n",
    "tools/words.py": "LETTER = 1\n",
}


def told(text: str) -> list[str]:
    return re.sub(r"\b[0-9a-f]{12}\b", "#", text).splitlines()


def run(project: Project) -> str:
    found = re.search(r"\(run (\S+)\)", project.mobuild("target=count").err)
    assert found
    return found[1]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return recipe_project(tmp_path, NODES, FILES)


def change(project: Project) -> None:
    project.write("data/images/a.png", "other")
    project.write("data/images/f.png", "f")
    (project.root / "data/images/c.png").unlink()
    project.edit("tools/words.py", "1", "2")


def test_a_folder_is_told_with_the_files_that_changed(project: Project) -> None:
    project.mobuild("target=count")
    change(project)

    said = told(project.mobuild("why", "target=made").out)

    assert said == [
        "small/cpu made is stale:",
        "  inputs.images: # → #, in data/images: a.png, c.png (gone), f.png (new)",
    ]


def test_many_files_are_counted(project: Project) -> None:
    project.mobuild("target=made")
    for name in "abcde":
        project.write(f"data/images/{name}.png", f"{name} again")

    said = project.mobuild("why", "target=made").out

    assert said.endswith(", in data/images: a.png, b.png, c.png and 2 more\n")


def test_two_runs_are_compared_file_by_file(project: Project) -> None:
    first = run(project)
    change(project)
    second = run(project)

    assert told(project.mobuild("why", first, second).out) == [
        "small/cpu made:",
        "  inputs.images: # → #, in a.png, c.png (gone), f.png (new)",
        "small/cpu count:",
        "  code.tools/count.py words: # → #, in tools/words.py",
        "  inputs.made: # → #, in images/a.png, images/c.png (gone), images/f.png (new)",
    ]


def test_the_file_is_in_the_data_too(project: Project) -> None:
    project.mobuild("target=count")
    project.edit("tools/words.py", "1", "2")

    steps = json.loads(project.mobuild("why", "target=count", "format=json").out)["steps"]

    assert [change["where"] for change in steps[0]["changes"]] == ["tools/words.py"]


def test_a_revision_is_compared_file_by_file(project: Project) -> None:
    for words in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one"]):
        subprocess.run(["git", *words], cwd=project.root, check=True)
    change(project)

    assert told(project.mobuild("why", "target=count", "against=HEAD").out) == [
        "small/cpu images: content: # → #, in data/images: a.png, c.png (gone), f.png (new)",
        "small/cpu count: code.tools/count.py words: # → #, in tools/words.py",
    ]


def test_a_look_at_all_variables_names_those_that_came_and_went(tmp_path: Path) -> None:
    nodes = """\
  net: {kind: export, model: "net.py:load", inputs: {x: [1, 2]}, needs: {}}
"""
    net = """\
import os

import torch


def load():
    len(dict(os.environ))
    return torch.nn.Linear(2, 2)
"""
    project = recipe_project(tmp_path, nodes, {"recipes/net.py": net})
    clean = {name: "" for name in os.environ if name.startswith("SHOP_")}
    project.mobuild("target=net", env={**clean, "SHOP_OLD": "1"})

    same = project.mobuild("why", "target=net", env={**clean, "SHOP_OLD": "2"}).out
    other = project.mobuild("why", "target=net", env={**clean, "SHOP_NEW": "secret value"}).out

    assert same == "nothing is stale\n"
    assert other.splitlines()[1] == (
        "  environment * (the code looks at all variables, so it counts which ones are set): SHOP_OLD → SHOP_NEW"
    )
