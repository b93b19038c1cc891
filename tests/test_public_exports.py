"""Public faults of exports: the `exp-` rows of the cases that lie in what exporters make of a network."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest

from tests.projects import Finished, Project, recipe_project

pytest.importorskip("torch")

from mobuild import usercode
from mobuild.errors import NodeFailed
from mobuild.nodes.export import Export

BOTH = pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
TOKENS = "{shape: [batch, length], dtype: int64, range: [0, 49]}"
NETS = '''\
"""Small networks, each by the name of its fault."""
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, forward, **parts):
        super().__init__()
        self.of = forward
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs):
        return self.of(self, *inputs)


def three():
    def run(net, x):
        y = net.layer(x)
        return y, y, x
    return Net(run, layer=nn.Linear(4, 4))


def reshaped():
    return Net(lambda net, x: net.layer(x.reshape(int(x.shape[0]), 12)), layer=nn.Linear(12, 5))


def expanded():
    return Net(lambda net, x: net.layer(x) + net.row.expand(int(x.shape[0]), int(x.shape[1]), 4),
               layer=nn.Linear(4, 4), row=nn.Parameter(torch.ones(1, 1, 4)))


def looped():
    return Net(lambda net, x: torch.stack([net.layer(x[:, i]) for i in range(x.shape[1])], 1), layer=nn.Linear(4, 4))


def convolved():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1))


def normed():
    return nn.Sequential(nn.LayerNorm(8), nn.GELU())


def halved():
    return Net(lambda net, x: x.chunk(2, -1)[0].sum(1))


def pooled():
    def run(net, input_ids, token_type_ids, attention_mask, position_ids):
        return (net.table(input_ids) * attention_mask[..., None]).sum(1)
    return Net(run, table=nn.Embedding(50, 8))


def trained():
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
    with torch.no_grad():
        for _ in range(9):
            net(torch.randn(64, 4) * 3 + 1)
    return net


def in_training():
    return trained().train()


def in_evaluation():
    return trained().eval()


class Dropped(nn.Module):
    def forward(self, x):
        return nn.functional.dropout(x * 2, 0.5, training=self.training)


def dropped_in_training():
    return Dropped().train()


def dropped_in_evaluation():
    return Dropped().eval()
'''


def made(root: Path, network: str, inputs: str, **fields: object) -> Project:
    """A project whose node `onnx` exports one of the networks."""
    told = "".join(f", {name}: {value}" for name, value in fields.items())
    node = f'  onnx: {{kind: export, needs: {{}}, model: "nets.py:{network}", inputs: {inputs}{told}}}\n'
    return recipe_project(root, node, {"recipes/nets.py": NETS})


def the_error(done: Finished) -> str:
    assert done.status == 1
    (error,) = done.errors
    return error


@BOTH
@pytest.mark.parametrize(
    ("outputs", "said"),
    [
        ("[a, a, c]", "output 'a' stands 2 times"),
        ("[a, b, x]", "'x' is both an input and an output"),
        ("{x: [batch, 4], b: [batch, 4], c: [batch, 4]}", "'x' is both an input and an output"),
    ],
)
def test_names_that_are_not_single_are_refused_before_the_export(
    tmp_path: Path, exporter: str, outputs: str, said: str
) -> None:
    """exp-dup-io-names: pytorch#173077, #64190."""
    project = made(tmp_path, "three", "{x: [batch, 4]}", exporter=exporter, outputs=outputs)

    checked = project.mobuild("check", "target=onnx", check=False)
    built = project.mobuild("target=onnx", check=False)

    assert checked.status == 1
    assert re.search(rf"^error +F1 .* node 'onnx': {said}\n +give every output a name of its own", checked.out, re.M)
    assert f"F1: node 'onnx': {said}\n  give every output a name of its own: nodes.onnx.outputs" in the_error(built)
    assert "build   " not in built.err


