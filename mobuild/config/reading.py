"""Files and values of the configuration, read with errors that say where."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from omegaconf.resolvers.oc import env

from mobuild import device
from mobuild.config.project import Project, once, shipped
from mobuild.config.recipes import read_yaml
from mobuild.errors import ConfigError

T = TypeVar("T")

NODE = "_node_"  # where a node lies while its interpolations are resolved


@once
def conf_file(project: Project, group: str, name: str) -> Path | None:
    folders = [project.conf, shipped("conf")]
    found = (folder / group / f"{name}.yaml" for folder in folders if folder)
    return next((path for path in found if path.is_file()), None)


@once
def conf_defaults(project: Project, group: str, name: str) -> DictConfig | ListConfig | None:
    """What the file of `name` says; None without one. Shared: merge from it, and never into it.

    Raises:
        ConfigError: it cannot be read as YAML.
    """
    file = conf_file(project, group, name)
    return None if file is None else read_yaml(file)


@once
def conf_names(project: Project, group: str) -> list[str]:
    folders = [folder / group for folder in (project.conf, shipped("conf")) if folder]
    return sorted({path.stem for folder in folders if folder.is_dir() for path in folder.glob("*.yaml")})


def raw(config: Any) -> Any:
    """A config as it was written: what `OmegaConf.to_container` gives, at a twentieth of the time."""
    value = config._value() if OmegaConf.is_config(config) else config
    if isinstance(value, dict):
        return {key: _written(item) for key, item in value.items()}
    return [_written(item) for item in value] if isinstance(value, list) else value


def copied(config: DictConfig) -> DictConfig:
    """A copy of a whole config, at a fifth of the time of `config.copy()`."""
    copy: DictConfig = pickle.loads(pickle.dumps(config, pickle.HIGHEST_PROTOCOL))
    return copy


def _written(node: Any) -> Any:
    value = node._value()
    if isinstance(value, dict):
        return {key: _written(item) for key, item in value.items()}
    return [_written(item) for item in value] if isinstance(value, list) else value


def same(project: Project, what: str, written: Any, make: Callable[[], T]) -> T:
    """What `make` gives for `written` (of `raw`), made once for all jobs of a command that say the same.

    Made each time where an interpolation lets it depend on more. Callers share the answer, and leave it as it is.
    """
    key = (what, str(written))
    if "${" in key[1]:
        return make()
    if key not in project.known:
        project.known[key] = make()
    answer: T = project.known[key]
    return answer


def plain(config: DictConfig, key: str, where: str) -> dict[str, Any]:
    """`config[key]` as plain values, interpolations resolved.

    Raises:
        ConfigError: no mapping, an interpolation points nowhere, or a `???` was never filled.
    """
    if not isinstance(config[key], DictConfig):
        found = "nothing" if config[key] is None else repr(config[key])
        raise ConfigError(f"{where}: {key}: expected a mapping, found {found}")
    try:
        value = OmegaConf.to_container(config[key], resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        text = str(error).splitlines()[0].replace(f"{NODE}.", "")
        raise ConfigError(f"{where}: {text}", unset_hint(str(error))) from error
    assert isinstance(value, dict)
    return {str(name): item for name, item in value.items()}


_READ: set[str] = set()
_DEVICES: set[str] = set()
DEVICE = "mobuild.device"
_ALWAYS = ("MOBUILD_CACHE", "HOME", "PYTHONPATH", "HYDRA_FULL_ERROR")


def watch_machine() -> None:
    """Register what the configuration asks of the machine, and note it: `${oc.env:…}`, `${mobuild.device:…}`."""

    def read(name: str, *default: Any) -> Any:
        _READ.add(name)
        return env(name, *default)

    def ask(fact: str) -> Any:
        row = device.here()
        _DEVICES.add(row.name)
        value = getattr(row, fact)
        return OmegaConf.create(list(value)) if isinstance(value, tuple) else value

    OmegaConf.register_new_resolver("oc.env", read, replace=True)
    OmegaConf.register_new_resolver(DEVICE, ask, replace=True)


def unset_hint(text: str) -> str:
    """How to mend an error of OmegaConf's that is about a variable which is not set, or a shell's; empty for others."""
    if re.search(r"Unsupported interpolation type", text):
        return r"to a shell it is written $NAME, or '\${NAME:-…}' in single quotes; here ${…} means a key"
    found = re.search(r"Environment variable '([^']*)' not found", text)
    return f"set it, or say what stands for it: ${{oc.env:{found[1]},null}}" if found else ""


def variables_read() -> frozenset[str]:
    """The variables that decided the configuration so far."""
    return frozenset((*_ALWAYS, *_READ))


def asked_device() -> bool:
    """Whether the GPU of this machine decided the configuration so far."""
    return bool(_DEVICES)
