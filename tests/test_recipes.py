"""The data, the metrics and the networks of the shipped recipes, and one whole chain of the larger one."""

from __future__ import annotations

import importlib.util
import itertools
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from tests.projects import Project

RECIPES = Path(__file__).parents[1] / "recipes"


def module(name: str) -> ModuleType:
    """A Python file of the recipes."""
    spec = importlib.util.spec_from_file_location(name, RECIPES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (RECIPES / name).read_text(encoding="utf-8").splitlines()]


def one_hot(bins: list[int]) -> np.ndarray:
    return np.eye(360, dtype=np.float32)[bins]


def test_tones_are_the_same_each_time() -> None:
    tones = module("crepe_tones")

    first, second = list(tones.evaluation()), list(tones.evaluation())

    assert len(first) == 600 and len(list(tones.calibration())) == 128
    for (frames, pitch_hz), (again, pitch_hz_again) in zip(first, second, strict=True):
        assert pitch_hz == pitch_hz_again and np.array_equal(frames["frames"], again["frames"])


def test_tones_of_calibration_and_evaluation_differ() -> None:
    tones = module("crepe_tones")

    calibrated = {pitch_hz for _, pitch_hz in tones.calibration()}

    assert calibrated.isdisjoint(pitch_hz for _, pitch_hz in tones.evaluation())


def test_frames_are_normalised_as_the_network_was_trained() -> None:
    for inputs, _ in itertools.islice(module("crepe_tones").evaluation(), 20):
        frame = inputs["frames"]

        assert frame.shape == (1024,) and frame.dtype == np.float32
        assert abs(frame.mean()) < 1e-6 and abs(frame.std() - 1) < 1e-5


def test_evaluation_tones_are_as_loud_as_the_noise() -> None:
    tones = module("crepe_tones")

    tone = tones.tone(np.random.default_rng(0), 220.0)

    assert tone.std() == pytest.approx(1.0)  # of the noise, too


@pytest.mark.parametrize(("off_cents", "score"), [(0, 1.0), (49, 1.0), (-49, 1.0), (51, 0.0), (1200, 0.0)])
def test_pitch_is_right_within_50_cents(off_cents: float, score: float) -> None:
    tones = module("crepe_tones")
    pitch_hz = 10 * 2 ** ((tones.LOWEST_BIN_CENTS + 20 * 100 + off_cents) / 1200)

    judged = tones.pitch_accuracy({"pitch": one_hot([100])}, [pitch_hz])

    assert judged["pitch_accuracy"].tolist() == [score]


def test_pitch_of_the_outermost_bins_does_not_reach_around() -> None:
    tones = module("crepe_tones")

    cents = tones.cents(one_hot([0, 359]))

    assert cents == pytest.approx([tones.LOWEST_BIN_CENTS, tones.LOWEST_BIN_CENTS + 20 * 359])


@pytest.fixture(scope="module")
def network() -> torch.nn.Module:
    """The network with weights drawn at random."""
    torch.manual_seed(0)
    return module("minilm").MiniLM().eval()


IDS = torch.tensor([[101, 2023, 2003, 102]])