@BOTH
def test_a_tensor_returned_twice_and_an_input_returned_have_the_asked_names(tmp_path: Path, exporter: str) -> None:
    """exp-dup-io-names: a control; the exporters would rename them."""
    project = made(tmp_path, "three", "{x: [batch, 4]}", exporter=exporter, outputs="[a, b, c]")

    graph = onnx.load(project.mobuild("target=onnx").out.strip()).graph

    assert [each.name for each in (*graph.input, *graph.output)] == ["x", "a", "b", "c"]


@pytest.mark.parametrize(
    ("network", "inputs", "said"),
    [
        ("reshaped", "{x: [batch, 3, 4]}", r"axis 'batch' is dynamic in name only; at batch=4: .* in node '/Reshape'"),
        ("expanded", "{x: [n, length, 4]}", r"axis 'n' is dynamic in name only; at n=4, length=3: .* in node '/Add"),
        ("looped", "{x: [3, length, 4]}", r"axis 'length' is dynamic in name only; at length=\d: output 'output'"),
    ],
)
def test_an_axis_that_the_trace_froze_is_named_with_its_node(
    tmp_path: Path, network: str, inputs: str, said: str
) -> None:
    """exp-batch-baked-legacy: GR00T-WholeBodyControl#111, pytorch#149065."""
    project = made(tmp_path, network, inputs, exporter="torchscript")

    error = the_error(project.mobuild("target=onnx", check=False))

    assert re.match(rf"node 'onnx': {said}", error), error
    assert "int(x.shape[0]), a list or buffer of fixed length" in error
    assert not (project.root / "build/small/cpu/onnx.onnx").exists()


def test_an_axis_that_the_dynamo_exporter_freezes_is_named(tmp_path: Path) -> None:
    """exp-batch-baked-legacy: what one exporter bakes in silence, the other refuses in words of its own."""
    project = made(tmp_path, "looped", "{x: [batch, length, 4]}")

    frozen = project.mobuild("target=onnx", check=False)
    control = project.mobuild("target=onnx", "nodes.onnx.model=nets.py:expanded")

    assert (
        "axis 'length' is dynamic in name only: the dynamo exporter finds that no size works but 3\n"
        "  the network turns a size into a constant: int(x.shape[0])"
    ) in the_error(frozen)
    assert "warning" not in control.err


def test_an_opset_that_the_exporter_misses_names_the_one_that_meets_it(tmp_path: Path) -> None:
    """exp-opset-silent: onnx#6811, pytorch#161056."""
    project = made(tmp_path, "convolved", "{x: [batch, 3, 8, 8]}", opset=17)

    error = the_error(project.mobuild("target=onnx", check=False))
    traced = project.mobuild("target=onnx", "nodes.onnx.exporter=torchscript")

    assert error == (
        "node 'onnx': asked for opset 17, got 18: the dynamo exporter does not meet it\n"
        "  exporter: torchscript meets opset 17; or ask for opset: 18"
    )
    assert onnx.load(traced.out.strip()).opset_import[0].version == 17


@pytest.mark.parametrize(
    ("network", "shape", "opset", "said"),
    [
        ("convolved", ["batch", 3, 8, 8], 11, "asked for opset 11, got 18"),
        ("normed", ["batch", 8], 13, "asked for opset 13, got 18"),
        ("halved", ["batch", 4, 8], 13, "no valid ONNX model of opset 13: Unrecognized attribute: num_outputs"),
        ("halved", ["batch", 4, 8], 18, ""),
        ("convolved", ["batch", 3, 8, 8], 23, ""),
    ],
)
def test_an_opset_is_met_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, network: str, shape: list[int | str], opset: int, said: str
) -> None:
    """exp-opset-silent: whatever the dynamo exporter makes of other operators; two are controls."""
    (tmp_path / "nets.py").write_text(NETS)
    monkeypatch.setattr(usercode, "folder", tmp_path)
    node = Export(model=f"nets.py:{network}", inputs={"x": shape}, opset=opset)

    if not said:
        assert node.build({}, tmp_path / "m.onnx").onnx["opsets"]["ai.onnx"] == opset
        return
    with pytest.raises(NodeFailed) as caught:
        node.build({}, tmp_path / "m.onnx")
    assert said in caught.value.message
    assert caught.value.hint == f"exporter: torchscript meets opset {opset}; or ask for opset: 18"


