"""Calibration in a real project: what re-runs when its data, its loader or its method changes.

One project (export, sanitize, calibrate) is built once; each test works on a copy of it and its cache.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.projects import RECIPE, Project, toy_project

CALIBRATION = """\
  calibration:
    kind: calibrate
    needs: {model: sanitized}
    data: {jsonl: data/calibration.jsonl, transform: "loader.py:preprocess"}
"""
LOADER = '''\
"""Samples for the toy network."""
import numpy as np

GAIN = 1.0


def preprocess(sample):
    return {"x": np.array(sample["x"], np.float32) * GAIN}
'''


def write_samples(project: Project, seed: int = 0, count: int = 100) -> None:
    rows = np.random.default_rng(seed).standard_normal((count, 8)).round(4).tolist()
    project.write("data/calibration.jsonl", "".join(json.dumps({"x": row}) + "\n" for row in rows))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The project after its first build."""
    project = toy_project(tmp_path_factory.mktemp("calibrated"))
    project.write("recipes/toy.yaml", RECIPE.replace("shapes:", CALIBRATION + "shapes:"))
    project.write("recipes/loader.py", LOADER)
    write_samples(project)
    assert project.built("target=calibration") == {"onnx", "sanitized", "calibration"}
    return project


def test_the_artifact_holds_ranges_and_the_manifest(built: Project) -> None:
    folder = built.root / "build/toy/cpu/calibration"

    ranges = json.loads((folder / "ranges.json").read_text())
    manifest = json.loads((folder / "manifest.json").read_text())

    assert ranges["method"] == "percentile"
    assert "x" in ranges["ranges"]
    assert manifest["count"] == 100


CHANGES: dict[str, tuple[Callable[[Project], None], set[str]]] = {
    "nothing": (lambda project: None, set()),
    "the content of the calibration file": (lambda project: write_samples(project, seed=1), {"calibration"}),
    "the loader": (lambda project: project.edit("recipes/loader.py", "GAIN = 1.0", "GAIN = 2.0"), {"calibration"}),
    "a comment in the loader": (lambda project: project.edit("recipes/loader.py", "GAIN =", "# volume\nGAIN ="), set()),
    "the method": (
        lambda project: project.edit("recipes/toy.yaml", "kind: calibrate", "kind: calibrate\n    method: minmax"),
        {"calibration"},
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_calibration_runs_calibration_alone_and_its_revert_nothing(
    change: str, built: Project, tmp_path: Path
) -> None:
    project = built.copy(tmp_path)
    shutil.copytree(project.root, tmp_path / "original")
    apply, expected = CHANGES[change]

    apply(project)
    ran = project.built("target=calibration")
    again = project.built("target=calibration")
    for name in ("recipes", "data"):
        shutil.copytree(tmp_path / "original" / name, project.root / name, dirs_exist_ok=True)
    reverted = project.built("target=calibration")

    assert ran == expected
    assert again == set()
    assert reverted == set()


def test_a_loader_that_gives_equal_samples_gives_equal_bytes(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)
    before = (project.root / "build/toy/cpu/calibration/ranges.json").read_bytes()
    project.edit("recipes/loader.py", "* GAIN", "* 1.0")

    ran = project.built("target=calibration")

    assert ran == {"calibration"}
    assert (project.root / "build/toy/cpu/calibration/ranges.json").read_bytes() == before


def test_a_moved_calibration_file_runs_nothing(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)
    (project.root / "data/calibration.jsonl").rename(project.root / "data/samples.jsonl")
    project.edit("recipes/toy.yaml", "data/calibration.jsonl", "data/samples.jsonl")

    assert project.built("target=calibration") == set()


def test_a_missing_calibration_file_is_named_and_its_return_resumes(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)
    file = project.root / "data/calibration.jsonl"
    write_samples(project, seed=3)
    file.rename(tmp_path / "away.jsonl")

    failed = project.mobuild("target=calibration", check=False)
    (tmp_path / "away.jsonl").rename(file)
    resumed = project.built("target=calibration")

    assert failed.status == 1
    assert f"source '{file}': there is no such file" in failed.err
    assert resumed == {"calibration"}


def test_bad_data_fails_names_the_sample_and_resumes_when_mended(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)
    good = (project.root / "data/calibration.jsonl").read_text()
    lines = good.splitlines(keepends=True)
    project.write("data/calibration.jsonl", "".join([*lines[:5], '{"x": [1, 2, 3, NaN, 5, 6, 7, 8]}\n', *lines[5:]]))

    failed = project.mobuild("target=calibration", check=False)
    state = project.states()["calibration"]
    project.write("data/calibration.jsonl", good)
    project.mobuild("target=calibration")

    assert failed.status == 1
    assert "node 'calibration': sample 5, input 'x': expected finite numbers, found nan at [3]" in failed.err
    assert state == "failed"
    assert project.states()["calibration"] == "fresh"


def test_calibration_without_data_is_refused_before_it_runs(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)
    project.edit("recipes/toy.yaml", 'data: {jsonl: data/calibration.jsonl, transform: "loader.py:preprocess"}', "")

    failed = project.mobuild("target=calibration", check=False)

    assert failed.status != 0
    assert "node 'calibration': calibration needs data: the model has no Q nodes of its own" in failed.err
