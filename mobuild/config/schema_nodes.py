"""The part of the schema that is about nodes: kinds with their fields, chains, backends, nodes by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from mobuild import node as nodes
from mobuild.config.overrides import ONNX_RECIPE
from mobuild.config.project import Project
from mobuild.config.reading import conf_defaults, conf_names
from mobuild.config.recipes import read_yaml, recipe_folders
from mobuild.config.schema_types import Schema, described, either, fields, of_type, of_value
from mobuild.errors import ConfigError

NULL: Schema = {"type": "null"}


def _class(project: Project, group: str, name: str) -> tuple[Any, DictConfig]:
    """What `_target_` of a file of `conf/` names, None where it cannot be imported, and the whole file."""
    defaults = conf_defaults(project, group, name)
    assert isinstance(defaults, DictConfig), name
    try:
        cls = nodes.target(str(OmegaConf.to_container(defaults, resolve=False)["_target_"]))  # type: ignore[call-overload, index]
        fields(cls)
    except Exception:  # noqa: BLE001 - whatever the user's module raises, the other kinds have their schema
        cls = None
    return cls, defaults


def kind(project: Project, name: str) -> Schema:
    """A node of one kind: its fields, and what every node may say of its place."""
    cls, _ = _class(project, "node", name)
    placing: dict[str, Schema] = {
        "kind": {"const": name},
        "needs": _roles(),
        "in": _roles(),
        "python": either({"type": "string"}, NULL),
        "timeout_seconds": either({"type": "number", "exclusiveMinimum": 0}, NULL),
        "env": either({"type": "object", "additionalProperties": {"type": ["string", "null"]}}),
    }
    if cls is None:
        return {"type": "object", "properties": placing}
    own = fields(cls)
    shared: dict[str, Schema] = {
        key: {"$ref": f"#/$defs/{key}"} for key in ("precision", "shapes", "backend") if key in own
    }
    properties = {**own, **shared, **placing}
    return {"type": "object", "description": described(cls), "properties": properties, "additionalProperties": False}


def _roles() -> Schema:
    """Role → node."""
    named = {"type": ["string", "integer", "null"]}
    return either({"type": "object", "additionalProperties": named}, NULL)


def node(kinds: list[str]) -> Schema:
    """A node that says its kind."""
    return {
        "type": "object",
        "required": ["kind"],
        "properties": {"kind": {"enum": kinds}},
        "allOf": [_where_kind(kind) for kind in kinds],
    }


def _where_kind(kind: str) -> Schema:
    is_it = {"required": ["kind"], "properties": {"kind": {"const": kind}}}
    return {"if": is_it, "then": {"$ref": f"#/$defs/kind.{kind}"}}


def chain() -> Schema:
    """Nodes of a chain, and what it says for all of them."""
    own = {key: {"$ref": f"#/$defs/{key}"} for key in ("precision", "shapes", "backend")}
    inner = {"if": {"required": ["_target_"]}, "then": {}, "else": {"$ref": "#/$defs/node"}}
    return {"type": "object", "properties": own, "additionalProperties": {"type": "object", **inner}}


def named_nodes(project: Project) -> Schema:
    """Nodes by name: those that recipes of the project give a kind may leave it out, others say it or are a chain."""
    known: dict[str, set[str]] = {}
    for path, document in recipes(project):
        if path.stem == ONNX_RECIPE:  # which says what a node is where a model stands for the recipe
            continue
        for name, entry in (document.get("nodes") or {}).items():
            if isinstance(entry, Mapping) and isinstance(entry.get("kind"), str):
                known.setdefault(str(name), set()).add(entry["kind"])
    kinds = set(conf_names(project, "node"))
    properties = {name: _by_default(sorted(found & kinds)) for name, found in known.items() if found & kinds}
    otherwise = {"if": {"required": ["kind"]}, "then": {"$ref": "#/$defs/node"}, "else": {"$ref": "#/$defs/chain"}}
    other = {"type": "object", "if": {"required": ["_target_"]}, "then": {}, "else": otherwise}
    return {"type": "object", "properties": properties, "additionalProperties": other}


def _by_default(kinds: list[str]) -> Schema:
    """A node whose kind another recipe says: one of `kinds`, unless it says another itself."""
    without: Schema = {"anyOf": [{"$ref": f"#/$defs/kind.{kind}"} for kind in kinds]}
    if len(kinds) == 1:  # errors in it are then told as its own
        without = {"$ref": f"#/$defs/kind.{kinds[0]}"}
    said = {"if": {"required": ["kind"]}, "then": {"$ref": "#/$defs/node"}, "else": without}
    return {"type": "object", "if": {"required": ["_target_"]}, "then": {}, "else": said}


def backend(project: Project) -> Schema:
    """A backend by name, or its options; of several, since the name may stand elsewhere; or each's under its name."""
    names = conf_names(project, "backend")
    rest: dict[str, Schema] = {"rest": {"$ref": "#/$defs/precision"}}
    options: dict[str, Schema] = {}
    named: dict[str, Schema] = {}
    for name in names:
        cls, defaults = _class(project, "backend", name)
        own = (
            fields(cls) if cls else of_value(OmegaConf.to_container(defaults, resolve=False))["anyOf"][0]["properties"]
        )
        for key, one in own.items():
            options[key] = one if options.get(key, one) == one else {}
        named[name] = either({"type": "object", "properties": {**own, **rest}, "additionalProperties": False})
    properties = {**options, **named, "name": {"enum": names}, **rest, "_target_": of_type(str)}
    mapping = {"type": "object", "properties": properties, "additionalProperties": False}
    return either({"enum": names}, mapping)


def recipes(project: Project) -> Iterator[tuple[Path, Mapping[Any, Any]]]:
    """Every recipe that can be read."""
    for folder in recipe_folders(project):
        for path in sorted(folder.glob("*.yaml")):
            if (document := read(path)) is not None:
                yield path, document


def read(path: Path) -> Mapping[Any, Any] | None:
    try:
        document = OmegaConf.to_container(read_yaml(path), resolve=False)
    except ConfigError:
        return None
    return document if isinstance(document, Mapping) else None
