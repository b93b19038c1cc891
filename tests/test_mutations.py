"""What must re-run and what must not: one change, a build, the change taken back, a build.

One real project (export, sanitize, calibrate, quantise, build, judge) is built once; each row works on a copy of it
and its cache, and says which nodes run and the exact words of `why`.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.projects import Project, validated_project, write_data, write_weights

ALL = {"onnx", "sanitized", "calibration", "quantized", "engine", "reference", "validation"}
CALIBRATED = {"calibration", "quantized", "engine", "validation"}
JUDGED = {"reference", "validation"}
ENGINE = {"onnx", "sanitized", "engine"}  # of precision fp32, where nothing is calibrated
WORDS = ("target=validation", "precision=int8")
VARIANT = "cpu+int8"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The project after its first builds: judged in INT8 on the CPU, and engines in fp32 for a CPU and for l20."""
    project = validated_project(tmp_path_factory.mktemp("toy"))
    done = project.mobuild(*WORDS)
    assert "the code read file recipes/vocabulary.txt, which is declared nowhere" in done.err
    project.mobuild("-m", "target=engine", "hardware=cpu,l20")
    return project


@dataclass(frozen=True)
class Row:
    """A line of the table: the change, the nodes that run after it, and what `why` says of those that are stale.

    A digest in the words of `why` is written #. `env` is part of the change.
    """

    change: Callable[[Project], object]
    runs: set[str] = field(default_factory=set)
    why: Mapping[str, list[str]] = field(default_factory=dict)
    env: Callable[[Project], dict[str, str]] = lambda project: {}


def _other_weight(project: Project) -> None:
    """One weight differs; the name, the size and the modification time do not."""
    path = project.root / "models" / "toy.pt"
    before = path.stat()
    data = bytearray(path.read_bytes())
    write_weights(path, seed=0)
    import torch

    state = torch.load(path, weights_only=True)
    state["last.bias"][0] += 1
    torch.save(state, path)
    assert path.stat().st_size == before.st_size and path.read_bytes() != bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _comment(project: Project) -> None:
    project.edit("recipes/toy.py", '"""A small network."""', '"""A small, small network."""\n# with a comment')
    project.edit("recipes/toy.py", "        super().__init__()\n", "        super( ).__init__( )\n\n")


def _new_files_beside(project: Project) -> None:
    for name in ("recipes/__pycache__/toy.cpython-311.pyc", "recipes/.toy.py.swp", ".git/HEAD", "recipes/toy.py~"):
        project.write(name, "anything")


def _touch(project: Project) -> None:
    for folder in ("recipes", "models", "data"):
        for path in (project.root / folder).rglob("*"):
            os.utime(path)


def _reorder_recipe(project: Project) -> None:
    text = (project.root / "recipes/toy.yaml").read_text()
    weights = "  weights: {uri: models/toy.pt}\n"
    text = (
        text.replace(weights, "")
        .replace("  calibration:", f"{weights}  calibration:")
        .replace('"toy.py:load"', "'toy.py:load'")
    )
    project.write("recipes/toy.yaml", f"{text}# a comment\nkeep_going: true\n")


def _upgraded(name: str) -> Callable[[Project], dict[str, str]]:
    """Another version of a distribution is installed, in a folder that comes before the others."""

    def env(project: Project) -> dict[str, str]:
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 99.0\n"
        project.write(f"../site/{name}-99.0.dist-info/METADATA", metadata)
        return {"PYTHONPATH": str(project.root.parent / "site")}

    return env


def _edit(name: str, old: str, new: str) -> Callable[[Project], object]:
    return lambda project: project.edit(name, old, new)


