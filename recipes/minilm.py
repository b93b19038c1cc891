"""MiniLM sentence embedder (Wang et al., 2020; sentence-transformers/all-MiniLM-L6-v2): a BERT encoder and a mean.

The modules bear the names of the published weights (Apache-2.0), so that these load as they are; the package
they lie in is not needed. Every constant stays within half precision: fp16 is a change of types, nothing else.
How text becomes numbers, and how the embeddings are judged, is in `minilm_texts.py`, which needs no torch.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional

VOCABULARY, POSITIONS, WIDTH, INNER, LAYERS, HEADS = 30522, 512, 384, 1536, 6, 12
MASKED = -1e4  # added to a masked score: exp of it is 0 in every precision, and half precision can hold it
UNUSED = ("embeddings.position_ids", "pooler.")  # in the file, but no part of the embedding


def normalization() -> nn.Module:
    return nn.LayerNorm(WIDTH, eps=1e-12)


def residual(width: int) -> nn.ModuleDict:
    return nn.ModuleDict({"dense": nn.Linear(width, WIDTH), "LayerNorm": normalization()})


class Embeddings(nn.Module):
    """Words, positions and the one segment that a single text has."""

    def __init__(self) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(VOCABULARY, WIDTH)
        self.position_embeddings = nn.Embedding(POSITIONS, WIDTH)
        self.token_type_embeddings = nn.Embedding(2, WIDTH)
        self.LayerNorm = normalization()

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)
        words = self.word_embeddings(input_ids) + self.token_type_embeddings.weight[0]
        return self.LayerNorm(words + self.position_embeddings(positions))


class Layer(nn.Module):
    """Attention and a feed-forward network, each added to its input and normalised."""

    def __init__(self) -> None:
        super().__init__()
        linear = {name: nn.Linear(WIDTH, WIDTH) for name in ("query", "key", "value")}
        self.attention = nn.ModuleDict({"self": nn.ModuleDict(linear), "output": residual(WIDTH)})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(WIDTH, INNER)})
        self.output = residual(INNER)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self._add(self.attention["output"], self._attend(x, mask), x)
        return self._add(self.output, functional.gelu(self.intermediate["dense"](x)), x)

    def _attend(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        linear = self.attention["self"]
        query, key, value = (
            linear[name](x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for name in ("query", "key", "value")
        )
        scores = query @ key.transpose(-1, -2) * (WIDTH // HEADS) ** -0.5 + mask
        return (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)

    def _add(self, block: nn.Module, x: torch.Tensor, shortcut: torch.Tensor) -> torch.Tensor:
        return block["LayerNorm"](block["dense"](x) + shortcut)


class MiniLM(nn.Module):
    """Token numbers and mask (batch, sequence), int64 → embedding (batch, 384) of length 1."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = Embeddings()
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(Layer() for _ in range(LAYERS))})

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        x = self.embeddings(input_ids)
        present = attention_mask.to(x.dtype)
        mask = ((1 - present) * MASKED)[:, None, None, :]
        for layer in self.encoder["layer"]:
            x = layer(x, mask)
        # A count of tokens is 1 at least, so no smaller bound (1e-9 is 0 in half precision) is needed.
        mean = (x * present[..., None]).sum(1) / present.sum(1, keepdim=True).clamp(min=1)
        return mean / mean.norm(dim=1, keepdim=True)


def load(weights: Path) -> nn.Module:
    network = MiniLM()
    state = {name: value for name, value in load_file(weights).items() if not name.startswith(UNUSED)}
    network.load_state_dict(state)
    return network
