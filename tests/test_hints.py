"""A fix is offered that helps: no word suggests itself, no hint leads to what does not exist."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mobuild.errors import did_you_mean
from tests.projects import Project, recipe_project

NODES = """\
  text: {kind: source, uri: text.txt}
  copy: {kind: command, cmd: "python tools/copy.py {in.text} {out}", in: {text: text}, out: .txt}
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return recipe_project(tmp_path, NODES, {"text.txt": "one\n", "tools/copy.py": COPY})


COPY = "import shutil, sys\n\nshutil.copy(*sys.argv[1:])\n"


def test_no_word_suggests_itself() -> None:
    assert did_you_mean("shapes", ["shapes"]) == ""
    assert did_you_mean("shapes", ["shapes", "shape"]) == " Did you mean 'shape'?"


WORDS = {
    "shapes=big": (
        "shapes=NAME chooses a file of conf/shapes/, and there is none\n"
        "  write conf/shapes/NAME.yaml, or the sizes by axis: shapes.batch=[1,8,32]"
    ),
    "project=/nope": (
        "there is no key 'project': a project is found by its folder\n"
        "  cd there: it holds recipes/, or pyproject.toml with [tool.mobuild]"
    ),
    "node=export": (
        "there is no key 'node': the kind of a node is said in its recipe\n"
        "  nodes: {name: {kind: …}}; mobuild list shows the kinds"
    ),
}


@pytest.mark.parametrize("word", WORDS)
def test_a_group_that_cannot_be_chosen_is_told_what_for(project: Project, word: str) -> None:
    done = project.mobuild("plan", "target=copy", word, check=False)

    assert (done.status, done.errors) == (2, (WORDS[word],))


def test_a_picture_comes_from_graphviz(project: Project) -> None:
    done = project.mobuild("graph", "target=copy", "format=svg", check=False)

    assert done.status == 2
    assert done.errors == (
        "graph: format: expected one of text, mermaid, dot, found 'svg'\n"
        "  mobuild graph format=dot … | dot -Tsvg > steps.svg, by Graphviz",
    )


def test_a_pin_is_told_as_data(project: Project) -> None:
    project.mobuild("target=copy")

    made = json.loads(project.mobuild("pin", "mine", "target=copy", "format=json").out)
    gone = json.loads(project.mobuild("pin", "mine", "pin.remove=true", "format=json").out)

    assert made["pinned"] == "mine"
    assert [each["node"] for each in made["artifacts"]] == ["copy"]
    assert gone == {"schema": 1, "removed": "mine"}


def blocked(project: Project) -> str:
    """The error of a build that could not begin."""
    (error,) = project.mobuild("target=copy", check=False).errors
    return error.replace(str(project.root), "")


def test_a_link_that_leads_nowhere_is_told_where(project: Project) -> None:
    (project.root / "text.txt").unlink()
    (project.root / "text.txt").symlink_to("gone.txt")

    assert blocked(project) == (
        "recipe 'small', node 'text': source '/text.txt': is a link to 'gone.txt', which leads to no file\n"
        "  put the file there, let the link lead to it, or write where it is: nodes.text.uri in the recipe"
    )


def test_a_pipe_is_no_source(project: Project) -> None:
    (project.root / "text.txt").unlink()
    os.mkfifo(project.root / "text.txt")

    assert blocked(project) == (
        "recipe 'small', node 'text': source '/text.txt': is neither a file nor a folder\n"
        "  write its content into a file (cat '/text.txt' > file), and name that: nodes.text.uri in the recipe"
    )


def test_broken_python_is_told_how_to_look_at_it(project: Project) -> None:
    project.write("tools/copy.py", "def (\n")

    assert blocked(project).splitlines() == [
        "recipe 'small', node 'copy': /tools/copy.py:1: not valid Python: invalid syntax",
        "  mend it, it is the code of a node of yours: python -m py_compile /tools/copy.py",
    ]


@pytest.mark.parametrize(
    ("content", "remedy"),
    [
        (b"nodes:\n  a: {b: [\n", "  mend line 3, or one above it: brackets and quotes are closed, "),
        (b"nodes: {a: \xff\xfe}\n", "  save it as UTF-8"),
    ],
)
def test_broken_yaml_is_told_how_to_mend_it(project: Project, content: bytes, remedy: str) -> None:
    (project.root / "recipes/small.yaml").write_bytes(content)

    done = project.mobuild("plan", check=False)

    assert done.status == 2
    assert done.err.splitlines()[-1].startswith(remedy)


@pytest.mark.parametrize("place", ["recipes/net.yml", "recipes/nets/net.yaml"])
def test_a_recipe_where_nobody_reads_it_is_not_passed_over(tmp_path: Path, place: str) -> None:
    project = Project(tmp_path / "project", tmp_path / "cache")
    project.write(place, f"nodes:\n{NODES}")
    remedy = "  a recipe is recipes/NAME.yaml, in that folder itself and with that ending: move it there"

    bare, named = (project.mobuild("plan", *words, check=False) for words in ([], ["recipe=net"]))

    path = project.root / place
    assert (bare.status, bare.errors) == (2, (f"{path}: is read by nobody, and there is no other recipe\n{remedy}",))
    assert (named.status, named.errors) == (2, (f"there is no recipe 'net'; {path} is read by nobody\n{remedy}",))


def test_an_expansion_of_a_shell_is_told_from_an_interpolation(project: Project) -> None:
    project.edit("recipes/small.yaml", '"python tools/copy.py {in.text} {out}"', "\"sh -c 'echo ${A:-b} > $0' {out}\"")
    wrong = project.mobuild("target=copy", check=False)
    project.edit("recipes/small.yaml", "\"sh -c 'echo ${A:-b} > $0' {out}\"", "'sh -c \"echo \\${A:-b} > $0\" {out}'")
    right = project.mobuild("target=copy")

    assert wrong.status == 2
    assert "to a shell it is written $NAME, or '\\${NAME:-…}' in single quotes" in wrong.errors[0]
    assert Path(right.out.strip()).read_text() == "b\n"