ROWS = {
    "nothing": Row(lambda project: None),
    "one weight, mtime put back": Row(_other_weight, ALL, {"onnx": ["inputs.weights: # → #, in models/toy.pt"]}),
    "gelu to relu": Row(
        _edit("recipes/toy.py", "functional.gelu", "functional.relu"),
        ALL,
        {"onnx": ["code.toy: # → #, in recipes/toy.py"]},
    ),
    "a comment, a doc string, formatting": Row(_comment),
    "a constant of a helper": Row(
        _edit("recipes/helper.py", "SIGN = 1.0", "SIGN = -1.0"),
        ALL,
        {"onnx": ["code.helper: # → #, in recipes/helper.py"]},
    ),
    "a helper that is imported at call time": Row(
        _edit("recipes/late.py", "2.0", "3.0"), ALL, {"onnx": ["code.late: # → #, in recipes/late.py"]}
    ),
    "a file that is read and declared nowhere": Row(
        lambda project: project.write("recipes/vocabulary.txt", "one two three four\n"),
        ALL,
        {"onnx": ["file recipes/vocabulary.txt: # → #"]},
    ),
    "the same, with equal output bytes": Row(
        lambda project: project.write("recipes/vocabulary.txt", "four five six\n"),
        {"onnx"},
        {"onnx": ["file recipes/vocabulary.txt: # → #"]},
    ),
    "unused code of a helper": Row(
        _edit("recipes/helper.py", "WIDTH = 16", "WIDTH = 16\nUNUSED = 3"),
        {"onnx"},
        {"onnx": ["code.helper: # → #, in recipes/helper.py"]},
    ),
    "the calibration file": Row(
        lambda project: write_data(project, "calibration", seed=5, count=120),
        CALIBRATED,
        {"calibration": ["inputs.data: # → #, in data/calibration.npz"]},
    ),
    "the calibration loader": Row(
        _edit("recipes/loader.py", "GAIN = 1.0", "GAIN = 2.0"),
        CALIBRATED,
        {"calibration": ["code.loader: # → #, in recipes/loader.py"]},
    ),
    "the loader, with equal samples": Row(
        _edit("recipes/loader.py", "* GAIN", "* 1.0"),
        {"calibration"},
        {"calibration": ["code.loader: # → #, in recipes/loader.py"]},
    ),
    "the calibration method": Row(
        _edit("recipes/toy.yaml", "calibration: {data:", "calibration: {method: minmax, data:"),
        CALIBRATED,
        {"calibration": ["params.method: percentile → minmax"]},
    ),
    "the evaluation data": Row(
        lambda project: write_data(project, "evaluation", seed=6, count=200),
        JUDGED,
        {"reference": ["inputs.data: # → #, in data/evaluation.npz"]},
    ),
    "the metric": Row(
        _edit("recipes/metrics.py", "labels > 0", "labels >= 0"),
        {"validation"},
        {"validation": ["code.metrics: # → #, in recipes/metrics.py"]},
    ),
    "the tolerance": Row(_edit("recipes/toy.yaml", "cosine_min: 0.9", "cosine_min: 0.8")),
    "the version of onnxsim": Row(
        lambda project: None,
        {"sanitized"},
        {"sanitized": ["toolchain.onnxsim: V → 99.0"]},
        _upgraded("onnxsim"),
    ),
    "the version of a library that is not reached": Row(lambda project: None, env=_upgraded("unreached")),
    "touch of every input": Row(_touch),
    "other files beside the module": Row(_new_files_beside),
    "order, quotes and comments of the recipe": Row(_reorder_recipe),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_change_runs_what_it_can_change_and_its_revert_runs_nothing(
    name: str, built: Project, tmp_path: Path
) -> None:
    project, row = built.copy(tmp_path), ROWS[name]
    shutil.copytree(project.root, tmp_path / "original")
    assert project.built(*WORDS, variant=VARIANT) == set()

    row.change(project)
    env = row.env(project)
    said = project.mobuild("why", *WORDS, env=env).out
    ran = project.built(*WORDS, variant=VARIANT, env=env)
    again = project.built(*WORDS, variant=VARIANT, env=env)

    assert (ran, again) == (row.runs, set())
    assert stale(said) == row.why
    for folder in ("recipes", "data", "models"):
        shutil.rmtree(project.root / folder)
        shutil.copytree(tmp_path / "original" / folder, project.root / folder)
    assert project.built(*WORDS, variant=VARIANT) == set()


def stale(said: str) -> dict[str, list[str]]:
    """Node → reasons of those that `why` calls stale, digests and versions written # and V."""
    plain = re.sub(r"\b([0-9a-f]{32}|[0-9a-f]{12})\b", "#", re.sub(r"[\d.]+ → 99", "V → 99", said))
    blocks = re.findall(r"^\S+ (\S+) is stale:\n((?:  .*\n)+)", plain, re.MULTILINE)
    return {node: [line.strip() for line in lines.splitlines()] for node, lines in blocks}


@pytest.mark.parametrize("name", ["onnxruntime", "numpy"])
def test_another_version_of_a_tool_runs_the_kinds_that_name_it(name: str, built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)
    project.built(*WORDS, variant=VARIANT)
    env = _upgraded(name)(project)

    why = stale(project.mobuild("why", *WORDS, env=env).out)
    ran = project.built(*WORDS, variant=VARIANT, env=env)

    assert why == {"onnx": [f"toolchain.{name}: V → 99.0"]}
    assert ran == ALL


def test_an_override_equal_to_the_default_runs_nothing_and_has_the_same_variant(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)

    ran = project.built("target=engine", "nodes.onnx.opset=20", "precision=fp32", "workspace=4GiB")

    assert ran == set()


def test_workspace_rebuilds_only_an_engine_that_reads_it(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)

    for_gpu = project.built("target=engine", "hardware=l20", "workspace=1GiB", variant="l20+1GiB")
    for_cpu = project.built("target=engine", "workspace=1GiB", variant="cpu+1GiB")

    assert for_gpu == {"engine"}
    assert for_cpu == set()


def test_cards_of_one_compute_capability_share_a_plan_of_tensorrt_rtx(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)

    assert project.built("target=engine", "hardware=l4", variant="l4") == set()


def test_a_moved_project_runs_nothing(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)
    project.root.rename(tmp_path / "elsewhere")
    moved = Project(tmp_path / "elsewhere", project.cache)

    assert moved.built("target=engine") == set()


def test_functions_of_one_name_in_two_files_make_two_artifacts(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)
    project.write(
        "recipes/second.yaml", (project.root / "recipes/toy.yaml").read_text().replace("toy.py:", "second.py:")
    )
    project.write("recipes/second.py", (project.root / "recipes/toy.py").read_text().replace("gelu", "tanh"))

    ran = project.built("recipe=second", recipe="second")

    assert ran == ENGINE
    digests = {path.read_bytes() for path in project.root.glob("build/*/cpu/engine.onnx")}
    assert len(digests) == 2


def test_a_lost_half_of_an_object_heals_with_one_warning(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)
    model = project.root / "build/toy/cpu/engine.onnx"
    victim = next(path for path in project.cache.glob("objects/*/*") if path.read_bytes() == model.read_bytes())
    victim.chmod(0o644)
    victim.write_bytes(victim.read_bytes()[: victim.stat().st_size // 2])

    done = project.mobuild("target=engine")

    assert done.err.count("warning:") == 1
    assert {name for name, state in project.states().items() if state == "built"} == {"engine"}
    assert project.built("target=engine") == set()


def test_a_removed_record_runs_that_node_alone(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)
    for path in project.cache.glob("records/*/*/*.json"):
        if '"kind": "sanitize"' in path.read_text():
            path.unlink()

    assert project.built("target=engine") == {"sanitized"}


def test_a_missing_input_is_named_and_its_return_resumes(built: Project, tmp_path: Path) -> None:
    project = built.copy(tmp_path)
    weights = project.root / "models" / "toy.pt"
    weights.rename(tmp_path / "away.pt")

    failed = project.mobuild("target=engine", check=False)
    (tmp_path / "away.pt").rename(weights)
    resumed = project.built("target=engine")

    assert failed.status == 1
    assert f"source '{weights}': there is no such file" in failed.err
    assert resumed == set()
