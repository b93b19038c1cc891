"""Small real projects in a folder, driven through the command line as a user would."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from mobuild.hardware import Hardware

HARDWARE = Path(__file__).parent.parent / "conf" / "hardware"
ABOUT_THE_BUILD = ("  log: ", "  look into it: ")
RECIPE = """\
# @package _global_
defaults:
  - /recipe/standard
  - _self_
nodes:
  weights: {uri: models/toy.pt}
  onnx:
    model: "toy.py:load"
    exporter: torchscript
    inputs: {x: [batch, 8]}
    outputs: [y]
shapes: {batch: [1, 4, 16]}
"""

MODULE = '''\
"""A small network."""
from pathlib import Path

import torch

from helper import WIDTH
from words import count


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, WIDTH)
        self.last = torch.nn.Linear(WIDTH, 4)

    def forward(self, x):
        from late import SCALE

        return self.last(torch.nn.functional.gelu(self.first(x))) * SCALE + count()


def load(weights: Path):
    net = Net()
    net.load_state_dict(torch.load(weights, weights_only=True))
    return net
'''

HELPER = "WIDTH = 16\nSIGN = 1.0\n"
LATE = "from helper import SIGN\n\nSCALE = 2.0 * SIGN\n"
WORDS = '''\
from pathlib import Path


def count():
    """How many words the vocabulary has; the file is declared nowhere."""
    return len((Path(__file__).parent / "vocabulary.txt").read_text().split())
'''


METRIC = '''\
"""Is the sign of the first output the label?"""


def accuracy(outputs, labels):
    return {"accuracy": (outputs["y"][:, 0] > 0) == (labels > 0)}
'''
LOADER = '''\
"""Samples for the toy network."""

GAIN = 1.0


def preprocess(sample):
    return {"x": sample["x"] * GAIN}
'''


def hardware(name: str) -> Hardware:
    """A shipped hardware file, with the one that it builds on below it."""
    row = hardware_row(name)
    return Hardware(**{key: tuple(value) if isinstance(value, list) else value for key, value in row.items()})


def hardware_row(name: str) -> dict[str, Any]:
    row = yaml.safe_load((HARDWARE / f"{name}.yaml").read_text())
    bases = [each for each in row.pop("defaults", []) if each != "_self_"]
    return {**(hardware_row(bases[0]) if bases else {}), **row}


@dataclass(frozen=True)
class Project:
    """A folder with recipes and a cache, and how to run mobuild in it."""

    root: Path
    cache: Path

    def mobuild(self, *words: str, check: bool = True, env: Mapping[str, str] | None = None) -> Finished:
        """Run the command line in the project."""
        environment = {**os.environ, "MOBUILD_CACHE": str(self.cache), **(env or {})}
        done = subprocess.run(
            [sys.executable, "-m", "mobuild", *words], cwd=self.root, env=environment, capture_output=True, text=True
        )
        finished = Finished(done.returncode, done.stdout, done.stderr)
        if check:
            assert finished.status == 0, finished.err
        return finished

    def python(self, code: str) -> Finished:
        """Run Python in the project; it must succeed."""
        environment = {**os.environ, "MOBUILD_CACHE": str(self.cache)}
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=self.root, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return Finished(done.returncode, done.stdout, done.stderr)

    def states(self, variant: str = "cpu", recipe: str = "toy") -> dict[str, str]:
        """Node → state of the last run of a variant."""
        document: dict[str, Any] = json.loads((self.root / "build" / recipe / variant / "run.json").read_text())
        return {name: node["state"] for name, node in document["nodes"].items()}

    def built(
        self, *words: str, variant: str = "cpu", recipe: str = "toy", env: Mapping[str, str] | None = None
    ) -> set[str]:
        """The nodes that really ran when the command line ran."""
        self.mobuild(*words, env=env)
        return {name for name, state in self.states(variant, recipe).items() if state == "built"}

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace `old`, which must be there."""
        text = (self.root / name).read_text()
        assert old in text
        self.write(name, text.replace(old, new))

    def copy(self, root: Path) -> Project:
        """The project and its cache somewhere else."""
        shutil.copytree(self.root, root / "project", symlinks=True)
        shutil.copytree(self.cache, root / "cache", symlinks=True)
        return Project(root / "project", root / "cache")


