"""The Python that loads an encoder of BERT's kind from safetensors, written out: it needs no other library.

The modules bear the names of the published weights, as in the shipped recipe `minilm`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mobuild.starting.recipe import in_docstring

_MODULE = '''\
"""Loads {repository} (BertModel) from {file}: written out here, so that transformers is not needed."""

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional

VOCABULARY, POSITIONS, SEGMENTS = {vocabulary}, {positions}, {segments}
WIDTH, INNER, LAYERS, HEADS, EPSILON = {width}, {inner}, {layers}, {heads}, {epsilon}
MASKED = -1e4  # added to a masked score: exp of it is 0 in every precision, and half precision can hold it
UNUSED = ("embeddings.position_ids", "pooler.", "cls.")  # in the file, and no part of the answer


def normalization() -> nn.Module:
    return nn.LayerNorm(WIDTH, eps=EPSILON)


def residual(width: int) -> nn.ModuleDict:
    return nn.ModuleDict({{"dense": nn.Linear(width, WIDTH), "LayerNorm": normalization()}})


class Embeddings(nn.Module):
    """Words, positions and the one segment that a single text has."""

    def __init__(self) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(VOCABULARY, WIDTH)
        self.position_embeddings = nn.Embedding(POSITIONS, WIDTH)
        self.token_type_embeddings = nn.Embedding(SEGMENTS, WIDTH)
        self.LayerNorm = normalization()

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)
        words = self.word_embeddings(input_ids) + self.token_type_embeddings.weight[0]
        return self.LayerNorm(words + self.position_embeddings(positions))


class Layer(nn.Module):
    """Attention and a feed-forward network, each added to its input and normalised."""

    def __init__(self) -> None:
        super().__init__()
        linear = {{name: nn.Linear(WIDTH, WIDTH) for name in ("query", "key", "value")}}
        self.attention = nn.ModuleDict({{"self": nn.ModuleDict(linear), "output": residual(WIDTH)}})
        self.intermediate = nn.ModuleDict({{"dense": nn.Linear(WIDTH, INNER)}})
        self.output = residual(INNER)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.add(self.attention["output"], self.attend(x, mask), x)
        return self.add(self.output, functional.gelu(self.intermediate["dense"](x)), x)

    def attend(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        linear = self.attention["self"]
        query, key, value = (
            linear[name](x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for name in ("query", "key", "value")
        )
        scores = query @ key.transpose(-1, -2) * (WIDTH // HEADS) ** -0.5 + mask
        return (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)

    def add(self, block: nn.Module, x: torch.Tensor, shortcut: torch.Tensor) -> torch.Tensor:
        return block["LayerNorm"](block["dense"](x) + shortcut)


class Encoder(nn.Module):
    """Token numbers and mask (batch, sequence), int64 → {answers}."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = Embeddings()
        self.encoder = nn.ModuleDict({{"layer": nn.ModuleList(Layer() for _ in range(LAYERS))}})

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        x = self.embeddings(input_ids)
        present = attention_mask.to(x.dtype)
        mask = ((1 - present) * MASKED)[:, None, None, :]
        for layer in self.encoder["layer"]:
            x = layer(x, mask)
{answer}


def load(weights: Path) -> nn.Module:
    network = Encoder()
    state = {{name.removeprefix("bert."): value for name, value in load_file(weights).items()}}
    network.load_state_dict({{name: value for name, value in state.items() if not name.startswith(UNUSED)}})
    return network
'''

_STATES = "        return x"
_MEAN = (
    "        mean = (x * present[..., None]).sum(1) / present.sum(1, keepdim=True).clamp(min=1)\n        return mean"
)
_NORMAL = _MEAN + " / mean.norm(dim=1, keepdim=True)"
_SIZES = ("vocab_size", "max_position_embeddings", "hidden_size", "intermediate_size", "num_hidden_layers")


def fits(config: Mapping[str, Any]) -> bool:
    """Whether this is an encoder that the Python here computes."""
    is_plain = config.get("hidden_act", "gelu") == "gelu" and not config.get("is_decoder")
    is_absolute = config.get("position_embedding_type", "absolute") == "absolute"
    sizes = [config.get(name) for name in (*_SIZES, "num_attention_heads")]
    sizes.append(config.get("type_vocab_size", 2))
    has_sizes = all(type(size) is int and size > 0 for size in sizes)
    has_sizes = has_sizes and type(config.get("layer_norm_eps", 1e-12)) is float
    return config.get("architectures") == ["BertModel"] and is_plain and is_absolute and has_sizes


def module(repository: str, file: str, config: Mapping[str, Any], pooled: str) -> str:
    """The Python for a `config.json` that fits. `pooled`: empty for all states, `mean`, or `normalised`."""
    vocabulary, positions, width, inner, layers = (config[name] for name in _SIZES)
    answers = {"mean": f"their mean (batch, {width})", "normalised": f"an embedding (batch, {width}) of length 1"}
    return _MODULE.format(
        repository=in_docstring(repository),
        file=in_docstring(file),
        vocabulary=vocabulary,
        positions=positions,
        segments=config.get("type_vocab_size", 2),
        width=width,
        inner=inner,
        layers=layers,
        heads=config["num_attention_heads"],
        epsilon=config.get("layer_norm_eps", 1e-12),
        answers=answers.get(pooled, f"states (batch, sequence, {width})"),
        answer={"mean": _MEAN, "normalised": _NORMAL}.get(pooled, _STATES),
    )
