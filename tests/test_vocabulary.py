"""Tokenizers: the ids that their files tell, and how they are held against the model's tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest

from mobuild.vocabulary import Vocabulary, read
from tests.onnxmodel.models import embedding
from tests.projects import Project

WORDS = {"model": {"type": "WordPiece", "vocab": {"[PAD]": 0, "a": 1, "b": 2}}}
PADDED = {**WORDS, "padding": {"pad_id": 3}, "added_tokens": [{"id": 3, "content": "<pad>", "special": True}]}
UNIGRAM = {"model": {"type": "Unigram", "vocab": [["<unk>", 0.0], ["a", -1.0]]}, "padding": None}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (WORDS, Vocabulary(3)),
        (PADDED, Vocabulary(4, {"pad": 3, "<pad>": 3})),
        (UNIGRAM, Vocabulary(2)),
        ({"model": "resnet", "added_tokens": 3}, None),
        ({"model": {"vocab": {"a": "x"}}}, None),
        ([1, 2], None),
    ],
)
def test_a_tokenizers_file_tells_its_ids(tmp_path: Path, document: Any, expected: Vocabulary | None) -> None:
    (tmp_path / "t.json").write_text(json.dumps(document))

    assert read(tmp_path / "t.json") == expected


def test_a_folder_tells_what_the_configuration_beside_it_names(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps(WORDS))
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": 7, "pad_token_id": None, "vocab_size": 9}))

    assert read(tmp_path) == Vocabulary(8, {"eos": 7})


@pytest.mark.parametrize("content", [b"", b"{", b"PK\x03\x04", b'{"a": 1}\n{"a": 2}\n', b"[" * 100000])
def test_what_is_no_tokenizer_tells_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t.json").write_bytes(content)

    assert read(tmp_path / "t.json") is None
    assert read(tmp_path / "absent.json") is None


def test_an_edited_file_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(json.dumps(WORDS))
    read(tmp_path / "t.json")
    (tmp_path / "t.json").write_text(json.dumps(PADDED))

    assert read(tmp_path / "t.json") == Vocabulary(4, {"pad": 3, "<pad>": 3})


def test_check_compares_a_recipes_tokenizer_with_its_model(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", tmp_path / "cache")
    project.write("tokenizer.json", json.dumps({**WORDS, "padding": {"pad_id": 50}}))
    onnx.save(embedding(), project.root / "m.onnx")
    project.write(
        "recipes/text.yaml",
        "# @package _global_\ndefaults: [/recipe/standard, _self_]\nnodes:\n"
        "  onnx: {kind: source, uri: m.onnx}\n"
        "  tokenizer: {kind: source, uri: tokenizer.json}\n"
        "  calibration: {needs: {tokenizer: tokenizer}, data: {npz: data.npz}}\n"
        "shapes: {batch: 1, length: [1, 4, 8]}\n",
    )
    project.write("data.npz", "")

    done = project.mobuild("check", "precision=int8", check=False)

    assert done.status == 1
    assert (
        "T2   text/cpu+int8 engine: input 'ids': the tokenizer of node 'tokenizer' has ids up to 50 (pad is 50), "
        "its table has 50 rows" in done.out
    )
