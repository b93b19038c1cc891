"""What a line asks for, in mobuild's words, with the verdict on each of its flags."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mobuild.errors import ConfigError, did_you_mean
from mobuild.facts import order

Dims = tuple[int, ...]
Corners = dict[str, dict[str, Dims]]
"""One profile: `min`, `opt`, `max` → input → its shape."""


@dataclass(frozen=True)
class Flag:
    """One flag of a line and what becomes of it.

    `verdict`: `mapped` to `key` of the recipe; `raw`, which is such a key too, unchecked; `removed` from the tool's
    version, and where its purpose went; `measuring`, which is no part of an engine; `ignored`, for it changes nothing;
    `lost`: it would change the engine, and no key carries it.
    """

    flag: str
    value: str
    verdict: str
    key: str = ""
    note: str = ""


@dataclass
class Wishes:
    """Collected while a line is read.

    `options` and `raw` are those of the backend `product`; `nodes` are fields by node; `types` are precisions, with the
    flags (and values) that allow each. `warnings` are what is wrong today, `notes` what is otherwise from now on.
    """

    tool: str
    version: str
    product: str = "tensorrt"
    target: str = "engine"
    model: str = ""
    flags: list[Flag] = field(default_factory=list)
    profiles: list[Corners] = field(default_factory=list)
    shapes: dict[str, Dims] = field(default_factory=dict)  # of inputs that no profile names
    types: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    is_typed: bool = False
    precision: str = ""  # said outright, where types are no matter of flags
    calibration: str = ""
    workspace: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    raw: dict[str, Any] = field(default_factory=dict)
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)  # paths that the line names, by option
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def is_weak_there(self) -> bool:
        """Whether the builder of the line has types that flags allow beside the graph's."""
        return self.product == "tensorrt" and order(self.version) < order("11.0")

    def say(self, flag: str, value: str, verdict: str, key: str = "", note: str = "") -> None:
        self.flags.append(Flag(flag, value, verdict, key, note))

    def set_raw(self, flag: str, value: str, name: str, wanted: Any, note: str = "") -> None:
        """An option of the builder's configuration that mobuild passes on unchecked."""
        self.raw[name] = wanted
        self.say(flag, value, "raw", f"backend.{self.product}.raw.{name}: {_yaml(wanted)}", note)

    def set_option(self, flag: str, value: str, name: str, wanted: Any, note: str = "") -> None:
        """An option of the backend."""
        self.options[name] = wanted
        self.say(flag, value, "mapped", f"backend.{self.product}.{name}: {_yaml(wanted)}", note)

    def allow(self, flag: str, value: str, *types: str) -> None:
        """A flag that allows precisions; what becomes of it is known once the model is."""
        self.say(flag, value, "mapped")
        for each in types:
            self.types.setdefault(each, []).append((flag, value))

    def decide(self, type_: str, verdict: str, key: str = "", note: str = "") -> None:
        """What becomes of the flags that allowed a precision; what one of several loses is lost."""
        for i, each in enumerate(self.flags):
            if (each.flag, each.value) in self.types[type_]:
                notes = each.note if note in each.note else "; ".join(filter(None, (each.note, note)))
                kept = each.verdict if each.verdict == "lost" else verdict
                self.flags[i] = replace(each, verdict=kept, key=key or each.key, note=notes)

    def set_model(self, path: str, flag: str) -> None:
        """Raises ConfigError for a second model."""
        if self.model and self.model != path:
            raise ConfigError(
                f"adopt: two models, {self.model} and {path}: which of them?", "one line builds one engine"
            )
        if not path:
            raise ConfigError(f"adopt: {flag}: expected the path of an ONNX file", f"{flag}=det.onnx")
        self.model = path


def whole(flag: str, value: str) -> int:
    """Raises ConfigError for what is no whole number."""
    try:
        return int(value)
    except ValueError as error:
        raise ConfigError(f"adopt: {flag}: expected a whole number, found {value!r}") from error


def number(flag: str, value: str) -> float:
    """Raises ConfigError for what is no finite number."""
    try:
        found = float(value)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise ConfigError(f"adopt: {flag}: expected a number, found {value!r}")
    return found


def choice(flag: str, value: str, known: Mapping[str, Any]) -> Any:
    """What a value means. Raises ConfigError for an unknown one."""
    if value not in known:
        raise ConfigError(
            f"adopt: {flag}: expected one of {', '.join(known)}, found {value!r}.{did_you_mean(value, known)}"
        )
    return known[value]


def unknown_flags(tool: str, unknown: Sequence[str], known: Sequence[str]) -> ConfigError:
    """The error that names every flag which the tool does not have, with a near one."""
    lines = [f"there is no flag {each!r}.{did_you_mean(each, known)}" for each in dict.fromkeys(unknown)]
    return ConfigError(f"adopt: {tool}: {lines[0]}", "\n".join([*lines[1:], "nothing was written"]))


def _yaml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
