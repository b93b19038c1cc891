"""Which backend builds: decided by configuration alone, never by what happens to be installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf

from mobuild.config.project import Project
from mobuild.config.reading import conf_defaults, conf_names
from mobuild.config.settings import builders
from mobuild.contract.cards import no_builder
from mobuild.errors import ConfigError, NoBackend, did_you_mean
from mobuild.hardware import Hardware

REST = "rest"  # of a backend's file: the precision around int8, which is the quantiser's business


def chosen_backend(scope: DictConfig, project: Project, hardware: Hardware) -> DictConfig:
    """The chosen backend with the defaults of its file; `auto` takes the first that hardware and builders share.

    A mapping under the name of a backend (`backend: {tensorrt: {typing: weak}}`) holds options for that one alone, so
    that a recipe can have them and be built by others, too. An option said of the backend itself goes first.

    Raises:
        ConfigError: there is no such backend.
        NoBackend: hardware and builders share none; both lists are named.
    """
    chosen = scope.backend if isinstance(scope.backend, DictConfig) else OmegaConf.create({"name": scope.backend})
    own = {key: value for key, value in chosen.items_ex(resolve=False) if key != "name"}
    named = {key: own.pop(key) for key in conf_names(project, "backend") if isinstance(own.get(key), DictConfig)}
    if "_target_" in own:
        return _with_named(own, named, project) if named else chosen
    name = str(chosen.get("name", "auto"))
    if name == "auto":
        name = choose_backend(hardware, builders(scope))
    defaults = conf_defaults(project, "backend", name)
    if defaults is None:
        known = conf_names(project, "backend")
        raise ConfigError(f"there is no backend {name!r}.{did_you_mean(name, known)}", f"Backends: {', '.join(known)}")
    merged = OmegaConf.merge({REST: "fp32"}, defaults, named.get(name, {}), own)
    assert isinstance(merged, DictConfig)
    return merged


def _with_named(own: dict[Any, Any], named: dict[str, Any], project: Project) -> DictConfig:
    """A backend that Hydra has merged from its file, with the options under its name where the file's still stand."""
    merged = OmegaConf.create(own)
    for name, options in named.items():
        defaults = conf_defaults(project, "backend", name)
        if not isinstance(defaults, DictConfig) or defaults.get("_target_") != own["_target_"]:
            continue
        plain = dict(defaults.items_ex(resolve=False))
        for key, value in options.items_ex(resolve=False):
            if isinstance(value, DictConfig) and isinstance(own.get(key), DictConfig):
                merged[key] = OmegaConf.merge(value, own[key])
            elif key not in own or own[key] == plain.get(key):
                merged[key] = value
    return merged


def choose_backend(hardware: Hardware, allowed: Sequence[str]) -> str:
    """The first of the hardware's backends that is among the project's builders.

    Raises:
        NoBackend: none is; both lists are named, and what the contracts say of the hardware's own.
    """
    for name in hardware.backends:
        if name in allowed:
            return name
    found = no_builder(hardware, allowed)
    lists = f"none of its backends [{', '.join(hardware.backends)}] is among the builders [{', '.join(allowed)}]"
    told = [(each.code, each.message.removeprefix(lists).lstrip("; ")) for each in found]
    reasons = [f"{code}: {why}" for code, why in told if why]
    hint = "\n".join(dict.fromkeys([*reasons, *(each.hint for each in found)]))
    raise NoBackend(f"hardware {hardware.name!r}: {lists}", hint, found)
