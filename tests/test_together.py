"""Several models in one recipe: chains that meet in one validation, an encoder with its decoder, a detector with a
classifier."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.projects import Project, recipe_project

NETWORKS = '''\
"""A small Whisper: mel frames → memory; tokens and memory → the next token's scores. Weights of a fixed seed."""

import torch
from torch import nn
from torch.nn.functional import gelu, scaled_dot_product_attention

WIDTH, HEADS, WORDS = 16, 2, 12


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x, memory, mask=None):
        parts = [layer(each) for layer, each in ((self.query, x), (self.key, memory), (self.value, memory))]
        heads = [part.reshape(part.shape[0], -1, HEADS, WIDTH // HEADS).transpose(1, 2) for part in parts]
        return self.out(scaled_dot_product_attention(*heads, attn_mask=mask).transpose(1, 2).flatten(2))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.attention = nn.Conv1d(8, WIDTH, 3, stride=2, padding=1), Attention()

    def forward(self, mel):
        x = gelu(self.conv(mel)).transpose(1, 2)
        return x + self.attention(x, x)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(32, WIDTH)
        self.own, self.cross, self.last = Attention(), Attention(), nn.Linear(WIDTH, WORDS)

    def forward(self, tokens, memory):
        place = torch.arange(32)[: tokens.shape[1]]
        x = self.words(tokens) + self.places(place)
        hidden = torch.full((32, 32), -1e9).triu(1)[: tokens.shape[1], : tokens.shape[1]]
        x = x + self.own(x, x, hidden)
        x = x + self.cross(x, memory)
        return self.last(x)


def encoder():
    torch.manual_seed(1)
    return Encoder()


def decoder():
    torch.manual_seed(2)
    return Decoder()
'''
PAIR = '''\
"""Runs the pair: greedy decoding, as the program that ships would."""

import numpy as np

STEPS = 4


def transcribe(models, sample):
    memory = models["enc"].run({"mel": sample["mel"][None]})["memory"]
    tokens = np.zeros((1, 1), np.int64)
    for _ in range(STEPS):
        scores = models["dec"].run({"tokens": tokens, "memory": memory})["scores"][:, -1]
        tokens = np.concatenate([tokens, scores.argmax(-1, keepdims=True)], 1)
    return {"tokens": tokens[0, 1:], "scores": scores[0]}


def right(outputs, labels):
    return {"right": (outputs["tokens"] == np.asarray(labels)).mean(-1)}


def decoding():
    random = np.random.default_rng(5)
    for length in [1, 2, 3, 4] * 30:
        yield {"tokens": random.integers(0, 12, length), "memory": random.normal(size=(6, 16)).astype(np.float32)}
'''
RECIPE = """\
  enc:
    onnx:
      kind: export
      model: "networks.py:encoder"
      needs: {}
      exporter: torchscript
      opset: 17
      inputs: {mel: [batch, 8, frames]}
      outputs: [memory]
    sanitized: {kind: sanitize}
    quantized: {kind: quantize}
    engine: {kind: build_engine}
    shapes: {batch: 1, frames: [8, 12, 16]}
  dec:
    onnx:
      kind: export
      model: "networks.py:decoder"
      needs: {}
      exporter: torchscript
      opset: 17
      inputs: {tokens: {shape: [batch, length], dtype: int64, range: [0, 12]}, memory: [batch, positions, 16]}
      outputs: [scores]
    sanitized: {kind: sanitize}
    calibration: {kind: calibrate, method: minmax, data: {iterator: "pair.py:decoding"}}
    quantized: {kind: quantize}
    engine: {kind: build_engine}
    shapes: {batch: 1, length: [1, 2, 4], positions: [4, 6, 8]}
  reference: {kind: reference_together, needs: {enc: enc.sanitized, dec: dec.sanitized}}
  validation:
    kind: validate_together
    needs: {enc: enc.engine, dec: dec.engine}
    data: {npz: speech.npz}
    predict: "pair.py:transcribe"
    metric: "pair.py:right"
"""


@pytest.fixture(scope="module")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The encoder and the decoder, validated together."""
    torch = pytest.importorskip("torch")
    files = {"recipes/networks.py": NETWORKS, "recipes/pair.py": PAIR}
    project = recipe_project(tmp_path_factory.mktemp("whisper"), RECIPE, files)
    mel = np.random.default_rng(0).normal(size=(100, 8, 12)).astype(np.float32)
    names: dict[str, Any] = {}
    exec(NETWORKS, names)
    encoder, decoder = names["encoder"]().eval(), names["decoder"]().eval()
    with torch.no_grad():
        memory = encoder(torch.from_numpy(mel))
        tokens = torch.zeros((100, 1), dtype=torch.int64)
        for _ in range(4):
            tokens = torch.cat([tokens, decoder(tokens, memory)[:, -1].argmax(-1, keepdim=True)], 1)
    np.savez(project.root / "speech.npz", mel=mel, label=tokens[:, 1:].numpy())
    project.mobuild("target=validation")
    return project


def report(project: Project, variant: str = "cpu") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((project.root / f"build/small/{variant}/validation.json").read_text())
    return found


def test_an_encoder_and_its_decoder_are_judged_by_one_metric(whisper: Project) -> None:
    found = report(whisper)

    assert found["engines"] == ["dec", "enc"]
    assert found["device"] == "real"
    assert found["metrics"]["right"]["reference"] == found["metrics"]["right"]["value"] == 1.0
    assert found["metrics"]["right"]["paired"]["samples"] == 100
    assert found["tensors"]["scores"]["cosine_min"] > 0.9999


def test_what_they_make_together_is_compared_and_can_be_a_baseline(whisper: Project, tmp_path: Path) -> None:
    project = whisper.copy(tmp_path)

    told = json.loads(project.mobuild("compare", ".", ".", "target=validation", "format=json").out)
    judged = project.mobuild("target=validation", "++constraints.against={ref:., accuracy_drop:-0.1}", check=False)

    (found,) = told["comparisons"]
    differences = {row["metric"]: row["delta"] for row in found["accuracy"]}
    assert (differences["right"], differences["cosine of 'scores'"]) == (0, 0)
    assert "against .: accuracy_drop of metric 'right': 1 there, 1 here: 0, allowed at most -0.1" in judged.err


def test_a_sweep_over_one_of_them_builds_the_other_once(whisper: Project, tmp_path: Path) -> None:
    project = whisper.copy(tmp_path)

    done = project.mobuild("-m", "target=validation", "nodes.dec.precision=fp32,int8")

    (int8,) = (path.parent for path in (project.root / "build/small").glob("cpu+*/run.json"))
    states = project.states(int8.name, "small")
    built = {name for name, state in states.items() if state == "built"}
    assert built == {"dec.calibration", "dec.quantized", "dec.engine", "validation"}
    assert report(project, int8.name)["tensors"]["scores"]["cosine_mean"] < 0.99999
    assert len([line for line in done.err.splitlines() if line.startswith("judged  ")]) == 2


def test_another_way_to_run_them_runs_no_build_again(whisper: Project, tmp_path: Path) -> None:
    project = whisper.copy(tmp_path)

    project.edit("recipes/pair.py", 'return {"tokens": tokens[0, 1:], ', 'return {"tokens": tokens[0, 1:] + 0, ')

    assert project.built("target=validation", recipe="small") == {"reference", "validation"}


def test_constraints_are_about_what_they_make_together(whisper: Project, tmp_path: Path) -> None:
    project = whisper.copy(tmp_path)

    done = project.mobuild("target=validation", "constraints.cosine_min=1.1", check=False)

    assert done.status == 1
    assert "cosine_min of output 'scores': measured" in done.err


def test_a_function_that_fails_is_told_with_its_sample(whisper: Project, tmp_path: Path) -> None:
    project = whisper.copy(tmp_path)
    project.edit("recipes/pair.py", 'models["dec"].run', 'models["decoder"].run')

    done = project.mobuild("target=validation", check=False)

    assert done.status == 1
    assert (
        "node 'reference': sample 0: predict 'pair.py:transcribe' raises at recipes/pair.py:12 in transcribe: "
        "KeyError: 'decoder'"
    ) in done.err


CROPS = '''\
"""Finds the brightest patch, and says what it is."""

import numpy as np


def look(models, sample):
    scores = models["det"].run({"image": sample["image"][None]})["scores"][0]
    row, column = np.unravel_index(scores.argmax(), scores.shape)
    patch = sample["image"][4 * row : 4 * row + 4, 4 * column : 4 * column + 4]
    return {"class": models["cls"].run({"patch": patch[None]})["classes"][0], "box": np.asarray([row, column])}


def right(outputs, labels):
    return {"right": outputs["class"].argmax(-1) == labels}
'''
CROPPING = """\
  det:
    onnx: {kind: source, uri: det.onnx}
    sanitized: {kind: sanitize}
    quantized: {kind: quantize}
    engine: {kind: build_engine}
  cls:
    onnx: {kind: source, uri: cls.onnx}
    sanitized: {kind: sanitize}
    quantized: {kind: quantize}
    engine: {kind: build_engine}
  reference: {kind: reference_together, needs: {det: det.sanitized, cls: cls.sanitized}}
  validation:
    kind: validate_together
    needs: {det: det.engine, cls: cls.engine}
    data: {npz: images.npz}
    predict: "crops.py:look"
    metric: "crops.py:right"
shapes: {n: [1, 1, 8]}
"""


@pytest.fixture
def detector(tmp_path: Path) -> Project:
    """A detector of the patch of 4 × 4 with the largest sum, and a linear classifier of patches."""
    project = recipe_project(tmp_path, CROPPING, {"recipes/crops.py": CROPS})
    random = np.random.default_rng(0)
    weights, images = random.normal(size=(16, 3)).astype(np.float32), random.normal(size=(100, 16, 16))
    value, node = helper.make_tensor_value_info, helper.make_node
    _save(
        project.root / "det.onnx",
        [
            node("Unsqueeze", ["image", "one"], ["u"]),
            node("AveragePool", ["u"], ["p"], kernel_shape=[4, 4], strides=[4, 4]),
            node("Squeeze", ["p", "one"], ["scores"]),
        ],
        [value("image", TensorProto.FLOAT, ["n", 16, 16])],
        [value("scores", TensorProto.FLOAT, ["n", 4, 4])],
        {"one": np.array([1])},
    )
    _save(
        project.root / "cls.onnx",
        [node("Flatten", ["patch"], ["f"]), node("MatMul", ["f", "w"], ["classes"])],
        [value("patch", TensorProto.FLOAT, ["n", 4, 4])],
        [value("classes", TensorProto.FLOAT, ["n", 3])],
        {"w": weights},
    )
    np.savez(project.root / "images.npz", image=images.astype(np.float32), label=random.integers(0, 3, 100))
    return project


def _save(path: Path, nodes: Any, inputs: Any, outputs: Any, constants: dict[str, Any]) -> None:
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)


def test_a_detector_and_a_classifier_are_judged_by_one_metric(detector: Project) -> None:
    detector.mobuild("target=validation")

    metric = report(detector)["metrics"]["right"]
    assert metric["reference"] == metric["value"]


def test_where_a_device_is_not_here_both_are_measured_by_proxy(detector: Project) -> None:
    done = detector.mobuild("target=validation", "hardware=l4", "precision=fp16", "constraints.cosine_min=0.99")

    found = report(detector, "l4+fp16")
    assert found["device"] == "proxy"
    assert 0.99 < found["tensors"]["class"]["cosine_mean"] < 1
    assert "passed by proxy" in done.err


def test_a_validation_without_engines_is_refused(detector: Project) -> None:
    done = detector.mobuild(
        "target=validation", "nodes.validation.needs={reference:reference,det:null,cls:null}", check=False
    )

    assert done.status == 2
    assert "expected engines among the needs, found none" in done.err
    assert "needs: {enc: enc.engine, dec: dec.engine}" in done.err
