"""Ways in which a model depends on more than its recipe says, none of them declared, and each of them noticed.

One small network that depends on everything at once is exported; each row changes one thing, looks at the exact
words of `why`, and takes the change back.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.projects import Project, answer, code_project, recipe_project

NODES = """\
  onnx: {kind: export, needs: {}, model: "net.py:load", exporter: torchscript, inputs: {x: [n, 4]}, outputs: [y]}
"""
NETWORK = '''\
"""A network with a finger in every pie."""
import importlib
import importlib.util
import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import torch

import outside
from package import SCALE

HERE = Path(__file__).parent


def plug():
    """Found by a name that is put together at run time."""
    names = [name for name in ("plug" + "in", "plug" + "in2", "plug" + "in3") if importlib.util.find_spec(name)]
    return sum(importlib.import_module(name).VALUE for name in names)


def by_path():
    """Loaded by its path, not by its name."""
    spec = importlib.util.spec_from_file_location("loaded", HERE / "by_path.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.VALUE


def executed():
    """Code that is no module."""
    scope = {}
    exec((HERE / "executed.txt").read_text(), scope)
    return scope["VALUE"]


def resource():
    """Data of a package, by its name."""
    return len(pkgutil.get_data("package", "words.txt"))


def optional():
    """What is not there may come."""
    try:
        import extra
    except ImportError:
        return 0.0
    return extra.VALUE


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        table = json.loads((HERE / "table.json").read_text())
        values = [plug(), by_path(), executed(), resource(), optional(), SCALE, outside.VALUE, table["value"]]
        values += [len(os.listdir(HERE / "lists")), float(os.environ.get("OFFSET") or 0)]
        values += [float((HERE / "absent.txt").exists() and (HERE / "absent.txt").read_text() or 0)]
        values += [(HERE / "flag").exists(), (HERE / "lists").is_dir(), len((HERE / "current").resolve().name)]
        self.register_buffer("values", torch.tensor(values))

    def forward(self, x):
        return x + self.values.sum()


def load():
    return Net()
'''
FILES = {
    "recipes/net.py": NETWORK,
    "recipes/package/__init__.py": "from .inner import SCALE\n",
    "recipes/package/inner.py": "SCALE = 2.0\n",
    "recipes/package/other.py": "SCALE = 3.0\n",
    "recipes/package/words.txt": "one two\n",
    "recipes/plugin.py": "VALUE = 5.0\n",
    "recipes/by_path.py": "VALUE = 7.0\n",
    "recipes/executed.txt": "VALUE = 11.0\n",
    "recipes/lists/a.txt": "a\n",
    "recipes/small.json": '{"value": 13.0}',
    "recipes/large.json": '{"value": 17.0}',
    "libraries/outside.py": "VALUE = 19.0\n",
    "libraries/plugin2.py": "VALUE = 1.0\n",
    "recipes/flag": "content that nobody reads\n",
    "recipes/README.txt": "read by nobody\n",
}


@dataclass(frozen=True)
class Row:
    """A change, and the reasons that `why` gives, digests written as #; none when nothing may run."""

    change: Callable[[Project], None]
    reasons: list[str]
    env: dict[str, str] = field(default_factory=dict)


