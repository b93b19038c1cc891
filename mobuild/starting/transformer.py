"""The Python that loads a published network through the library transformers, by what its config.json says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mobuild.starting.recipe import in_docstring
from mobuild.starting.tensors import Input

_HEADS = {  # how a class is called at its end → what its answers are called
    "ForSequenceClassification": ("logits",),
    "ForTokenClassification": ("logits",),
    "ForQuestionAnswering": ("start_logits", "end_logits"),
    "ForMaskedLM": ("logits",),
    "ForCausalLM": ("logits",),
    "LMHeadModel": ("logits",),
    "ForImageClassification": ("logits",),
    "ForSemanticSegmentation": ("logits",),
    "ForObjectDetection": ("logits", "pred_boxes"),
    "Model": ("last_hidden_state",),
}
_OF_IMAGES = ("ForImageClassification", "ForSemanticSegmentation", "ForObjectDetection")
_GENERATING = ("ForCausalLM", "LMHeadModel")
_CLASS = re.compile(r"[A-Z]\w*", re.ASCII)

_MODULE = '''\
"""Loads {repository} ({cls}) through transformers: pip install transformers safetensors."""

import tempfile
from pathlib import Path

import torch
import transformers


class Exported(torch.nn.Module):
    """Takes the recipe's inputs in their order, and answers with tensors."""

    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, {arguments}):
        answer = self.network({given})
        return {answers}


def load(weights: Path, config: Path) -> torch.nn.Module:
    with tempfile.TemporaryDirectory() as folder:  # the names that transformers looks for
        (Path(folder) / "config.json").symlink_to(config)
        (Path(folder) / "{file}").symlink_to(weights)
        network = transformers.{cls}.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    return Exported(network)
'''


@dataclass(frozen=True)
class Known:
    """A network that transformers has, with the inputs and outputs of its exported form."""

    cls: str
    inputs: Sequence[Input]
    outputs: Sequence[str]
    is_generating: bool


def known(config: Mapping[str, Any]) -> Known | None:
    """What config.json names; None when it is of no kind that is known here."""
    named = config.get("architectures")
    cls = str(named[0]) if isinstance(named, list) and named else ""
    head = next((end for end in _HEADS if cls.endswith(end)), "")
    if not head or not _CLASS.fullmatch(cls) or config.get("is_encoder_decoder") or config.get("auto_map"):
        return None
    rows = config.get("vocab_size")
    if head in _OF_IMAGES or (head == "Model" and "image_size" in config and not rows):
        return Known(cls, [_pixels(config)], _HEADS[head], False)
    if type(rows) is not int:
        return None
    return Known(cls, text_inputs(rows), _HEADS[head], head in _GENERATING)


def text_inputs(rows: int) -> list[Input]:
    """Of a network that reads token numbers."""
    shape = ("batch", "sequence")
    return [
        Input("input_ids", shape, "int64", (0, rows), "the vocabulary's size, as config.json has it"),
        Input("attention_mask", shape, "int64", (0, 1), "1 where there is a word, 0 where there is padding"),
    ]


def lengths(config: Mapping[str, Any]) -> list[int]:
    """[min, opt, max] of a text's length, within the positions that the network has."""
    told = [config.get(name) for name in ("max_position_embeddings", "n_positions")]
    most = min([256, *(each for each in told if type(each) is int and each > 0)])
    return [min(8, most), max(1, most // 2), most]


def module(repository: str, file: str, found: Known) -> str:
    names = [each.name for each in found.inputs]
    given = [*(f"{name}={name}" for name in names), *(["use_cache=False"] if found.is_generating else [])]
    return _MODULE.format(
        repository=in_docstring(repository),
        cls=found.cls,
        file=file,
        arguments=", ".join(names),
        given=", ".join(given),
        answers=", ".join(f"answer.{name}" for name in found.outputs),
    )


def _pixels(config: Mapping[str, Any]) -> Input:
    size = config.get("image_size", 224)
    height, width = size if isinstance(size, list) and len(size) == 2 else (size, size)
    sides = [each if type(each) is int and each > 0 else 224 for each in (height, width)]
    channels = config.get("num_channels", 3)
    note = "the size that config.json has" if "image_size" in config else "guessed: config.json has no image_size"
    return Input("pixel_values", ("batch", channels if type(channels) is int else 3, *sides), note=note)