INPUTS = f"{{input_ids: {TOKENS}, token_type_ids: {TOKENS}, attention_mask: {TOKENS}, position_ids: {TOKENS}}}"
UNUSED = "nodes.onnx.droppable=[token_type_ids,position_ids]"


def test_inputs_that_are_dropped_are_named_all_at_once(tmp_path: Path) -> None:
    """exp-unused-input: pytorch#104949, ORT#6389, ORT#7424."""
    project = made(tmp_path, "pooled", INPUTS, exporter="torchscript", outputs="[y]")

    refused = the_error(project.mobuild("target=onnx", check=False))
    half = the_error(project.mobuild("target=onnx", "nodes.onnx.droppable=[position_ids]", check=False))
    declared = project.mobuild("target=onnx", UNUSED)

    assert "node 'onnx': inputs 'token_type_ids', 'position_ids' are not in the file" in refused
    assert "droppable: [token_type_ids, position_ids]" in refused
    assert "node 'onnx': input 'token_type_ids' is not in the file" in half
    assert [each.name for each in onnx.load(declared.out.strip()).graph.input] == ["input_ids", "attention_mask"]


def test_an_input_that_is_kept_stays_up_to_the_engine(tmp_path: Path) -> None:
    """exp-unused-input: asked inputs are the file's, unused or not."""
    project = made(tmp_path, "pooled", INPUTS, outputs="[y]")
    project.write(
        "recipes/small.yaml",
        (project.root / "recipes/small.yaml").read_text()
        + "  sanitized: {kind: sanitize}\n  engine: {kind: build_engine, needs: {model: sanitized}}\n"
        + "shapes: {batch: 2, length: 3}\n",
    )

    done = project.mobuild("target=[onnx,sanitized,engine]")

    for line in done.out.splitlines():
        names = [each.name for each in onnx.load(line).graph.input]
        assert names == ["input_ids", "token_type_ids", "attention_mask", "position_ids"], line


def test_a_network_in_training_mode_is_exported_as_in_evaluation(tmp_path: Path) -> None:
    """exp-train-mode: pytorch#52867, #103681; a control."""
    project = made(tmp_path, "trained", "{x: [batch, 4]}", exporter="torchscript")
    names = ("in_training", "in_evaluation", "dropped_in_training", "dropped_in_evaluation")

    done = project.mobuild("-m", "target=onnx", "nodes.onnx.model=" + ",".join(f"nets.py:{name}" for name in names))

    files = [Path(line).read_bytes() for line in done.out.splitlines()]
    assert len(files) == 4
    assert files[0] == files[1]
    assert files[2] == files[3]
    assert "warning" not in done.err


@BOTH
def test_the_place_and_comments_are_not_in_the_bytes(tmp_path: Path, exporter: str) -> None:
    """exp-nondeterministic-bytes: pytorch#5463, #108179, keras-team/keras#20826."""
    found = []
    for folder, comment in (("checkout_a", ""), ("other_place_b", "# a comment\n")):
        project = made(tmp_path / folder, "normed", "{x: [batch, 8]}", exporter=exporter)
        project.edit("recipes/nets.py", "import torch", f"{comment}import torch")
        found.append(Path(project.mobuild("target=onnx").out.strip()).read_bytes())

    assert found[0] == found[1]
    for word in (b"checkout_a", b"project", b"nets.py", str(tmp_path).encode()):
        assert word not in found[0]
    project.edit("recipes/nets.py", "# a comment\n", "# another one\n")
    assert project.built("target=onnx", recipe="small") == set()
