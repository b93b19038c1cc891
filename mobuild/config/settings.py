"""What stands at the top of a composed config and is no node: checked once, at the edge.

A key that nobody reads is nearly always a slip of the pen (`precison: fp16`), and a slip that passes in
silence builds the wrong thing. Keys of the user's own are fine as long as something refers to them
(`width: 640`, then `${width}`).
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf

from mobuild.config.project import GROUPS, Project, once, shipped, witnesses
from mobuild.config.reading import raw, same
from mobuild.config.recipes import SHAPES_CHOICE, SHAPES_GROUP, read_yaml
from mobuild.contract.codes import SAYS
from mobuild.contract.request import Machine
from mobuild.errors import ConfigError, did_you_mean
from mobuild.job import Checking, Publishing, Settings, Upkeep
from mobuild.paths import expanded
from mobuild.units import parse_age, parse_size
from mobuild.versions import version_text

_VERSIONS = ("cuda", "driver", "python", "runtime")  # of the machine that an engine is for


def read_settings(app: DictConfig, project: Project) -> Settings:
    """What steers a run.

    Raises:
        ConfigError: a value of another type than the key has; names the key.
    """
    written = raw(app)
    steering = {key: value for key, value in written.items() if key in known_keys() and key not in _OF_NODES}
    return same(project, "settings", steering, lambda: _settings(app, project))


_OF_NODES = ("nodes", "shapes", "constraints", "hardware", "precision", "backend")


def _settings(app: DictConfig, project: Project) -> Settings:
    parse_size(app.workspace, "workspace")  # also where no backend reads it: a slip would pass as a variant
    return Settings(
        cache=project.cache(_text_or_none(app, "cache.dir", "a path")),
        build=project.build,
        project=project.root,
        strict=_flag(app, "cache.strict"),
        keep_going=_flag(app, "keep_going"),
        frozen=_flag(app, "frozen"),
        here=_flag(app, "here"),
        debug=_flag(app, "debug"),
        compare_build=_flag(app, "compare.build"),
        junit=_path(app, "report.junit"),
        offline=_flag(app, "offline"),
        format=_format(app),
        against=_text_or_none(app, "against", "a revision"),
        slots=_slots(app),
        timeout_seconds=seconds(OmegaConf.select(app, "executor.timeout_seconds"), "executor.timeout_seconds"),
        witnesses=witnesses(project),
        variables=frozenset(),  # known when the nodes are made, and so is the next
        asked_device=False,
        secrets=_secrets(app),
        upkeep=_upkeep(app),
        checking=_checking(app),
        publishing=Publishing(
            push=_text_or_none(app, "image.push", "registry/team/name:tag"),
            push_unproven=_flag(app, "image.push_unproven"),
        ),
    )


def targets(app: DictConfig) -> list[str]:
    """The names in `target`.

    Raises:
        ConfigError: neither a name nor a list of names.
    """
    value = app.target
    names = list(value) if isinstance(value, ListConfig) else [value]
    if not names or not all(isinstance(name, (str, int)) and name != "" for name in names):
        raise ConfigError(
            f"target: expected a node's name or a list of names, found {_shown(value)}",
            "target=engine, or target=[onnx,engine]",
        )
    return [str(name) for name in names]


def builders(app: DictConfig) -> list[str]:
    """The backends that `backend: auto` may choose.

    Raises:
        ConfigError: no list of names.
    """
    value = app.builders
    if not isinstance(value, ListConfig) or not all(isinstance(name, str) for name in value):
        raise ConfigError(
            f"builders: expected a list of backends, found {_shown(value)}", "builders=[tensorrt_rtx,onnxruntime]"
        )
    return list(value)


def _secrets(app: DictConfig) -> tuple[str, ...]:
    value = app.secrets
    if not isinstance(value, ListConfig) or not all(isinstance(name, str) for name in value):
        raise ConfigError(f"secrets: expected a list of names, found {_shown(value)}", "secrets=[PIN,LICENCE_*]")
    return tuple(value)


def seconds(value: Any, where: str) -> float | None:
    """A time limit; none for null.

    Raises:
        ConfigError: no number above 0.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise ConfigError(f"{where}: expected a number of seconds above 0, or null, found {_shown(value)}")
    return float(value)


