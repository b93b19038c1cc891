"""Which backend builds: decided by configuration alone, never by what happens to be installed."""

from __future__ import annotations

from collections.abc import Sequence

from omegaconf import DictConfig, OmegaConf

from mobuild.config.project import Project
from mobuild.config.reading import conf_defaults, conf_names
from mobuild.config.settings import builders
from mobuild.contract.rules import Request, check
from mobuild.errors import ConfigError, Refused, did_you_mean
from mobuild.hardware import Hardware

REST = "rest"  # of a backend's file: the precision around int8, which is the quantiser's business


def chosen_backend(scope: DictConfig, project: Project, hardware: Hardware) -> DictConfig:
    """The chosen backend with the defaults of its file; `auto` takes the first that hardware and builders share.

    Raises:
        ConfigError: there is no such backend.
        Refused: hardware and builders share none; both lists are named.
    """
    chosen = scope.backend if isinstance(scope.backend, DictConfig) else OmegaConf.create({"name": scope.backend})
    own = {key: value for key, value in chosen.items_ex(resolve=False) if key != "name"}
    if "_target_" in own:
        return chosen
    name = str(chosen.get("name", "auto"))
    if name == "auto":
        name = choose_backend(hardware, builders(scope))
    defaults = conf_defaults(project, "backend", name)
    if defaults is None:
        known = conf_names(project, "backend")
        raise ConfigError(f"there is no backend {name!r}.{did_you_mean(name, known)}", f"Backends: {', '.join(known)}")
    merged = OmegaConf.merge({REST: "fp32"}, defaults, own)
    assert isinstance(merged, DictConfig)
    return merged


def choose_backend(hardware: Hardware, allowed: Sequence[str]) -> str:
    """The first of the hardware's backends that is among the project's builders.

    Raises:
        Refused: none is; both lists are named, and what the contracts say of the hardware's own.
    """
    for name in hardware.backends:
        if name in allowed:
            return name
    known = [finding for name in hardware.backends or allowed for finding in check(Request(hardware, name))]
    errors = [finding for finding in known if finding.severity == "error"]
    reasons = [f"{finding.code}: {finding.message}" for finding in errors]
    remedies = [finding.hint for finding in errors if finding.hint] or [_REMEDY]
    raise Refused(
        f"hardware {hardware.name!r}: none of its backends [{', '.join(hardware.backends)}] is among the builders "
        f"[{', '.join(allowed)}]",
        "\n".join(dict.fromkeys([*reasons, *remedies])),
    )


_REMEDY = "name one with backend=…, or set builders=[…] in conf/project/default.yaml"
