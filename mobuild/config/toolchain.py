"""Where a node runs, as `python:` of the node, `toolchain.<kind>` or `toolchain` say: the nearest one decides."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from mobuild.container import Container
from mobuild.errors import ConfigError, did_you_mean
from mobuild.paths import expanded

_PLACE = ("python", "requirements", "image")
_RUNNING = ("container", "container_options")
_KEYS = (*_PLACE, *_RUNNING, "stay")


@dataclass(frozen=True)
class Chosen:
    """Of the three, two at most: an interpreter is also what a set is made with, or the one in the image."""

    python: Path | None = None
    requirements: Path | None = None
    container: Container | None = None


def chosen(toolchain: DictConfig, own: Any, node: Any, root: Path, where: str) -> Chosen:
    """Where `node` runs. `own` is its `python:`; relative paths start at `root`, the project's.

    Raises:
        ConfigError: a value of another sort, or two that exclude each other.
    """
    if own is not None:
        return _read({"python": own}, root, where)
    plain = _plain(toolchain)
    of_kind = plain.get(node.kind)
    if of_kind is not None:
        where = f"toolchain.{node.kind}"
        if not isinstance(of_kind, Mapping):
            raise ConfigError(f"{where}: expected a mapping, found {of_kind!r}", f"{where}.python=./venv/bin/python")
        _check_keys(of_kind, (*_PLACE, *_RUNNING), where)
        running = {key: plain[key] for key in _RUNNING if key in plain}
        return _read({**running, **of_kind}, root, where)
    stays = node.kind in (plain.get("stay") or ()) or not node.isolated
    return Chosen() if stays else _read(plain, root, "toolchain")


def refuse_unknown_keys(toolchain: Any, kinds: Collection[str], is_open: bool) -> None:
    """Refuse keys that are neither mobuild's nor one of `kinds`; `is_open` where there are kinds that no file names.

    Raises:
        ConfigError: names the first, with the nearest known one.
    """
    if not isinstance(toolchain, DictConfig):
        raise ConfigError(f"toolchain: expected a mapping, found {toolchain!r}", "toolchain.python=./venv/bin/python")
    stay = _plain(toolchain).get("stay")
    if stay is not None and not isinstance(stay, list):
        raise ConfigError(f"toolchain.stay: expected a list of kinds, found {stay!r}", "[calibrate, build_engine]")
    if not is_open:
        _check_keys([str(key) for key in toolchain], (*_KEYS, *kinds), "toolchain")


def _check_keys(found: Collection[str], known: Collection[str], where: str) -> None:
    for key in found:
        if key not in known:
            raise ConfigError(
                f"{where}: unknown key {key!r}.{did_you_mean(key, known)}", f"Keys: {', '.join(sorted(known))}"
            )


def _plain(toolchain: DictConfig) -> dict[str, Any]:
    try:
        found = OmegaConf.to_container(toolchain, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise ConfigError(f"toolchain: {str(error).splitlines()[0]}") from error
    assert isinstance(found, dict)
    return {str(key): value for key, value in found.items()}


def _read(said: Mapping[str, Any], root: Path, where: str) -> Chosen:
    python = _text(said, "python", where, "the path of an interpreter", "./venv/bin/python")
    requirements = _text(said, "requirements", where, "the path of a locked set", "requirements.lock")
    image = _text(said, "image", where, "an image by its digest", "registry/name@sha256:…")
    if image and requirements:
        raise ConfigError(f"{where}: image and requirements exclude each other", "install the set in the image")
    if image:
        return Chosen(container=_container(said, image, python, where))
    return Chosen(_interpreter(python, root), root / expanded(requirements) if requirements else None)


def _interpreter(python: str, root: Path) -> Path | None:
    """The path as it is meant; a bare name that is no file of the project is looked up on PATH, later."""
    if not python:
        return None
    path = expanded(python)
    is_word = "/" not in python and not (root / path).exists()
    return path if path.is_absolute() or is_word else root / path


def _container(said: Mapping[str, Any], image: str, python: str, where: str) -> Container:
    if "/" in python and not python.startswith("/"):
        raise ConfigError(
            f"{where}: python: expected the Python in the image, found {python!r}",
            "a name such as python3, or an absolute path such as /opt/conda/bin/python",
        )
    program = _text(said, "container", where, "the program that runs images", "podman")
    options = said.get("container_options") or []
    if not isinstance(options, list) or not all(isinstance(word, (str, int)) for word in options):
        raise ConfigError(f"{where}: container_options: expected a list of words, found {options!r}", "[--gpus, all]")
    return Container(image, python or "python3", tuple(shlex.split(program)), tuple(map(str, options)))


def _text(said: Mapping[str, Any], key: str, where: str, what: str, example: str) -> str:
    value = said.get(key)
    if value is not None and not (isinstance(value, str) and value.strip()):
        raise ConfigError(f"{where}: {key}: expected {what}, found {value!r}", example)
    return value or ""
