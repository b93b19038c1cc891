"""What a plan says it will take."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from mobuild.report.needs import Needs, shortages
from tests.projects import Project, recipe_project, toy_project

NODES = """\
  weights: {kind: source, uri: weights.bin}
  copy: {kind: command, cmd: "cp {in.weights} {out}", in: {weights: weights}, out: .bin}
  end: {kind: command, cmd: "sh -c 'cat $0 $0 > $1' {in.copy} {out}", in: {copy: copy}, out: .bin}
"""
MIB = 1 << 20


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = recipe_project(tmp_path, NODES)
    with (project.root / "weights.bin").open("wb") as stream:
        stream.truncate(8 * MIB)
    return project


def expected(project: Project) -> dict[str, object]:
    found: dict[str, object] = json.loads(project.mobuild("plan", "target=end", "format=json").out)["expected"]
    return found


def test_what_was_never_built_is_guessed_from_the_weights(project: Project) -> None:
    found = expected(project)

    assert found == {"seconds": 0.0, "disk_bytes": 16 * MIB, "memory_bytes": 24 * MIB, "guessed": ["copy", "end"]}
    assert project.mobuild("plan", "target=end").out.splitlines()[-1] == (
        "expected: 16.0 MiB of disk, 24.0 MiB of memory at the peak, "
        "of copy, end, never built, guessed from weights and libraries"
    )


def test_what_was_built_once_is_expected_again(project: Project) -> None:
    project.mobuild("target=end")
    project.edit("recipes/small.yaml", "cat $0 $0 >", "cat $0 $0  >")

    found = expected(project)

    assert (found["disk_bytes"], found["guessed"]) == (16 * MIB, [])
    assert re.search(
        r"expected: [\d.]+ s on the longest path, 16\.0 MiB of disk, ", project.mobuild("plan", "target=end").out
    )


def test_the_libraries_of_a_builder_take_memory_whatever_the_model(tmp_path: Path) -> None:
    project = toy_project(tmp_path)

    whole = json.loads(project.mobuild("plan", "target=engine", "format=json").out)["expected"]

    assert whole["guessed"] == ["onnx", "sanitized", "engine"]
    assert 280 * MIB < whole["memory_bytes"] < 300 * MIB


def test_a_program_that_ran_before_is_known(project: Project) -> None:
    end = NODES.splitlines()[-1].strip().removeprefix("end: ")
    project.edit("recipes/small.yaml", "  end:", f"  more: {end.replace('{copy: copy}', '{copy: end}')}\n  end:")
    project.mobuild("target=end")
    took = json.loads((project.root / "build/small/cpu/end.bin.json").read_text())["peak_rss_mib"]

    found = json.loads(project.mobuild("plan", "target=more", "format=json").out)["expected"]

    assert found["memory_bytes"] == round(took * MIB) + 3 * 16 * MIB


def test_nothing_is_expected_of_what_is_fresh(project: Project) -> None:
    project.mobuild("target=end")

    assert expected(project) == {"seconds": 0.0, "disk_bytes": 0, "memory_bytes": 0, "guessed": []}


def test_more_than_there_is_is_warned_of(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free

    told = shortages(Needs(0.0, 2 * free, 1 << 60, ()), tmp_path)

    assert [re.sub(r"[\d.]+ [TGMK]iB|[\d.]+ byte", "N", line) for line in told] == [
        f"about N of disk are needed, N are free in cache '{tmp_path}'",
        "about N of memory are needed, N may be used here",
    ]
    assert shortages(Needs(0.0, 1, 1, ()), tmp_path) == []
