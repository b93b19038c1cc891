"""`why RUN_A RUN_B`: what differs between two runs."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.projects import Project, recipe_project

NODES = """\
  text: {kind: source, uri: text.txt}
  copy: {kind: command, cmd: "sh copy.sh {in.text} {out}", in: {text: text}, out: .txt}
  end: {kind: command, cmd: "cp {in.copy} {out}", in: {copy: copy}, out: .txt}
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return recipe_project(tmp_path, NODES, {"text.txt": "one\n", "copy.sh": "cp $1 $2\n"})


def run(project: Project, *words: str) -> str:
    """Build; the name of the run."""
    found = re.search(r"\(run (\S+)\)", project.mobuild("target=end", *words).err)
    assert found
    return found[1]


def test_changes_are_told_node_by_node(project: Project) -> None:
    first = run(project)
    project.write("text.txt", "two\n")
    project.edit("recipes/small.yaml", "cp {in.copy} {out}", "cat {in.copy} > {out}")
    project.edit("recipes/small.yaml", 'cat {in.copy} > {out}"', 'cat {in.copy} > {out}", shell: true')
    second = run(project)

    told = re.sub("[0-9a-f]{12}", "#", project.mobuild("why", first, second).out)

    assert told.splitlines() == [
        "small/cpu copy:",
        "  inputs.text: # → #",
        "small/cpu end:",
        "  inputs.copy: # → #",
        "  params.cmd: cp {in.copy} {out} → cat {in.copy} > {out}",
        "  params.shell: false → true",
    ]
    assert project.mobuild("why", second, "latest").out == "nothing differs\n"


def test_the_answer_as_data(project: Project) -> None:
    first = run(project)
    project.edit("recipes/small.yaml", "cp {in.copy}", "cp -p {in.copy}")
    second = run(project)

    told = json.loads(project.mobuild("why", first, second, "format=json").out)

    assert told["runs"] == [first, second]
    assert [node["node"] for node in told["nodes"]] == ["small/cpu end"]
    assert told["nodes"][0]["changes"][0]["subject"] == "params.cmd"


def test_a_node_that_one_run_lacks_is_named(project: Project) -> None:
    first = run(project)
    project.mobuild("target=copy")

    assert project.mobuild("why", first, "latest").out == "small/cpu end:\n  node: there → -\n"


def test_an_unknown_run_is_named_with_those_that_are_known(project: Project) -> None:
    first = run(project)

    done = project.mobuild("why", "20200101-000000-0000", first, check=False)

    assert done.status == 1
    assert done.errors == (f"run '20200101-000000-0000': is not known.\n  the last runs here: {first}",)


def test_one_run_alone_is_not_understood(project: Project) -> None:
    done = project.mobuild("why", "latest", check=False)

    assert done.status == 2
    assert "why latest: expected two runs, or none" in done.err


@pytest.mark.parametrize("locale", [{}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}], ids=["", "C"])
@pytest.mark.parametrize("word", ["é→", "\udcff"], ids=["text", "no text"])
def test_words_that_the_locale_cannot_write_are_in_run_json(tmp_path: Path, word: str, locale: dict[str, str]) -> None:
    project = recipe_project(tmp_path, "  c: {kind: command, cmd: 'touch {out}', out: .txt}\n")

    done = project.mobuild("target=c", f"nodes.c.cmd='touch {{out}} {word}'", env=locale, check=False)

    (found,) = (project.root / "build/small").glob("*/run.json")
    assert "fault in mobuild" not in done.err
    overrides = "".join(json.loads(found.read_bytes())["overrides"])
    assert os.fsencode(word) in overrides.encode("utf-8", "surrogateescape")