def padded(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.nn.functional.pad(IDS, (0, count))
    return ids, (ids != 0).long()


def test_padding_does_not_change_an_embedding(network: torch.nn.Module) -> None:
    with torch.no_grad():
        bare, long = network(*padded(0)), network(*padded(60))

    assert bare.norm().item() == pytest.approx(1)
    assert (bare - long).abs().max() < 1e-6


def test_half_precision_holds_every_constant(network: torch.nn.Module) -> None:
    half = module("minilm").MiniLM().eval()
    half.load_state_dict(network.state_dict())

    with torch.no_grad():
        cosine = (half.half()(*padded(60)).float() * network(*padded(60))).sum()

    assert cosine > 0.999


def test_weights_load_without_what_the_embedding_does_not_use(tmp_path: Path, network: torch.nn.Module) -> None:
    from safetensors.torch import save_file

    published = {
        **network.state_dict(),
        "embeddings.position_ids": torch.arange(512),
        "pooler.dense.bias": torch.ones(3),
    }
    save_file(published, tmp_path / "model.safetensors")
    del published["encoder.layer.5.output.dense.bias"]
    save_file(published, tmp_path / "short.safetensors")

    loaded = module("minilm").load(tmp_path / "model.safetensors").eval()

    assert torch.equal(loaded(*padded(0)), network(*padded(0)))
    with pytest.raises(RuntimeError, match=r"Missing key.*encoder\.layer\.5\.output\.dense\.bias"):
        module("minilm").load(tmp_path / "short.safetensors")


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    """A tokenizer of three words."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    made = Tokenizer(models.WordPiece({"[PAD]": 0, "[UNK]": 1, "red": 2, "fox": 3}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


@pytest.mark.parametrize(("words", "length"), [(1, 32), (32, 32), (33, 64), (128, 128), (500, 128)])
def test_a_text_is_padded_to_a_multiple_of_32_and_cut_at_128(tokenizer: Path, words: int, length: int) -> None:
    inputs = module("minilm_texts").tokenize({"text": "fox " * words}, tokenizer)

    assert {name: (array.shape, array.dtype) for name, array in inputs.items()} == {
        "input_ids": ((length,), np.dtype("int64")),
        "attention_mask": ((length,), np.dtype("int64")),
    }
    kept = min(words, 128)
    assert inputs["input_ids"].tolist() == [3] * kept + [0] * (length - kept)
    assert inputs["attention_mask"].tolist() == [1] * kept + [0] * (length - kept)


def labels(*sides: tuple[int, str]) -> list[dict[str, Any]]:
    return [{"pair": pair, "side": side} for pair, side in sides]


def test_retrieval_gives_one_score_for_each_query() -> None:
    embeddings = np.array([[1, 0], [0, 1], [0.9, 0.1], [0.8, 0.6], [0.7, 0.7], [0.0, 0.0]], np.float32)
    sides = labels((0, "query"), (1, "query"), (0, "document"), (1, "document"), (2, "document"), (2, "query"))

    scores = module("minilm_texts").retrieval({"embedding": embeddings}, sides)

    assert scores["recall_at_1"].tolist() == [1, 0, 0]
    # The second query finds its document second; the last is equally near to all, which counts against it.
    assert scores["mrr"].tolist() == pytest.approx([1, 1 / 2, 1 / 3])


def test_retrieval_of_not_a_number_is_no_hit() -> None:
    sides = labels((0, "query"), (0, "document"), (1, "query"), (1, "document"))

    scores = module("minilm_texts").retrieval({"embedding": np.full((4, 2), np.nan, np.float32)}, sides)

    assert scores["recall_at_1"].tolist() == [0, 0]


def test_retrieval_without_a_pair_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^no query among 1 texts comes with its document$"):
        module("minilm_texts").retrieval({"embedding": np.ones((1, 2), np.float32)}, labels((0, "query")))


def test_calibration_and_evaluation_texts_have_nothing_in_common() -> None:
    evaluation, calibration = lines("minilm_pairs.jsonl"), lines("minilm_calibration.jsonl")

    texts = {line["text"] for line in evaluation}

    assert len(texts) == len(evaluation) == 800 and len(calibration) == 160
    assert texts.isdisjoint(line["text"] for line in calibration)


@pytest.mark.parametrize("file", ["minilm_pairs.jsonl", "minilm_calibration.jsonl"])
def test_each_query_has_its_document_in_the_same_80_lines(file: str) -> None:
    found = lines(file)
    for block in (found[i : i + 80] for i in range(0, len(found), 80)):
        texts = {(line["label"]["pair"], line["label"]["side"]): line["text"] for line in block}
        pairs = {pair for pair, _ in texts}

        assert len(texts) == 80 and len(pairs) == 40
        for pair in pairs:
            assert 20 < len(texts[pair, "query"]) < 200
            assert 120 < len(texts[pair, "document"]) <= 800


def test_pairs_are_made_of_doc_strings(tmp_path: Path) -> None:
    first, rest = "A first line of some length.", "A rest that is long enough. " * 6
    (tmp_path / "one.py").write_text(f'"""{first}\n\n{rest}\n"""\n\n\ndef f():\n    """Short."""\n')
    (tmp_path / "two.py").write_text(f'class A:\n    """{first}\n\n    {rest}other\n    """\n')
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "three.py").write_text(f'"""Another line of some length.\n\n{rest}\n"""\n')
    maker = module("make_minilm_pairs")

    found = maker.distinct(maker.pairs(tmp_path))
    maker.write(tmp_path / "pairs.jsonl", found)

    assert found == [(first, rest.strip())]
    assert [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()] == [
        {"text": first, "label": {"pair": 0, "side": "query"}},
        {"text": rest.strip(), "label": {"pair": 0, "side": "document"}},
    ]


def similarities(folder: Path, texts: list[str]) -> np.ndarray:
    """Cosines between the embeddings of texts by the exported network, each text run alone."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(folder / "sanitized.onnx"), providers=["CPUExecutionProvider"])
    tokenize = module("minilm_texts").tokenize
    feeds = [tokenize({"text": text}, folder / "tokenizer.json") for text in texts]
    rows = [session.run(None, {name: array[None] for name, array in each.items()})[0][0] for each in feeds]
    return np.array([[float(left @ right) for right in rows] for left in rows])


def cosine(folder: Path) -> float:
    document = json.loads((folder / "run.json").read_text())["nodes"]["validation"]["measurements"]
    return float(document["tensors"]["embedding"]["cosine_mean"])


def verdict(folder: Path) -> str:
    return str(json.loads((folder / "run.json").read_text())["nodes"]["validation"]["verdict"])


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "project" / "recipes").mkdir(parents=True)
    return Project(tmp_path / "project", tmp_path / "cache")


