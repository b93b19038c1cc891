"""Public faults of exports, `exp-control-flow`: what depends on the data and would be baked into the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.projects import recipe_project

pytest.importorskip("torch")

from mobuild import usercode
from mobuild.errors import MobuildError
from mobuild.node import Built
from mobuild.nodes.export import Export

NETS = '''\
"""Networks that do with data what no graph holds, and some that only seem to."""
import torch
from torch import nn
{classes}
'''
NET = """

class {name}(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("times", torch.tensor(3))
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        {body}
"""
BRANCH = "branches on the data, and the exported graph would hold one branch for ever"
NUMBER = "takes a number out of the data, and the exported graph would hold that one for ever"
# name → lines of a forward, the one that is to be named, and what is said of it
FAULTS = {
    "If": ("if x.sum() > 0:\n            return x * 10\n        return x - 1", "if x.sum() > 0:", BRANCH),
    "Chosen": (
        "return x * 10 if x.max() > 0 else x - 1",
        "return x * 10 if x.max() > 0 else x - 1",
        BRANCH,
    ),
    "While": ("while x.max() > 1:\n            x = x / 2\n        return x", "while x.max() > 1:", BRANCH),
    "And": ("y = (x.sum() > 0) and (x.max() < 9)\n        return x * y", "y = (x.sum() > 0) and (x.max() < 9)", BRANCH),
    "Count": (
        "if torch.nonzero(x[:, 0] > 0).shape[0] > 1:\n            return x * 10\n        return x - 1",
        "if torch.nonzero(x[:, 0] > 0).shape[0] > 1:",
        BRANCH,
    ),
    "Rows": (
        "for row in torch.nonzero(x[:, 0] > 0):\n            x = x + 1\n        return x",
        "for row in torch.nonzero(x[:, 0] > 0):",
        BRANCH,
    ),
    "Length": ("n = len(x[x > 0])\n        return x * n", "n = len(x[x > 0])", BRANCH),
    "Item": (
        "if x[0, 0].item() > 0:\n            return x * 10\n        return x - 1",
        "if x[0, 0].item() > 0:",
        NUMBER,
    ),
    "Int": ("n = int(x.abs().sum())\n        return x * n", "n = int(x.abs().sum())", NUMBER),
    "Float": ("top = float(x.max())\n        return x / top", "top = float(x.max())", NUMBER),
    "List": ("top = max(x[0].tolist())\n        return x / top", "top = max(x[0].tolist())", NUMBER),
    "Array": (
        "top = x.detach().numpy().max()\n        return x / top.item()",
        "top = x.detach().numpy().max()",
        NUMBER,
    ),
}
OF_DYNAMO = ("If", "While", "Count", "Item")  # the others are of the same kind, or kept: a number may stay a symbol
CONTROLS = {
    "Sizes": "y = x.reshape(x.shape[0], -1)\n        if x.shape[1] != 4:\n            raise ValueError(x.shape)\n"
    "        return y * len(x.shape) + x.size(1)",
    "State": "for _ in range(int(self.times)):\n            x = x * self.scale.item()\n"
    "        return x + 1 if self.times > 2 else x",
    "Printed": "print(x)\n        return x * 2",
    "Picked": "picked = x[x[:, 0] > -99]\n        if picked.shape[-1] != 4:\n            raise ValueError(picked)\n"
    "        return picked",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a recipe and its networks lie."""
    root = tmp_path_factory.mktemp("recipes")
    bodies = {**{name: body for name, (body, _, _) in FAULTS.items()}, **CONTROLS}
    classes = "".join(NET.format(name=name, body=body) for name, body in bodies.items())
    (root / "nets.py").write_text(NETS.format(classes=classes))
    return root


def exported(folder: Path, name: str, exporter: str, out: Path, monkeypatch: pytest.MonkeyPatch) -> Built:
    """Export at one size, where no other size could show what was baked."""
    monkeypatch.setattr(usercode, "folder", folder)
    return Export(model=f"nets.py:{name}", inputs={"x": [3, 4]}, exporter=exporter).build({}, out)


def place(folder: Path, name: str) -> str:
    line = FAULTS[name][1]
    lines = (folder / "nets.py").read_text().splitlines()
    number = 1 + lines.index(f"        {line}", lines.index(f"class {name}(nn.Module):"))
    return f"nets.py:{number} in forward: `{line}`"


@pytest.mark.parametrize("name", FAULTS)
def test_what_a_trace_would_bake_is_named_by_file_and_line(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """exp-control-flow: pytorch#22485, Metric3D#127, pytorch#64480."""
    with pytest.raises(MobuildError) as caught:
        exported(folder, name, "torchscript", tmp_path / "m.onnx", monkeypatch)

    assert caught.value.status == 1
    assert f"{place(folder, name)} {FAULTS[name][2]}" in caught.value.message
    assert ("torch.where" if FAULTS[name][2] == BRANCH else "keep it a tensor") in (caught.value.hint or "")


@pytest.mark.parametrize("name", OF_DYNAMO)
def test_what_the_dynamo_exporter_refuses_is_named_by_file_and_line(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """exp-control-flow: its own message is three steps of advice."""
    with pytest.raises(MobuildError) as caught:
        exported(folder, name, "dynamo", tmp_path / "m.onnx", monkeypatch)

    assert f"{place(folder, name)} {BRANCH}" in caught.value.message


@pytest.mark.parametrize("name", CONTROLS)
def test_sizes_state_and_prints_are_no_data(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """exp-control-flow: a control."""
    built = exported(folder, name, "torchscript", tmp_path / "m.onnx", monkeypatch)

    assert not built.warnings


def test_neither_errors_nor_logs_hold_codes_of_colours(tmp_path: Path) -> None:
    """exp-control-flow: by the command line, with both exporters."""
    node = '  onnx: {kind: export, needs: {}, model: "nets.py:If", inputs: {x: [n, 4]}}\n'
    classes = NET.format(name="If", body=FAULTS["If"][0])
    project = recipe_project(tmp_path, node, {"recipes/nets.py": NETS.format(classes=classes)})
    exporters = "nodes.onnx.exporter=dynamo,torchscript"

    done = project.mobuild("-m", "target=onnx", exporters, check=False)
    logs = [project.mobuild("log", "onnx", *words).out for words in ((), ("nodes.onnx.exporter=torchscript",))]

    assert (done.status, len(done.errors)) == (1, 2)
    assert all(f"recipes/{place(project.root / 'recipes', 'If')} {BRANCH}" in error for error in done.errors), done.err
    assert all(logs)
    assert "\x1b" not in "".join([done.err, *logs])
