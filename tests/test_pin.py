"""`mobuild pin`: what it keeps from gc, how pins are listed and let go, and what cannot be pinned."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.projects import Project, recipe_project

NODES = """\
  text: {kind: source, uri: text.txt}
  copy: {kind: command, cmd: "cp {in.text} {out}", in: {text: text}, out: .txt}
  end: {kind: command, cmd: "sh -c 'cat $0 $0 > $1' {in.copy} {out}", in: {copy: copy}, out: .txt}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = recipe_project(tmp_path_factory.mktemp("pin"), NODES, {"text.txt": "one\n"})
    project.mobuild("target=end")
    return project


@pytest.fixture
def project(built: Project, tmp_path: Path) -> Project:
    return built.copy(tmp_path)


def removed(project: Project) -> int:
    """How many records go when no project stands for them and nothing is too young."""
    for folder in project.cache.glob("local/*/refs"):
        shutil.rmtree(folder)
    return len(json.loads(project.mobuild("gc", "gc.age=0", "format=json").out)["removed"])


def test_what_a_target_needs_stays_until_the_pin_is_let_go(project: Project) -> None:
    said = project.mobuild("pin", "release-1", "target=end").out

    assert said == "pinned release-1: small/cpu copy end\n"
    assert removed(project) == 0
    project.mobuild("pin", "release-1", "pin.remove=True")
    assert removed(project) == 2


def test_what_the_target_does_not_need_is_not_kept(project: Project) -> None:
    project.mobuild("pin", "early", "target=copy")

    assert removed(project) == 1
    assert project.built("target=end", recipe="small") == {"end"}


def test_pins_are_listed_also_where_there_is_no_recipe(project: Project, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    elsewhere = Project(tmp_path / "elsewhere", project.cache)
    assert elsewhere.mobuild("pin").out == "nothing is pinned; mobuild pin NAME target=… does it\n"
    project.mobuild("pin", "a", "target=end")

    (pin,) = json.loads(elsewhere.mobuild("pin", "format=json").out)["pins"]
    (line,) = elsewhere.mobuild("pin").out.splitlines()

    assert [one["node"] for one in pin["artifacts"]] == ["copy", "end"]
    assert line == f"a  {pin['created']}  small/cpu copy end"


def test_the_same_pin_twice_is_one_and_another_under_its_name_is_refused(project: Project) -> None:
    project.mobuild("pin", "a", "target=end")
    project.mobuild("pin", "a", "target=end")

    done = project.mobuild("pin", "a", "target=copy", check=False)

    assert done.status == 1
    assert done.errors == (
        "pin 'a': is there already, with other artifacts\n"
        "  choose another name, or let it go first: mobuild pin a pin.remove=true",
    )


def test_what_is_not_built_cannot_be_pinned(project: Project) -> None:
    project.write("text.txt", "two\n")

    done = project.mobuild("pin", "a", "target=end", check=False)

    assert done.status == 1
    assert done.errors == (
        "recipe 'small', variant 'cpu': 'copy' is stale, and only what is built can be pinned\n"
        "  build it: mobuild target=end recipe=small",
    )


def test_a_pin_that_cannot_be_read_stops_gc_and_can_be_let_go(project: Project) -> None:
    project.mobuild("pin", "a", "target=end")
    (project.cache / "pins" / "a.json").write_text('{"schema": 1')

    done = project.mobuild("gc", "gc.age=0", check=False)

    assert done.status == 1
    assert done.errors[0].startswith(f"pin '{project.cache}/pins/a.json': cannot be read: ")
    assert done.errors[0].endswith("mobuild pin a pin.remove=true")
    project.mobuild("pin", "a", "pin.remove=true")
    project.mobuild("gc", "gc.age=0")


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["../a", "target=end"], 2, "pin: '../a' is no name for a pin\n  use letters, digits and . _ + -"),
        (["a", "b"], 2, "pin: what is 'b'?\n  overrides have an '=': target=b"),
        (
            ["-m", "hardware=cpu,l20"],
            2,
            "pin -m: looks at one cache, so there is nothing to sweep over\n  leave -m out",
        ),
        (["a", "pin.remove=true"], 1, "there is no pin 'a'\n  Pins: -"),
        (["a", "pin.remve=true"], 2, "there is no key 'pin.remve'. Did you mean 'remove'?\n  Keys of pin: remove"),
    ],
)
def test_what_is_wrong_with_a_request_is_said(project: Project, words: list[str], status: int, message: str) -> None:
    done = project.mobuild("pin", *words, check=False)

    assert (done.status, done.errors) == (status, (message,))
