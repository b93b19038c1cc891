"""From a mapping of a recipe to a frozen dataclass, with errors that name the key.

Node kinds and backends are open: their fields are checked here, when the object is made, and not by a
schema in Hydra.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any

from mobuild import node as nodes
from mobuild.errors import ConfigError, did_you_mean


def construct(fields: Mapping[str, Any], where: str) -> Any:
    """The dataclass that `_target_` names, with the other entries as its fields.

    `where` is how messages name the mapping: `recipe 'det', node 'onnx'`.

    Raises:
        ConfigError: no such class, an unknown, missing or mistyped field.
    """
    cls = _target(fields, where)
    known = {spec.name: spec for spec in dataclasses.fields(cls)}
    hints = _hints(cls)
    values: dict[str, Any] = {}
    for name, value in fields.items():
        if name == "_target_":
            continue
        if name not in known:
            raise ConfigError(
                f"{where}: unknown field {name!r}.{did_you_mean(name, known)}",
                f"Fields of {cls.__name__}: {', '.join(known)}",
            )
        values[name] = _value(value, hints.get(name), f"{where}, field {name!r}")
    missing = [name for name, spec in known.items() if name not in values and _is_required(spec)]
    if missing:
        raise ConfigError(f"{where}: the field {missing[0]!r} has no value", f"write {missing[0]}: … in the recipe")
    try:
        return cls(**values)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error.message}", error.hint) from error


def _target(fields: Mapping[str, Any], where: str) -> Any:
    path = str(fields.get("_target_", ""))
    try:
        cls = nodes.target(path)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"{where}: _target_ {path!r} cannot be imported: {error}") from error
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        raise ConfigError(f"{where}: _target_ {path!r} is no dataclass")
    return cls


def _hints(cls: type) -> Mapping[str, Any]:
    return typing.get_type_hints(cls)


def _is_required(spec: dataclasses.Field[Any]) -> bool:
    return spec.default is dataclasses.MISSING and spec.default_factory is dataclasses.MISSING


def _value(value: Any, hint: Any, where: str) -> Any:
    if isinstance(value, Mapping) and "_target_" in value:
        return construct(value, where)
    if hint is str and not isinstance(value, str):
        found = "nothing" if value is None else f"the {type(value).__name__} {value!r}"
        raise ConfigError(f"{where}: expected text, found {found}", _QUOTE)
    if hint in (int, bool) and type(value) is not hint:
        raise ConfigError(f"{where}: expected {_word(hint)}, found {value!r}")
    if hint is float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ConfigError(f"{where}: expected a number, found {value!r}")
        return float(value)
    return _frozen(value)


_QUOTE = """a number loses its zeros (10.10 becomes 10.1): quote it, "10.10"; on a command line '"10.10"'"""


def _word(hint: type) -> str:
    return {int: "a whole number", bool: "true or false"}[hint]


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _frozen(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(item) for item in value)
    return value
