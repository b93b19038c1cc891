"""What a model that stands for a recipe is called: `det` for `model=det.onnx`, `enc+model` for `model=enc/model.onnx`.

Models of one file name in several folders are several models, so each has a place of its own in build/, the same from
whichever folder of the project it is named.
"""

from __future__ import annotations

import os
from pathlib import Path

from mobuild.errors import ConfigError
from mobuild.fetch.uris import is_remote, without_credentials
from mobuild.fingerprint import digest_bytes

_SUFFIX = ".onnx"
_JOIN = "+"


def model_name(model: str, here: Path, root: Path) -> str:
    """The name of the ONNX file `model`, written by someone who stands in `here`, in the project at `root`.

    It is the file's own in the project's folder, and below that the folders before it. Where that is not sure to be
    this model's alone (outside of the project, a remote one, no `.onnx`), eight digits of its place are added.
    """
    if is_remote(model):
        plain = without_credentials(model)
        return _numbered(Path(plain).stem, plain)
    typed = Path(model).expanduser()
    path = Path(os.path.normpath(here / typed))
    if not path.is_relative_to(root):
        return _numbered(path.stem, str(path) if typed.is_absolute() else os.path.relpath(path, root))
    parts = path.relative_to(root).with_suffix("").parts
    name = _JOIN.join(parts)
    is_sure = path.suffix == _SUFFIX and not any(_JOIN in part for part in parts)
    return name if is_sure else _numbered(name, str(path.relative_to(root)))


def check_model(model: object) -> None:
    """Refuse what ends in no file's name, since the recipe is named after it.

    Raises:
        ConfigError: it does.
    """
    if not isinstance(model, str) or not Path(model).stem or model.endswith((".", "/")):
        raise ConfigError(f"model: expected the path of an ONNX file, found {model!r}", "model=det.onnx")


def check_free(name: str, model: str, recipes: list[str]) -> None:
    """Refuse a model that would lie where a recipe of the project has its artifacts.

    Raises:
        ConfigError: it would.
    """
    if name in recipes:
        raise ConfigError(
            f"model={model}: would lie in build/{name}, where recipe {name!r} of this project has its artifacts",
            "rename the file, or start at it in a recipe: nodes: {onnx: {kind: source, uri: …}}",
        )


def _numbered(name: str, place: str) -> str:
    return f"{name}{_JOIN}{digest_bytes(os.fsencode(place))[:8]}"
