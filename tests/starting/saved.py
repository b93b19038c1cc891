"""Files of networks as torch and others save them."""

from __future__ import annotations

import json
import struct
import warnings
from pathlib import Path
from typing import Any

import torch

NETWORK = '''\
import torch


class Other(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.last = torch.nn.Linear(16, 4)


class Net(torch.nn.Module):
    """Two layers."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 16)
        self.last = torch.nn.Linear(16, 4)

    def forward(self, x):
        return self.last(self.first(x).relu())
'''


class Net(torch.nn.Module):
    """The same two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(8, 16)
        self.last = torch.nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x).relu())


def network() -> Net:
    torch.manual_seed(0)
    return Net().eval()


def state(path: Path, prefix: str = "") -> Path:
    torch.save({f"{prefix}{name}": value for name, value in network().state_dict().items()}, path)
    return path


def script(path: Path, traced: bool = True) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = torch.jit.trace(network(), torch.zeros(1, 8)) if traced else torch.jit.script(network())
        torch.jit.save(made, str(path))
    return path


def program(path: Path) -> Path:
    axes = {"x": {0: torch.export.Dim("n")}}
    torch.export.save(torch.export.export(network(), (torch.zeros(2, 8),), dynamic_shapes=axes), path)
    return path


def safetensors(path: Path, header: Any = None) -> Path:
    from safetensors.torch import save_file

    if header is None:
        save_file(network().state_dict(), path)
    else:
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text)
    return path