@dataclass(frozen=True)
class Finished:
    """A command line that ended."""

    status: int
    out: str
    err: str

    @property
    def errors(self) -> tuple[str, ...]:
        """The errors with their hints and without `error: `, the lines about what the failed build left left out."""
        found: list[str] = []
        inside = False
        for line in self.err.splitlines():
            if line.startswith("error: "):
                found.append(line.removeprefix("error: "))
                inside = True
            elif inside and line.startswith("  ") and not line.startswith(ABOUT_THE_BUILD):
                found[-1] += f"\n{line}"
            else:
                inside = False
        return tuple(found)


def toy_project(root: Path) -> Project:
    """A project with one recipe, `toy`: two layers, a helper, a late import, an undeclared vocabulary."""
    project = Project(root / "project", root / "cache")
    project.write("recipes/toy.yaml", RECIPE)
    project.write("recipes/toy.py", MODULE)
    project.write("recipes/helper.py", HELPER)
    project.write("recipes/late.py", LATE)
    project.write("recipes/words.py", WORDS)
    project.write("recipes/vocabulary.txt", "one two three\n")
    write_weights(project.root / "models" / "toy.pt", seed=0)
    return project


def validated_project(root: Path) -> Project:
    """The toy project with data to calibrate on and to be judged on."""
    project = toy_project(root)
    write_data(project, "calibration", seed=1, count=120)
    write_data(project, "evaluation", seed=2, count=200)
    project.write("recipes/metrics.py", METRIC)
    project.write("recipes/loader.py", LOADER)
    project.edit(
        "recipes/toy.yaml",
        "shapes:",
        '  calibration: {data: {npz: data/calibration.npz, transform: "loader.py:preprocess"}}\n'
        '  validation: {data: {npz: data/evaluation.npz}, metric: "metrics.py:accuracy"}\n'
        "constraints: {cosine_min: 0.9}\n"
        "shapes:",
    )
    return project


def write_data(project: Project, name: str, seed: int, count: int) -> None:
    """Samples for the toy network, whose label is the sign of their first number."""
    import numpy as np

    x = np.random.default_rng(seed).normal(size=(count, 8)).astype(np.float32)
    (project.root / "data").mkdir(exist_ok=True)
    np.savez(project.root / "data" / f"{name}.npz", x=x, label=np.sign(x[:, 0]))


def recipe_project(root: Path, nodes: str, files: Mapping[str, str] | None = None, name: str = "small") -> Project:
    """A project with one recipe of a few nodes, written as YAML below `nodes:`."""
    project = Project(root / "project", root / "cache")
    project.write(f"recipes/{name}.yaml", f"# @package _global_\nnodes:\n{nodes}")
    for file, text in (files or {}).items():
        project.write(file, text)
    return project


def code_project(root: Path, code: str, files: Mapping[str, str] | None = None) -> Project:
    """A project with one node, `n`, whose artifact is the text of what `load()` in `code` says; without torch."""
    kind = {"conf/node/call.yaml": "_target_: toys.Call\n", "toys.py": (Path(__file__).parent / "toys.py").read_text()}
    node = '  n: {kind: call, code: "net.py:load"}\n'
    return recipe_project(root, node, {**kind, "recipes/net.py": code, **(files or {})})


def answer(project: Project, env: Mapping[str, str] | None = None) -> tuple[str, str]:
    """(state, artifact) of the node of a `code_project` after a run."""
    path = Path(project.mobuild("target=n", env=env).out.strip())
    return project.states(recipe="small")["n"], path.read_text()


def write_weights(path: Path, seed: int) -> None:
    """Weights that fit the toy network."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    shapes = {"first.weight": (16, 8), "first.bias": (16,), "last.weight": (4, 16), "last.bias": (4,)}
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save({name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}, path)


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A disk of its own at `folder`, a tmpfs of that size (`200k`); skips the test where mounting is not permitted."""
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small tmpfs is not permitted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
