"""Small networks for the tests of `export`, loaded by reference as a user's would be."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn


class Linear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x).relu()


class Three(Linear):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = self.layer(x)
        return y, y, x


class BakedBatch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(12, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count = int(x.shape[0])
        return self.layer(x.reshape(count, 12))


class Branch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x * 10
        return x - 1


class BranchOnShape(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] != 4:
            raise ValueError("four columns")
        return x * 2


class BranchOnSize(nn.Module):
    """Computes something else for many rows than for few."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] > 16 else x * 3


class Positions(nn.Module):
    """Has places for 16 tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(50, 8)
        self.places = nn.Embedding(16, 8)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.tokens(ids) + self.places(torch.arange(ids.shape[1]))


class Encoder(nn.Module):
    """Does not use `token_type_ids`."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 8)

    def forward(
        self, input_ids: torch.Tensor, token_type_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> torch.Tensor:
        return (self.embedding(input_ids) * attention_mask[..., None]).sum(1)


class Tokens(Encoder):
    """Takes `ids` from 0 to 49, in rows of at least 4."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return self.embedding(ids).unfold(1, 4, 1).sum((1, 2, 3))


class Normed(nn.Module):
    """Convolution, batch norm, pooling: what the dynamo exporter cannot convert below opset 18."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Dropout(0.5)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Twice(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(self.layer(x))


class Deep(nn.Module):
    """Halves its input four times, so that small examples do not fit."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 16, stride=16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


class Counting(Linear):
    """Keeps state between calls."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.layer(x) + self.calls


class WithAnchors(nn.Module):
    """Answers with one of its own parameters as well, as a detector does with its anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors = nn.Parameter(torch.arange(6.0).reshape(3, 2))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x + 1, self.anchors


class InBfloat16(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.bfloat16)


def fits(weights: Path) -> nn.Module:
    network = Linear()
    network.load_state_dict(torch.load(weights, weights_only=True))
    return network


def dropped_mode() -> nn.Module:
    return Normed().train()


def raises() -> nn.Module:
    raise KeyError("backbone")


def no_module() -> dict[str, int]:
    return {"layer": 1}


def clamped(model: nn.Module, inputs: tuple[torch.Tensor, ...], options: dict[str, object]) -> nn.Module:
    """A hook: the same network with another operator for its activation."""

    class Clamped(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return model.layer(x).clamp(min=0)

    return Clamped()


def translated(model: nn.Module, inputs: tuple[torch.Tensor, ...], options: dict[str, object]) -> None:
    """A hook that gives the exporter what no recipe can hold: functions of its own."""
    from onnxscript import opset20

    def relu(x):  # type: ignore[no-untyped-def]
        return opset20.Max(x, opset20.CastLike(opset20.Constant(value_float=0.0), x))

    options["custom_translation_table"] = {torch.ops.aten.relu.default: relu}


def doubled(model: nn.Module, inputs: tuple[torch.Tensor, ...], options: dict[str, object]) -> None:
    """A hook that changes what the network computes."""
    with torch.no_grad():
        model.layer.weight.mul_(2)


def counted(model: nn.Module, inputs: tuple[torch.Tensor, ...], options: dict[str, object]) -> int:
    return len(inputs)


class Usual(nn.Module):
    """What older exporters and builders stumbled over, in one network."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        y = x.masked_fill(mask, -1.0) + x.tril() - x.triu(1)
        y = y * torch.ones(5, 5).tril()[:, :1] + torch.triu(torch.ones(5, 8, dtype=torch.int64), 1)
        y = y.clone()
        y[:, 0] = 1.0
        heads = y[:, None].repeat_interleave(2, dim=1)
        out = nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
        hidden = torch.ones(x.shape[1], 5, dtype=torch.bool).tril()
        out = out + torch.einsum("bij,bkj->bik", y, y)[:, None, :, :1]
        return out + nn.functional.scaled_dot_product_attention(heads, heads, heads, attn_mask=hidden)


class Scattered(nn.Module):
    """Additions by index in three ways, and an assignment by mask."""

    def forward(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        y = torch.zeros(6, 8).index_add(0, index, x[0])
        z = torch.zeros(6, 8).index_put((index, index), x[0, :, 0], accumulate=True)
        w = x.scatter_add(2, (x > 0).long(), x)
        w[w > 1] = 0.5
        return w.sum(1, keepdim=True) + y + z