def refuse_unknown_keys(app: DictConfig, project: Project, where: str) -> None:
    """Refuse keys at the top that mobuild does not know and nothing refers to.

    Raises:
        ConfigError: names the first, with the nearest known one.
    """
    known = known_keys()
    unknown = [str(key) for key in app if str(key) not in known | {SHAPES_CHOICE, SHAPES_GROUP}]
    if not unknown:
        return
    texts = [str(raw(app)), *_own_files(project)]
    for key in unknown:
        if not any(re.search(r"\$\{" + re.escape(key) + r"\b", text) for text in texts):
            raise ConfigError(
                f"{where}: unknown key {key!r}.{did_you_mean(key, known)}",
                f"Keys: {', '.join(sorted(known))}\nA key of your own is one that something refers to: ${{{key}}}",
            )


@functools.cache
def known_keys() -> frozenset[str]:
    """What may stand at the top of a config, by the shipped files."""
    primary = read_yaml(shipped("conf") / "mobuild.yaml")
    assert isinstance(primary, DictConfig)
    own = {str(key) for key in primary} - {"defaults", "hydra"}
    return frozenset(own | set(GROUPS) - {"node"} | {"recipe"})


@once
def _own_files(project: Project) -> list[str]:
    paths = sorted(project.conf.rglob("*.yaml")) if project.conf else ()
    return [path.read_text(errors="replace") for path in paths]


def _upkeep(app: DictConfig) -> Upkeep:
    size, age = OmegaConf.select(app, "gc.size"), OmegaConf.select(app, "gc.age")
    return Upkeep(
        size_bytes=None if size is None else parse_size(size, "gc.size", least=0),
        age_seconds=None if age is None else parse_age(age, "gc.age"),
        dry_run=_flag(app, "gc.dry_run"),
        rebuild=_flag(app, "verify.rebuild"),
        remove=_flag(app, "pin.remove"),
    )


def _checking(app: DictConfig) -> Checking:
    plugins, ignored = _texts(app, "check.plugins", "operators"), _texts(app, "check.ignore", "codes")
    for code in ignored:
        if code not in SAYS:
            raise ConfigError(f"check.ignore: there is no rule {code!r}.{did_you_mean(code, SAYS)}", ", ".join(SAYS))
    machine = Machine(
        **{name: version_text(OmegaConf.select(app, f"check.{name}") or "", f"check.{name}") for name in _VERSIONS},
        compat=_flag(app, "check.compat"),
        plugins=plugins,
    )
    return Checking(_flag(app, "check.strict"), ignored, _flag(app, "check.parser"), machine)


def _texts(app: DictConfig, key: str, what: str) -> tuple[str, ...]:
    value = OmegaConf.select(app, key)
    if not isinstance(value, ListConfig) or not all(isinstance(name, str) for name in value):
        raise ConfigError(f"{key}: expected a list of {what}, found {_shown(value)}", f"{key}=[…]")
    return tuple(value)


def _flag(app: DictConfig, key: str) -> bool:
    value = OmegaConf.select(app, key)
    if not isinstance(value, bool):
        raise ConfigError(f"{key}: expected true or false, found {_shown(value)}")
    return value


def _format(app: DictConfig) -> str:
    if not isinstance(app.format, str):  # which of them there are is the verb's own (`calls.check_format`)
        raise ConfigError(f"format: expected a name, found {_shown(app.format)}", "format=json")
    return app.format


def _slots(app: DictConfig) -> int | None:
    value = OmegaConf.select(app, "executor.slots")
    if value is not None and (type(value) is not int or value < 1):
        raise ConfigError(f"executor.slots: expected a whole number from 1, or null, found {_shown(value)}")
    return value


def _text_or_none(app: DictConfig, key: str, what: str) -> str | None:
    value = OmegaConf.select(app, key)
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"{key}: expected {what} or null, found {_shown(value)}")
    return value


def _path(app: DictConfig, key: str) -> Path | None:
    text = _text_or_none(app, key, "a path")
    if text == "":
        raise ConfigError(f"{key}: expected a path, found nothing", f"{key}=junit.xml")
    return None if text is None else expanded(text).absolute()


def _shown(value: Any) -> str:
    if OmegaConf.is_config(value):
        value = OmegaConf.to_container(value)
    return "nothing" if value is None else repr(value)
