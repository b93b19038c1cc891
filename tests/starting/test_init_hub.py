"""`mobuild init hf:org/name`: against a stand-in for the hub."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from mobuild.starting.repository import uri_of
from tests.fetch.servers import Repository, Web, serve_hub, web
from tests.projects import Finished, Project
from tests.starting import saved
from tests.starting.test_init import write_onnx

COMMIT, OLD = "b" * 40, "a" * 40
BERT = {
    "architectures": ["BertModel"],
    "vocab_size": 50,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 64,
}


@pytest.fixture(scope="module")
def running() -> Iterator[Web]:
    with web() as server:
        yield server


@pytest.fixture
def project(running: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("HF_ENDPOINT", running.url)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    running.asked.clear()
    (tmp_path / "project").mkdir()
    return Project(tmp_path / "project", tmp_path / "cache")


def publish(server: Web, files: Mapping[str, bytes], name: str = "org/Tiny-Net-2.5") -> None:
    serve_hub(server, {name: Repository({COMMIT: dict(files), OLD: dict(files)}, {"main": COMMIT, "v1": OLD})})


def recipe(project: Project, name: str = "tiny_net_2_5") -> dict[str, Any]:
    return dict(yaml.safe_load((project.root / "recipes" / f"{name}.yaml").read_text()))


def python(project: Project) -> str:
    return (project.root / "recipes/tiny_net_2_5.py").read_text()


def follow(project: Project, done: Finished) -> Finished:
    line = done.out.splitlines()[-1]
    assert line == "now: mobuild target=engine recipe=tiny_net_2_5"
    return project.mobuild(*line.removeprefix("now: mobuild ").split())


def onnx(tmp_path: Path) -> bytes:
    write_onnx(tmp_path / "model.onnx")
    return (tmp_path / "model.onnx").read_bytes()


def safetensors(tmp_path: Path) -> bytes:
    return saved.safetensors(tmp_path / "model.safetensors").read_bytes()


def test_a_published_onnx_is_begun_at_and_fetched_once(project: Project, running: Web, tmp_path: Path) -> None:
    publish(running, {"onnx/model.onnx": onnx(tmp_path), "model.safetensors": b"x", "config.json": b"{}"})

    done = project.mobuild("init", "hf:org/Tiny-Net-2.5")
    asked = len([each for each in running.asked if each.path.startswith("/content/")])
    follow(project, done)

    found = recipe(project)
    assert found["nodes"]["onnx"] == {"kind": "source", "uri": f"hf:org/Tiny-Net-2.5/onnx/model.onnx@{COMMIT}"}
    assert found["nodes"]["sanitized"] == {"ranges": {"ids": [0, 50], "mask": [0, 1]}}
    assert len([each for each in running.asked if each.path.startswith("/content/")]) == asked
    assert (
        "note: begins at onnx/model.onnx, which hf:org/Tiny-Net-2.5 publishes; at its weights: "
        "mobuild init hf:org/Tiny-Net-2.5/model.safetensors\n"
    ) in done.err


def test_what_is_written_is_pinned(project: Project, running: Web, tmp_path: Path) -> None:
    publish(running, {"model.onnx": onnx(tmp_path)})

    project.mobuild("init", "hf:org/Tiny-Net-2.5")

    sources = json.loads((project.root / "recipes/tiny_net_2_5.lock").read_text())["sources"]
    assert [(uri, pin["version"]) for uri, pin in sources.items()] == [
        (f"hf:org/Tiny-Net-2.5/model.onnx@{COMMIT}", COMMIT)
    ]


@pytest.mark.parametrize(
    ("word", "commit"),
    [
        ("hf:org/Tiny-Net-2.5@v1", OLD),
        ("hf:org/Tiny-Net-2.5/model.onnx@v1", OLD),
        ("https://huggingface.co/org/Tiny-Net-2.5", COMMIT),
        ("https://huggingface.co/org/Tiny-Net-2.5/tree/v1", OLD),
        ("https://huggingface.co/org/Tiny-Net-2.5/blob/v1/model.onnx", OLD),
    ],
)
def test_revisions_files_and_pages_of_the_hub_are_understood(
    project: Project, running: Web, tmp_path: Path, word: str, commit: str
) -> None:
    publish(running, {"model.onnx": onnx(tmp_path)})

    project.mobuild("init", "mine", word)

    assert recipe(project, "mine")["nodes"]["onnx"]["uri"] == f"hf:org/Tiny-Net-2.5/model.onnx@{commit}"


def bert(tmp_path: Path) -> bytes:
    """Weights of the encoder in `BERT`, by the names that are published."""
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(0)
    layer, rows = "encoder.layer.0", {"word": 50, "position": 64, "token_type": 2}
    shapes: dict[str, tuple[int, ...]] = {f"embeddings.{name}_embeddings.weight": (n, 8) for name, n in rows.items()}
    for name in ("embeddings", f"{layer}.attention.output", f"{layer}.output"):
        shapes |= {f"{name}.LayerNorm.weight": (8,), f"{name}.LayerNorm.bias": (8,)}
    linear = {f"attention.self.{name}": (8, 8) for name in ("query", "key", "value")}
    linear |= {"attention.output.dense": (8, 8), "intermediate.dense": (16, 8), "output.dense": (8, 16)}
    for name, (out, into) in linear.items():
        shapes |= {f"{layer}.{name}.weight": (out, into), f"{layer}.{name}.bias": (out,)}
    shapes["pooler.dense.weight"] = (8, 8)
    save_file({name: torch.randn(shape) for name, shape in shapes.items()}, tmp_path / "bert.safetensors")
    return (tmp_path / "bert.safetensors").read_bytes()


def test_an_encoder_of_berts_kind_builds_without_transformers(project: Project, running: Web, tmp_path: Path) -> None:
    pooling = {
        "modules.json": json.dumps([{"type": "sentence_transformers.models.Normalize"}]).encode(),
        "1_Pooling/config.json": json.dumps({"pooling_mode_mean_tokens": True}).encode(),
    }
    publish(running, {"config.json": json.dumps(BERT).encode(), "model.safetensors": bert(tmp_path), **pooling})

    follow(project, project.mobuild("init", "hf:org/Tiny-Net-2.5"))

    found = recipe(project)
    assert found["nodes"]["onnx"]["outputs"] == {"embedding": ["batch", 8]}
    assert found["nodes"]["onnx"]["inputs"]["input_ids"]["range"] == [0, 50]
    assert found["shapes"]["sequence"] == [8, 32, 64]
    assert "import transformers" not in python(project)


def test_an_encoder_without_pooling_gives_its_states(project: Project, running: Web) -> None:
    publish(running, {"config.json": json.dumps(BERT).encode(), "model.safetensors": b"x"})

    project.mobuild("init", "hf:org/Tiny-Net-2.5")

    assert recipe(project)["nodes"]["onnx"]["outputs"] == {"last_hidden_state": ["batch", "sequence", 8]}


def test_a_folder_that_transformers_saved_is_begun_at_like_a_repository(project: Project, tmp_path: Path) -> None:
    folder = project.root / "models/My Bert"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(BERT))
    (folder / "model.safetensors").write_bytes(bert(tmp_path))

    project.mobuild("init", "models/My Bert")
    project.mobuild("target=onnx")

    assert recipe(project, "my_bert")["nodes"]["weights"] == {"uri": "models/My Bert/model.safetensors"}


def test_a_folder_of_an_unknown_architecture_lists_its_weights(project: Project, tmp_path: Path) -> None:
    folder = project.root / "the 'net\""
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(safetensors(tmp_path))

    project.mobuild("init", "net", str(folder))

    assert "    first.weight: float32 [16, 8]\n" in (project.root / "recipes/net.py").read_text()


KNOWN: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "BertForSequenceClassification": ({"vocab_size": 9}, ["input_ids", "attention_mask"], ["logits"]),
    "DistilBertForQuestionAnswering": (
        {"vocab_size": 9},
        ["input_ids", "attention_mask"],
        ["start_logits", "end_logits"],
    ),
    "LlamaForCausalLM": ({"vocab_size": 9}, ["input_ids", "attention_mask"], ["logits"]),
    "ViTModel": ({"image_size": 32}, ["pixel_values"], ["last_hidden_state"]),
    "ResNetForImageClassification": ({}, ["pixel_values"], ["logits"]),
}


@pytest.mark.parametrize("cls", KNOWN)
def test_a_known_architecture_is_loaded_through_transformers(project: Project, running: Web, cls: str) -> None:
    config, inputs, outputs = KNOWN[cls]
    document = json.dumps({**config, "architectures": [cls]}).encode()
    publish(running, {"config.json": document, "model.safetensors": b"x", "pytorch_model.bin": b"x"})

    done = project.mobuild("init", "hf:org/Tiny-Net-2.5")

    found = recipe(project)["nodes"]
    assert (list(found["onnx"]["inputs"]), found["onnx"]["outputs"]) == (inputs, outputs)
    assert found["config"]["uri"] == f"hf:org/Tiny-Net-2.5/config.json@{COMMIT}"
    assert f"transformers.{cls}.from_pretrained(" in python(project)
    assert f"note: {cls} is loaded through transformers: pip install transformers safetensors\n" in done.err
    assert ("use_cache=False" in python(project)) == (cls == "LlamaForCausalLM")
    compile(python(project), "loader", "exec")


@pytest.mark.parametrize(
    "config",
    [
        {"architectures": ["Own"], "vocab_size": 9},
        {"architectures": ["OwnModel"], "vocab_size": 9, "auto_map": {"AutoModel": "own.OwnModel"}},
        {"architectures": ['X";import os#Model'], "vocab_size": 9},
        {"architectures": ["T5Model"], "vocab_size": 9, "is_encoder_decoder": True},
        {"architectures": "BertModel"},
        {"architectures": ["BertModel"], "hidden_size": "8"},
        [],
    ],
)
def test_an_unknown_architecture_lists_its_weights_and_asks(
    project: Project, running: Web, tmp_path: Path, config: Any
) -> None:
    publish(running, {"config.json": json.dumps(config).encode(), "model.safetensors": safetensors(tmp_path)})

    done = project.mobuild("init", "hf:org/Tiny-Net-2.5")

    assert done.out.splitlines()[-1].startswith("now: fill in network() in recipes/tiny_net_2_5.py, then mobuild ")
    assert "    first.weight: float32 [16, 8]\n" in python(project)


WRONG: dict[str, tuple[dict[str, bytes], str, str]] = {
    "no such repository": ({}, "hf:org/nope", "source 'hf:org/nope@main': is not there: 404 Not Found"),
    "no such file": (
        {"a.onnx": b"x"},
        "hf:org/Tiny-Net-2.5/b.onnx",
        "init: hf:org/Tiny-Net-2.5/b.onnx: there is no such",
    ),
    "GGUF alone": (
        {"q4.gguf": b"GGUF"},
        "hf:org/Tiny-Net-2.5",
        "init: hf:org/Tiny-Net-2.5: has neither one ONNX file nor weights of PyTorch: q4.gguf\n  GGUF is for llama.cpp",
    ),
    "weights in parts": (
        {"model.safetensors.index.json": b"{}", "model-00001-of-00002.safetensors": b"x"},
        "hf:org/Tiny-Net-2.5",
        "init: hf:org/Tiny-Net-2.5: its weights are in several files",
    ),
    "an ONNX that is none": ({"model.onnx": b"no model"}, "hf:org/Tiny-Net-2.5", ""),
    "weights that are a page": ({"model.safetensors": b"<html></html>"}, "hf:org/Tiny-Net-2.5", "source 'hf:org/Tiny"),
    "no name": ({}, "hf:org", "source 'hf:org': names no repository"),
}


@pytest.mark.parametrize(("files", "word", "says"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_begun_at_is_said_and_leaves_nothing(
    project: Project, running: Web, files: dict[str, bytes], word: str, says: str
) -> None:
    publish(running, files)

    done = project.mobuild("init", word, check=False)

    assert done.status in (1, 2)
    assert done.errors[0].startswith(says)
    assert [path.name for path in project.root.iterdir() if path.name != "build"] == []


def test_an_address_of_a_page_is_unquoted() -> None:
    page = "https://huggingface.co/org/net/blob/refs%2Fpr%2F1/onnx/my%20model.onnx"

    assert uri_of(page) == "hf:org/net/onnx/my model.onnx@refs/pr/1"
