"""Kinds of a project's own: found through one YAML, keyed by their fields, with every hook of the protocol."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.projects import Project, recipe_project

KINDS = '''\
from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from mobuild.node import Built


@dataclass(frozen=True)
class Measure:
    """Measures on the device when there is a file called `card`, else by proxy."""

    kind: ClassVar[str] = "measure"
    revision: ClassVar[int] = 1
    isolated: ClassVar[bool] = False
    device: str = ""
    suffix = ".txt"
    tools = ()

    @property
    def alternatives(self):
        real, proxy = (dataclasses.replace(self, device=device) for device in ("real", "proxy"))
        return (real,) if Path("card").exists() else (real, proxy)

    @property
    def unkeyed_roles(self):
        return ("engine",) if self.device == "proxy" else ()

    def build(self, inputs, out):
        out.write_text(self.device)
        return Built({"device": self.device})
'''
NODES = """\
  engine: {kind: source, uri: engine.bin}
  graph: {kind: source, uri: graph.bin}
  measured: {kind: measure}
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    files = {
        "kinds.py": KINDS,
        "conf/node/measure.yaml": "_target_: kinds.Measure\nneeds: {engine: engine, graph: graph}\n",
        "engine.bin": "an engine",
        "graph.bin": "a graph",
    }
    return recipe_project(tmp_path, NODES, files)


def measure(project: Project) -> tuple[str, str]:
    """(state, device) of the measurement after a run."""
    project.mobuild("target=measured", env={"PYTHONPATH": str(project.root)})
    path = project.root / "build/small/cpu/measured.txt"
    return project.states(recipe="small")["measured"], path.read_text()


def test_a_record_from_the_device_is_taken_where_the_device_is_missing(project: Project) -> None:
    project.write("card", "")
    there = measure(project)

    (project.root / "card").unlink()
    elsewhere = measure(project)

    assert (there, elsewhere) == (("built", "real"), ("fresh", "real"))


def test_without_such_a_record_the_proxy_is_built_and_the_device_measures_anew(project: Project) -> None:
    elsewhere = measure(project)
    project.write("card", "")
    there = measure(project)

    assert (elsewhere, there) == (("built", "proxy"), ("built", "real"))


def test_another_engine_leaves_a_proxy_fresh_and_a_measurement_stale(project: Project) -> None:
    measure(project)
    project.write("engine.bin", "another engine")
    by_proxy = measure(project)

    project.write("card", "")
    measure(project)
    project.write("engine.bin", "a third engine")
    real = measure(project)

    assert (by_proxy, real) == (("fresh", "proxy"), ("built", "real"))


def test_an_edit_of_the_kinds_code_runs_it_again_and_a_comment_does_not(project: Project) -> None:
    measure(project)

    project.write("kinds.py", KINDS.replace("write_text(self.device)", 'write_text(self.device + "!")'))
    edited = measure(project)
    project.write(
        "kinds.py", "# a comment\n" + KINDS.replace("write_text(self.device)", 'write_text(self.device + "!")')
    )
    commented = measure(project)

    assert (edited, commented) == (("built", "proxy!"), ("fresh", "proxy!"))


def test_a_measurement_that_is_no_number_is_told_in_plain_json(project: Project) -> None:
    project.edit("kinds.py", '{"device": self.device}', '{"ratio": float("nan"), "worst": [float("-inf"), 1.5]}')
    measure(project)
    sidecar = (project.root / "build/small/cpu/measured.txt.json").read_text()
    told = project.mobuild("inspect", "build/small/cpu/measured.txt", "format=json").out

    found = [json.loads(text, parse_constant=pytest.fail)["measurements"] for text in (sidecar, told)]

    assert found == [{"ratio": "NaN", "worst": ["-Infinity", 1.5]}] * 2


def test_a_kind_that_does_not_import_is_the_users_to_mend(project: Project) -> None:
    project.write("kinds.py", KINDS.replace("from dataclasses import dataclass\n", ""))

    done = project.mobuild("target=measured", env={"PYTHONPATH": str(project.root)}, check=False)

    assert done.status == 2
    assert done.errors[0] == (
        "recipe 'small', node 'measured': _target_ 'kinds.Measure' cannot be imported: "
        "NameError: name 'dataclass' is not defined\n"
        "  its module must be installed or on PYTHONPATH, and import by itself"
    )


def test_what_a_kind_reads_undeclared_is_an_input(project: Project) -> None:
    project.edit("kinds.py", "out.write_text(self.device)", "out.write_text(Path('units.txt').read_text())")
    project.write("units.txt", "mm")
    first, again = measure(project), measure(project)

    project.write("units.txt", "cm")

    assert (first, again, measure(project)) == (("built", "mm"), ("fresh", "mm"), ("built", "cm"))
