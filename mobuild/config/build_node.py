"""From a mapping of a recipe to a frozen dataclass, with errors that name the key.

Node kinds and backends are open: their fields are checked here, when the object is made, and not by a
schema in Hydra.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections import abc
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
        values[name] = _field(value, known[name], hints.get(name), f"{where}, field {name!r}")
    missing = [name for name, spec in known.items() if name not in values and _is_required(spec)]
    if missing:
        raise ConfigError(f"{where}: the field {missing[0]!r} has no value", f"write {missing[0]}: …")
    try:
        return cls(**values)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error.message}", error.hint) from error
    except (TypeError, ValueError, AttributeError, KeyError) as error:  # a kind that takes its fields on trust
        raise ConfigError(
            f"{where}: its fields do not suit {cls.__name__}: {type(error).__name__}: {error}",
            f"its fields: {', '.join(known)}",
        ) from error


def texts(value: Any, where: str) -> dict[str, str | None]:
    """A mapping of names to text or null, as a recipe says it outside a kind's fields.

    Raises:
        ConfigError: it is none; names the key.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}: expected a mapping, found {_found(value)}")
    for name, text in value.items():
        if text is not None and not isinstance(text, str):
            raise _no_text(text, f"{where}, {str(name)!r}")
    return {_key(name, where): text for name, text in value.items()}


def _target(fields: Mapping[str, Any], where: str) -> Any:
    path = str(fields.get("_target_", ""))
    try:
        cls = nodes.target(path)
    except Exception as error:  # whatever the user's module raises is about the user's module
        raise ConfigError(
            f"{where}: _target_ {path!r} cannot be imported: {type(error).__name__}: {error}",
            "its module must be installed or on PYTHONPATH, and import by itself",
        ) from error
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        raise ConfigError(f"{where}: _target_ {path!r} is no dataclass")
    return cls


@functools.cache
def _hints(cls: type) -> Mapping[str, Any]:
    return typing.get_type_hints(cls)


def _is_required(spec: dataclasses.Field[Any]) -> bool:
    return spec.default is dataclasses.MISSING and spec.default_factory is dataclasses.MISSING


def _field(value: Any, spec: dataclasses.Field[Any], hint: Any, where: str) -> Any:
    try:
        return _value(value, hint, where)
    except ConfigError as error:
        if value is not None or error.hint:
            raise
        example = '"file.py:function"' if nodes.is_code(spec) else "…"
        leave_out = "" if _is_required(spec) else ", or leave it out"
        raise ConfigError(error.message, f"write {spec.name}: {example}{leave_out}") from error


def _value(value: Any, hint: Any, where: str) -> Any:
    if isinstance(value, Mapping) and "_target_" in value:
        return construct(value, where)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _nested(value, hint, where)
    if hint is str and not isinstance(value, str):
        raise _no_text(value, where)
    if hint in (int, bool) and type(value) is not hint:
        raise ConfigError(f"{where}: expected {_word(hint)}, found {_shown(value)}")
    if hint is float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ConfigError(f"{where}: expected a number, found {_shown(value)}")
        value = float(value)
    _check_shape(value, hint, where)
    if isinstance(value, Mapping) and typing.get_origin(hint) is abc.Mapping:
        return _mapping(value, typing.get_args(hint)[1], where)
    return _frozen(value, where)


def _nested(value: Any, cls: type, where: str) -> Any:
    """A field that is a dataclass of its own, such as the `data` of a calibration."""
    if isinstance(value, Mapping):
        return construct({"_target_": f"{cls.__module__}.{cls.__qualname__}", **value}, where)
    names = ", ".join(spec.name for spec in dataclasses.fields(cls))
    raise ConfigError(
        f"{where}: expected a mapping with fields of {cls.__name__}, found {_found(value)}",
        f"Fields of {cls.__name__}: {names}" + "\nleave it out when there is nothing to say" * (value is None),
    )


def _check_shape(value: Any, hint: Any, where: str) -> None:
    """A list where the field is a list, a mapping where it is a mapping, one of them where it may be both."""
    parts = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    origins = {typing.get_origin(part) for part in parts}
    wanted = {abc.Mapping: "a mapping", abc.Sequence: "a list", tuple: "a list"}
    if not origins <= wanted.keys():
        return
    own = {abc.Mapping} if isinstance(value, Mapping) else {abc.Sequence, tuple} if isinstance(value, list) else set()
    if not origins & own:
        words = " or ".join(dict.fromkeys(wanted[origin] for origin in wanted if origin in origins))
        example = f"write [{value}]" if isinstance(value, str) and value and abc.Sequence in origins else ""
        raise ConfigError(f"{where}: expected {words}, found {_found(value)}", example)


def _mapping(value: Mapping[Any, Any], hint: Any, where: str) -> dict[str, Any]:
    checked = hint if hint in (str, int, float, bool) else None
    return {_key(key, where): _value(item, checked, f"{where}, {str(key)!r}") for key, item in value.items()}


def _key(key: Any, where: str) -> str:
    if not isinstance(key, str):
        raise ConfigError(f"{where}: expected text as a key, found {_found(key)}", f'write "{key}":')
    return key


def _no_text(value: Any, where: str) -> ConfigError:
    hint = _QUOTE if isinstance(value, (int, float)) else ""
    if isinstance(value, bool):
        hint = f'quote it: "{str(value).lower()}"'
    return ConfigError(f"{where}: expected text, found {_found(value)}", hint)


def _found(value: Any) -> str:
    """`value` for a message, with its type where that is the point: the float 10.1."""
    if value is None:
        return "nothing"
    return repr(value) if isinstance(value, str) else f"the {_TYPES.get(type(value), type(value).__name__)} {value!r}"


def _shown(value: Any) -> str:
    return "nothing" if value is None else repr(value)


_TYPES = {dict: "mapping", tuple: "list", int: "whole number", bool: "truth value", float: "float"}
_QUOTE = """a number loses its zeros (10.10 becomes 10.1): quote it, "10.10"; on a command line '"10.10"'"""


def _word(hint: type) -> str:
    return {int: "a whole number", bool: "true or false"}[hint]


def _frozen(value: Any, where: str) -> Any:
    """`value` as it enters a key: with text as keys, finite numbers, nothing that changes.

    Raises:
        ConfigError: it holds what has no canonical form.
    """
    if isinstance(value, Mapping):
        return {_key(key, where): _frozen(item, f"{where}, {str(key)!r}") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(item, where) for item in value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{where}: expected a finite number, found {value}")
    if isinstance(value, bytes):
        raise ConfigError(f"{where}: expected text or numbers, found binary data")
    return value
