"""One JSON Schema (draft 2020-12) of this project's recipes and hardware files, for editors.

Made of what is there: the dataclasses of the kinds and backends, the project's own among them, and the files of
`conf/`. Nothing is composed and no library of models is imported. The loader stays the judge: the schema knows names
and types, not what fits together.
"""

from __future__ import annotations

import re
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from mobuild import gates
from mobuild.config.catalogue import INTERNAL, catalogue
from mobuild.config.project import Project, shipped
from mobuild.config.reading import conf_defaults, conf_names
from mobuild.config.recipes import read_yaml
from mobuild.config.schema_nodes import NULL, backend, chain, kind, named_nodes, node, read, recipes
from mobuild.config.schema_types import INTERPOLATION, Schema, described, either, fields, of_value
from mobuild.config.settings import known_keys
from mobuild.hardware import Hardware

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_OF_HARDWARE = ("vendor", "name", "compute_capability", "memory_gib")  # keys that no recipe has
_COMMENT = re.compile(r"^( *)([\w.]+):.*?\s#\s*(.*)$")


def schema(project: Project) -> Schema:
    """The schema of every recipe and hardware file of `project`.

    Raises:
        ConfigError: a file of `conf/` cannot be read.
    """
    kinds = {name: kind(project, name) for name in conf_names(project, "node")}
    is_hardware = {"anyOf": [{"required": [key]} for key in _OF_HARDWARE]}
    return {
        "$schema": DRAFT,
        "title": "recipes and hardware files of mobuild",
        "if": {"type": "object", **is_hardware},
        "then": {"$ref": "#/$defs/hardware"},
        "else": {"$ref": "#/$defs/recipe"},
        "$defs": {
            "interpolation": INTERPOLATION,
            "size": either({"type": "integer", "minimum": 1}),
            "sizes": _sizes(),
            "shapes": either({"$ref": "#/$defs/sizes"}, {"type": "array", "items": {"$ref": "#/$defs/sizes"}}, NULL),
            "constraints": _constraints(),
            "precision": either({"enum": conf_names(project, "precision")}),
            "backend": backend(project),
            **{f"kind.{name}": one for name, one in kinds.items()},
            "node": node(list(kinds)),
            "chain": chain(),
            "nodes": named_nodes(project),
            "recipe": _recipe(project),
            "hardware": _hardware(project),
        },
    }


def _sizes() -> Schema:
    """One profile: axis → a size, or min, opt, max."""
    size = {"$ref": "#/$defs/size"}
    three = {"type": "array", "items": size, "minItems": 3, "maxItems": 3, "description": "min, opt, max"}
    return {"type": "object", "additionalProperties": {"anyOf": [size, three]}}


def _constraints() -> Schema:
    number = either({"type": "number"}, NULL)
    against = {
        "type": "object",
        "properties": {"ref": {"type": "string"}, **dict.fromkeys(gates.AGAINST_LIMITS, number)},
        "required": ["ref"],
        "additionalProperties": False,
    }
    properties = {**dict.fromkeys(gates.RULES, number), gates.AGAINST: either(against, NULL)}
    properties["allow_unmeasured"] = either({"type": "boolean"})
    return either({"type": "object", "properties": properties, "additionalProperties": False})


def _recipe(project: Project) -> Schema:
    """The keys of `conf/mobuild.yaml`, the nodes, and keys of the project's own that something refers to."""
    file = shipped("conf") / "mobuild.yaml"
    comments, own = _comments(file), OmegaConf.to_container(read_yaml(file), resolve=False)
    assert isinstance(own, dict)
    known = {str(key): value for key, value in own.items() if key not in ("defaults", "hydra")}
    properties: dict[str, Schema] = {}
    for key, value in known.items():
        text = {"description": comments[key]} if key in comments else {}
        properties[key] = {**of_value(value, comments, f"{key}."), **text}
    for group in ("toolchain", "executor"):
        files = [conf_defaults(project, group, name) for name in conf_names(project, group)]
        keys = [OmegaConf.to_container(one, resolve=False) for one in files if isinstance(one, DictConfig)]
        merged = {str(key): value for one in keys if isinstance(one, dict) for key, value in one.items()}
        properties[group] = of_value(merged)
    properties |= {
        key: {"$ref": f"#/$defs/{key}"} for key in ("nodes", "shapes", "constraints", "precision", "backend")
    }
    properties["target"] = either({"type": "string"}, {"type": "array", "items": {"type": "string"}})
    properties["workspace"] = either({"type": "string"}, {"type": "integer"})
    properties["defaults"] = _defaults(project)
    others: dict[str, Schema] = {
        key: {} for key in [*sorted(known_keys()), *_own_keys(project)] if key not in properties
    }
    return {"type": "object", "properties": {**properties, **others}, "additionalProperties": False}


def _defaults(project: Project) -> Schema:
    """Hydra's defaults list: recipes to begin with, and choices of groups."""
    recipes = [f"/recipe/{name}" for name in [*INTERNAL, *catalogue(project)["recipe"]]]
    known = {"anyOf": [{"enum": ["_self_", *recipes]}, {"type": "string"}]}
    return {"type": "array", "items": {"anyOf": [known, {"type": "object"}]}}


def _hardware(project: Project) -> Schema:
    """The fields of `mobuild.hardware.Hardware`."""
    own = fields(Hardware)
    own["compute_capability"] = {"type": "string", "pattern": r"^(\d+\.\d)?$|\$\{", "description": 'quoted: "8.9"'}
    own["backends"] = either({"type": "array", "items": {"enum": conf_names(project, "backend")}})
    own["confidence"] = either({"enum": ["S", "D", "M", "K", "?"]})
    properties = {**own, "defaults": {"type": "array"}}
    return {
        "type": "object",
        "description": described(Hardware),
        "properties": properties,
        "additionalProperties": False,
    }


def _own_keys(project: Project) -> list[str]:
    """Keys at the top of the project's recipes, and of its `conf/project`, that something refers to."""
    files = sorted(project.conf.rglob("*.yaml")) if project.conf else []
    own = [document for path in files if path.parent.name == "project" if (document := read(path)) is not None]
    written = list(recipes(project))
    texts = [path.read_text(errors="replace") for path in [*files, *(path for path, _ in written)]]
    keys = dict.fromkeys(str(key) for document in [*own, *(one for _, one in written)] for key in document)
    return [key for key in keys if any(re.search(r"\$\{" + re.escape(key) + r"\b", text) for text in texts)]


def _comments(file: Path) -> dict[str, str]:
    """Dotted key → the comment at the end of its line, in a file of ours with an indent of two."""
    found: dict[str, str] = {}
    outer = ""
    for line in file.read_text().splitlines():
        if re.match(r"^\w+:", line):
            outer = line.partition(":")[0]
        if match := _COMMENT.match(line):
            found[f"{outer}.{match[2]}" if match[1] else match[2]] = match[3]
    return found
