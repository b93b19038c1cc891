"""Changes in small projects: what has to run again, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.projects import recipe_project

TWO = """\
import torch


class Net(torch.nn.Module):
    def forward(self, x, y):
        return x - 2 * y, x + y


def load():
    return Net()
"""
TWO_NODES = """\
  onnx:
    kind: export
    needs: {}
    model: "two.py:load"
    exporter: torchscript
    inputs: {a: [n, 4], b: [n, 4]}
    outputs: {d: [n, 4], s: [n, 4]}
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("inputs: {a: [n, 4], b: [n, 4]}", "inputs: {b: [n, 4], a: [n, 4]}"),
        ("outputs: {d: [n, 4], s: [n, 4]}", "outputs: {s: [n, 4], d: [n, 4]}"),
    ],
    ids=["inputs", "outputs"],
)
def test_the_order_of_a_networks_arguments_is_meaning(tmp_path: Path, old: str, new: str) -> None:
    project = recipe_project(tmp_path, TWO_NODES, {"recipes/two.py": TWO}, name="two")
    project.mobuild("target=onnx")
    before = (project.root / "build/two/cpu/onnx.onnx").read_bytes()

    project.edit("recipes/two.yaml", old, new)
    ran = project.built("target=onnx", recipe="two")

    assert ran == {"onnx"}
    assert (project.root / "build/two/cpu/onnx.onnx").read_bytes() != before
    project.edit("recipes/two.yaml", new, old)
    assert project.built("target=onnx", recipe="two") == set()


def test_files_that_are_swept_over_make_variants_of_their_own(tmp_path: Path) -> None:
    nodes = """\
  text: {kind: source, uri: a.txt}
  copy: {kind: command, cmd: "cp {in.text} {out}", in: {text: text}, out: .txt}
"""
    project = recipe_project(tmp_path, nodes, {"a.txt": "a", "b.txt": "b"})

    paths = project.mobuild("-m", "target=copy", "nodes.text.uri=a.txt,b.txt").out.split()

    assert [Path(path).read_text() for path in paths] == ["a", "b"]
    assert project.mobuild("path", "copy", "nodes.text.uri=b.txt").out.strip() == paths[1]


def test_an_output_that_is_nan_throughout_is_warned_of(tmp_path: Path) -> None:
    network = TWO.replace("x - 2 * y, x + y", 'x * float("nan"), x + y')
    project = recipe_project(tmp_path, TWO_NODES, {"recipes/two.py": network}, name="two")

    done = project.mobuild("target=onnx")

    assert "output 'd' is NaN or infinite throughout on the example inputs" in done.err
    assert "output 's'" not in done.err


def test_an_output_that_is_nan_in_places_is_warned_of(tmp_path: Path) -> None:
    network = TWO.replace("x - 2 * y, x + y", 'x * torch.tensor([1.0, float("nan"), 1.0, 1.0]), x + y')
    project = recipe_project(tmp_path, TWO_NODES, {"recipes/two.py": network}, name="two")

    done = project.mobuild("target=onnx")

    assert "of which nothing is proven" in done.err, done.err
    assert "output 'd' is NaN in " in done.err
    assert "output 's'" not in done.err


ENVIRONMENT = """\
import os


def load():
    import torch

    class Net(torch.nn.Module):
        def forward(self, x):
            return x * float(os.environ.get("SCALE_X", "1")) + float(os.environ.get("SHIFT_X", "1"))

    return Net()
"""
ENVIRONMENT_NODES = """\
  onnx: {kind: export, needs: {}, model: "net.py:load", exporter: torchscript, inputs: {x: [n, 4]}, outputs: [y]}
"""


def test_why_compares_with_the_last_build_however_many_records_a_key_has(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, ENVIRONMENT_NODES, {"recipes/net.py": ENVIRONMENT}, name="net")
    for scale, shift in (("2", "3"), ("4", "3"), ("4", "5")):
        project.mobuild("target=onnx", env={"SCALE_X": scale, "SHIFT_X": shift})

    why = project.mobuild("why", "target=onnx", env={"SCALE_X": "9", "SHIFT_X": "5"}).out

    assert [line.split(":")[0] for line in why.splitlines()] == ["net/cpu onnx is stale", "  environment SCALE_X"]


def test_a_step_whose_last_build_failed_says_so(tmp_path: Path) -> None:
    project = recipe_project(tmp_path, '  c: {kind: command, cmd: "false", out: .txt}\n')
    project.mobuild("target=c", check=False)

    plan = project.mobuild("plan", "target=c").out
    why = project.mobuild("why", "target=c").out

    assert plan.startswith("stale    small/cpu c  never built; its last build failed: node 'c': ")
    assert why.splitlines()[1:3] == ["  never built", f"  {plan.rstrip().split('; ')[1]}"]
