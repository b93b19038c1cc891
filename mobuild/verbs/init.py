"""`mobuild init NAME`: a recipe that builds as it is, to be edited."""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path

from mobuild.errors import ConfigError
from mobuild.report import messages

_MADE = ("cache", "build")  # what mobuild makes in a project, and no version control wants

_RECIPE = """\
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


def init(root: Path, name: str, taken: Collection[str] = ()) -> int:
    """Write recipes/NAME.yaml and recipes/NAME.py, and let git ignore what mobuild makes.

    `taken` are names that mean a recipe already, which one of the project's would hide.

    Raises:
        ConfigError: the name is no Python name or taken, or a file is there already.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ConfigError(f"init: {name!r} is no name for a recipe", "use small letters, digits and _")
    if name in taken:
        raise ConfigError(f"init: {name!r} is a recipe that mobuild ships", "choose another name")
    if keyword.iskeyword(name) or find_spec(name):
        raise ConfigError(
            f"init: there is a Python module {name!r} already, which recipes/{name}.py would hide from your code",
            f"choose another name, such as {name}_model",
        )
    folder = root / "recipes"
    files = {f"{name}.yaml": _RECIPE.format(name=name), f"{name}.py": _MODULE.format(name=name)}
    for file in files:
        if (folder / file).exists():
            raise ConfigError(f"init: {folder / file} is there already", "choose another name, or remove it first")
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        (folder / file).write_text(text)
        print(folder / file)
    ignore_what_is_made(root / ".gitignore")
    print(f"now: mobuild target=engine recipe={name}")
    return 0


def ignore_what_is_made(path: Path) -> None:
    """Let git leave out cache/ and build/; what is written about them already stays as it is."""
    try:
        written = path.read_bytes() if path.exists() else b""
        missing = [folder for folder in _MADE if folder not in _folders(written)]
        if missing:
            is_open = bool(written) and not written.endswith(b"\n")
            with path.open("ab") as stream:
                stream.write(b"\n" * is_open + "".join(f"/{folder}/\n" for folder in missing).encode())
            print(path)
    except OSError as error:
        messages.note(f"{path}: cannot be written: {error.strerror}; cache/ and build/ are for no version control")


def _folders(written: bytes) -> set[str]:
    """The folders of the root that a .gitignore speaks of, whatever it says about them."""
    lines = written.decode("utf-8", "replace").splitlines()
    return {line.strip().lstrip("!/").removeprefix("**/").partition("/")[0] for line in lines}