def _link(project: Project, target: str) -> None:
    link = project.root / "recipes/table.json"
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def _put_back_mtime(project: Project) -> None:
    path = project.root / "recipes/plugin.py"
    before = path.stat()
    path.write_text("VALUE = 6.0\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _in_the_future(project: Project) -> None:
    project.write("recipes/plugin.py", "VALUE = 6.0\n")
    os.utime(project.root / "recipes/plugin.py", (4e9, 4e9))


ROWS = {
    "a module behind a re-export": Row(
        lambda project: project.write("recipes/package/inner.py", "SCALE = 2.5\n"),
        ["code.package.inner: # → #, in recipes/package/inner.py"],
    ),
    "a re-export from elsewhere": Row(
        lambda project: project.write("recipes/package/__init__.py", "from .other import SCALE\n"),
        [
            "code.package: # → #, in recipes/package/__init__.py",
            "code.package.inner: # → -",
            "code.package.other: - → #, in recipes/package/other.py",
        ],
    ),
    "a module under a name made at run time": Row(
        lambda project: project.write("recipes/plugin.py", "VALUE = 6.0\n"), ["module recipes/plugin.py: # → #"]
    ),
    "the same with the time put back": Row(_put_back_mtime, ["module recipes/plugin.py: # → #"]),
    "the same with a time to come": Row(_in_the_future, ["module recipes/plugin.py: # → #"]),
    "a module that comes before it": Row(
        lambda project: project.write("recipes/plugin2.py", "VALUE = 2.0\n"),
        ["import plugin2: libraries/plugin2.py → recipes/plugin2.py"],
    ),
    "a module that was missing under such a name": Row(
        lambda project: project.write("libraries/plugin3.py", "VALUE = 3.0\n"),
        ["import plugin3: - → libraries/plugin3.py"],
    ),
    "a comment in it": Row(lambda project: project.write("recipes/plugin.py", "VALUE = 5.0  # five\n"), []),
    "a module loaded by its path": Row(
        lambda project: project.write("recipes/by_path.py", "VALUE = 8.0\n"), ["module recipes/by_path.py: # → #"]
    ),
    "code that is executed as text": Row(
        lambda project: project.write("recipes/executed.txt", "VALUE = 12.0\n"), ["file recipes/executed.txt: # → #"]
    ),
    "data of a package": Row(
        lambda project: project.write("recipes/package/words.txt", "one two three\n"),
        ["file recipes/package/words.txt: # → #"],
    ),
    "a package outside the project": Row(
        lambda project: project.write("libraries/outside.py", "VALUE = 23.0\n"),
        ["code.outside: # → #, in libraries/outside.py"],
    ),
    "a module that shadows it": Row(
        lambda project: project.write("recipes/outside.py", "VALUE = 29.0\n"),
        ["code.outside: # → #, in recipes/outside.py"],
    ),
    "a module that was missing": Row(
        lambda project: project.write("recipes/extra.py", "VALUE = 1.0\n"), ["code.extra: - → #, in recipes/extra.py"]
    ),
    "a link that leads elsewhere": Row(
        lambda project: _link(project, "large.json"), ["file recipes/table.json: # → #"]
    ),
    "a link that is followed for its name": Row(
        lambda project: (
            (project.root / "recipes/current").unlink(),
            (project.root / "recipes/current").symlink_to("package"),
        )[-1],
        ["link recipes/current: # → #"],
    ),
    "the file behind a link": Row(
        lambda project: project.write("recipes/small.json", '{"value": 14.0}'), ["file recipes/table.json: # → #"]
    ),
    "a link that becomes a file": Row(
        lambda project: (
            _link(project, "x"),
            (project.root / "recipes/table.json").unlink(),
            project.write("recipes/table.json", '{"value": 13.0}'),
        )[-1],
        [],
    ),
    "a file in a folder that is listed": Row(
        lambda project: project.write("recipes/lists/b.txt", "b\n"), ["folder recipes/lists: # → #"]
    ),
    "a file that was missing": Row(
        lambda project: project.write("recipes/absent.txt", "3"), ["presence recipes/absent.txt: - → present"]
    ),
    "a file that is only asked for goes": Row(
        lambda project: (project.root / "recipes/flag").unlink(), ["presence recipes/flag: present → -"]
    ),
    "another content of it": Row(lambda project: project.write("recipes/flag", "other\n"), []),
    "a variable": Row(lambda project: None, ["environment OFFSET: - → #"], {"OFFSET": "1"}),
    "a variable that nobody reads": Row(lambda project: None, [], {"OFFSETS": "1"}),
    "a file that nobody reads": Row(lambda project: project.write("recipes/README.txt", "still by nobody\n"), []),
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = recipe_project(tmp_path_factory.mktemp("hidden"), NODES, FILES)
    _link(project, "small.json")
    (project.root / "recipes/current").symlink_to("lists")
    project.mobuild("target=onnx", env=_path(project))
    return project


def _path(project: Project) -> dict[str, str]:
    return {"PYTHONPATH": str(project.root / "libraries"), "PYTHONDONTWRITEBYTECODE": ""}


@pytest.mark.parametrize("name", ROWS)
def test_a_hidden_input_is_noticed_and_its_revert_is_free(name: str, exported: Project, tmp_path: Path) -> None:
    project, row = exported.copy(tmp_path), ROWS[name]
    shutil.copytree(project.root, tmp_path / "original", symlinks=True)
    env = {**_path(project), **row.env}
    assert project.built("target=onnx", env=_path(project), recipe="small") == set()

    row.change(project)
    why = project.mobuild("why", "target=onnx", env=env).out
    project.mobuild("target=onnx", env=env)
    ran = project.states(recipe="small")["onnx"]
    project.mobuild("target=onnx", env=env)
    again = project.states(recipe="small")["onnx"]

    reasons = [re.sub(r"\b([0-9a-f]{32}|[0-9a-f]{12})\b", "#", line.strip()) for line in why.splitlines()[1:]]
    assert reasons == row.reasons
    assert (ran, again) == ("built" if row.reasons else "fresh", "fresh")
    shutil.rmtree(project.root / "recipes")
    shutil.copytree(tmp_path / "original/recipes", project.root / "recipes", symlinks=True)
    shutil.copytree(tmp_path / "original/libraries", project.root / "libraries", dirs_exist_ok=True)
    project.mobuild("target=onnx", env=_path(project))
    assert project.states(recipe="small")["onnx"] == "fresh"


SEARCHES = {
    "inserted": ("sys.path[:0] = [str(HERE / 'first'), str(HERE / 'last')]", "recipes/first/late.py"),
    "appended": ("sys.path += [str(HERE / 'first'), str(HERE / 'last')]", "recipes/first/late/__init__.py"),
    "before what is appended": ("sys.path += [str(HERE / 'last')]", "recipes/late.py"),
    "missing": ("sys.path += [str(HERE / 'first')]", "recipes/first/late.py"),
    "missing in a package": ("sys.path += [str(HERE / 'first')]; package = 'whole.'", "recipes/first/whole/late.py"),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_module_that_comes_first_where_the_code_changed_the_search_path(name: str, tmp_path: Path) -> None:
    code = """\
import importlib
import sys
from pathlib import Path

HERE = Path(__file__).parent
package = ""
SEARCH


def load():
    try:
        return importlib.import_module(package + "late").GAIN
    except ImportError:
        return 0
"""
    search, place = SEARCHES[name]
    files = {"recipes/last/late.py": "GAIN = 1\n", "recipes/first/whole/__init__.py": ""}
    project = code_project(tmp_path, code.replace("SEARCH", search), files)
    before, again = answer(project), answer(project)

    project.write(place, "GAIN = 2\n")

    assert before == ("built", "0" if "missing" in name else "1")
    assert again[0] == "fresh"
    assert answer(project) == ("built", "2")


def test_a_file_beside_the_project_is_that_of_the_same_checkout(tmp_path: Path) -> None:
    """Two clones with one cache: what lies above the project differs as all else may."""
    code = "from pathlib import Path\n\nCOMMON = Path(__file__).parents[2] / 'common.txt'\nload = COMMON.read_text\n"
    found = []
    for name in ("one", "two"):
        (tmp_path / name / ".git").mkdir(parents=True)
        (tmp_path / name / "common.txt").write_text(name)
        project = code_project(tmp_path / name, code)
        found.append(answer(Project(project.root, tmp_path / "cache")))

    assert found == [("built", "one"), ("built", "two")]


EMPTY = """\
  classes: {kind: source, uri: classes}
  all: {kind: command, cmd: "python tools/count.py {in.classes} {out}", in: {classes: classes}, out: .txt}
  some: {kind: command, cmd: "python tools/count.py {in.pets} {out}", in: {pets: classes/pets}, out: .txt}
"""
COUNT = "import os, sys\n\nopen(sys.argv[2], 'w').write(str(sum(len(each[1]) for each in os.walk(sys.argv[1]))))\n"


@pytest.mark.parametrize("target", ["all", "some"])
def test_an_empty_folder_in_a_declared_one_counts(tmp_path: Path, target: str) -> None:
    """Code that counts folders sees it: a classifier has as many classes."""
    project = recipe_project(tmp_path, EMPTY, {"tools/count.py": COUNT, "classes/pets/cat/1.txt": "1"})
    before = Path(project.mobuild(f"target={target}").out.strip()).read_text()

    (project.root / "classes/pets/bird").mkdir()
    after = Path(project.mobuild(f"target={target}").out.strip()).read_text()
    (project.root / "classes/pets/bird").rmdir()
    reverted = project.mobuild(f"target={target}")

    assert int(after) == int(before) + 1
    assert "fresh" in reverted.err and "built" not in reverted.err


def test_a_file_whose_name_is_no_text_is_an_input(tmp_path: Path) -> None:
    """As old archives bring them along: `café.txt` in Latin-1."""
    project = code_project(tmp_path, 'def load():\n    return open(b"caf\\xe9.txt").read()\n')
    place = project.root / os.fsdecode(b"caf\xe9.txt")
    place.write_text("one")

    first, again = answer(project), answer(project)
    place.write_text("two")

    assert (first, again, answer(project)) == (("built", "one"), ("fresh", "one"), ("built", "two"))
