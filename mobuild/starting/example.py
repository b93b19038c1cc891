"""A small network and its recipe, which build as they are, for who begins without a model."""

from __future__ import annotations

_RECIPE = """\
# yaml-language-server: $schema=../.mobuild.schema.json
# @package _global_
# Build it:  mobuild target=engine recipe={name}
defaults:
  - /recipe/standard                    # weights → onnx → sanitized → engine
  - _self_
nodes:
  # weights: {{uri: models/{name}.pt}}    # your file; or a pinned s3://… https://… (mobuild lock)
  onnx:
    needs: {{weights: null}}              # remove this line with the # before 'weights'
    model: "{name}.py:load"
    inputs: {{x: [batch, 8]}}             # names for the axes that may vary, numbers for the others
    outputs: [y]
shapes: {{batch: [1, 8, 32]}}             # min, opt, max
"""

_MODULE = '''\
"""The network of recipe {name}, and how its weights are loaded."""

import torch


class Net(torch.nn.Module):
    """Replace me. Input x: (batch, 8) float32. Output y: (batch, 4) float32."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def load() -> torch.nn.Module:
    """The network. Once the recipe names weights: def load(weights: pathlib.Path), and read them here:
    net.load_state_dict(torch.load(weights, weights_only=True))
    """
    torch.manual_seed(0)
    return Net()
'''


def files(name: str) -> dict[str, str]:
    """What to write, by path below the project's root."""
    return {
        f"recipes/{name}.yaml": _RECIPE.format(name=name),
        f"recipes/{name}.py": _MODULE.format(name=name),
    }