def test_crepe_tiny_in_int8_loses_no_point_on_noisy_tones(project: Project) -> None:
    project.mobuild("recipe=crepe_tiny", "precision=int8", "target=validation")

    document = json.loads((project.root / "build/crepe_tiny/cpu+int8/validation.json").read_text())
    accuracy = document["metrics"]["pitch_accuracy"]
    assert document["device"] == "real" and document["samples"] == accuracy["paired"]["samples"] == 600
    assert accuracy["reference"] == pytest.approx(0.96, abs=0.01)
    assert accuracy["drop"] <= 0.01


@pytest.mark.timeout(600)
def test_minilm_in_int8_passes_its_gate_and_fails_it_with_outputs_quantized(project: Project) -> None:
    """The whole chain, from the published weights; 80 pairs stand for the 400 of the recipe."""
    done = project.mobuild(
        "-m",
        "recipe=minilm",
        "precision=int8",
        "target=[tokenizer,sanitized,validation]",
        "nodes.quantized.outputs_quantized=false,true",
        "nodes.validation.data.limit=160",
        "shapes.batch=[1,2,16]",
        "shapes.sequence=[8,32,128]",
        check=False,
    )

    folders = sorted((path.parent for path in project.root.rglob("run.json")), key=cosine)
    bad, good = folders
    assert done.status == 1
    assert not (bad / "validation.json").exists()
    assert [verdict(folder) for folder in folders] == ["failed", "passed"]
    assert cosine(bad) < 0.85 and cosine(good) > 0.95
    assert re.findall("^error: .*$", done.err, re.MULTILINE) == [
        f"error: recipe 'minilm', variant '{bad.name}', node 'validation': gate failed"
    ]
    assert f"cosine_min of output 'embedding': measured {cosine(bad):.9g}, allowed at least 0.95" in done.err
    # Published with the model: sbert.net, Quickstart.
    texts = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    published = [[1.0000, 0.6660, 0.1046], [0.6660, 1.0000, 0.1411], [0.1046, 0.1411, 1.0000]]
    assert similarities(good, texts) == pytest.approx(np.array(published), abs=1e-4)
