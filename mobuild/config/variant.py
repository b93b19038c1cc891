"""The name of a variant: `l20`, `l20+2GiB`, `cpu+3fa9c1d2`.

The hardware's name, then `+value` for each of the well-known axes that differs from the recipe's default
(`+chain.value` for a chain's own), then eight digits for all other differences. What counts is the difference and not
the words: an override that equals the default, or that no node of the recipe reads, changes no name. The targets make
none either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from omegaconf import DictConfig, OmegaConf

from mobuild.config.recipe_nodes import RecipeNodes
from mobuild.config.recipes import SHAPES_GROUP
from mobuild.errors import MobuildError
from mobuild.fetch.uris import scrubbed
from mobuild.fingerprint import canonical, digest_bytes
from mobuild.graph import NodeSpec
from mobuild.node import encode

_NAMED = ("precision", "backend", SHAPES_GROUP, "workspace", "toolchain")
_OF_CHAIN = re.compile(r"nodes\.([^.]+)\.(precision|backend)")
_PLACE = ("hardware", "recipe", "model")  # said by the folder names already
_STEERING = (
    "target",
    "cache",
    "against",
    "compare",
    "secrets",
    "keep_going",
    "debug",
    "frozen",
    "here",
    "report",
    "offline",
    "format",
    "executor",
    "project",
    "hydra",
    "constraints",
    "check",
    "gc",
    "verify",
    "pin",
)


# After the build; where pinned files come from; whether what can be proven is.
_OUTSIDE = ("image.push", "image.push_unproven", "image.mirror", "image.selftest")


Described = dict[int, tuple[NodeSpec, dict[str, Any]]]  # by identity, for as long as the node is kept beside


class Point:
    """One composition, as far as names depend on it: its values, the choice of each group, its nodes when asked."""

    def __init__(
        self, app: DictConfig, choices: Mapping[str, str], nodes: Callable[[], RecipeNodes], known: Described
    ) -> None:
        """`known` is shared by the jobs of a command, as most of their nodes are."""
        self.app, self.choices, self._nodes, self._known = app, choices, nodes, known

    @cached_property
    def description(self) -> dict[str, Any]:
        return _description(self._nodes(), self._known)


def variant_name(point: Point, overrides: Sequence[str], point_of: Callable[[Sequence[str]], Point]) -> str:
    """The folder name of a job's artifacts below `build/<recipe>/`.

    `point` is the job's, composed of `overrides`; `point_of` composes others.
    """
    placing = [word for word in overrides if _key(word) in _PLACE and not _is_map(word)]
    at_top = [word for word in overrides if _key(word) in _NAMED and not _is_map(word)]
    of_chains = [word for word in overrides if _is_of_chain(point, _key(word))]
    named = at_top + of_chains
    others = [word for word in overrides if _group(word) not in _STEERING and word not in placing + named]
    outside = [word for word in others if _key(word) in _OUTSIDE]
    others = [word for word in others if word not in outside]
    parts = [point.choices.get("hardware", "cpu").replace("/", ".")]
    if at_top:
        parts += _named_values(point, point_of(placing))
    if of_chains:
        parts += _chain_values(sorted(set(map(_key, of_chains))), point, point_of(placing + at_top))
    if others and (digits := _other_digits(point, point_of(placing + named + outside))):
        parts.append(digits)
    return "+".join(parts)


def _key(word: str) -> str:
    return word.partition("=")[0].lstrip("+~")


def _group(word: str) -> str:
    return _key(word).split(".")[0].split("/")[0].split("@")[0]


def _is_map(word: str) -> bool:
    """Whether a word sets keys of what it names, and chooses nothing: `toolchain={python: ./venv/bin/python}`."""
    return word.partition("=")[2].startswith("{")


def _named_values(point: Point, base: Point) -> list[str]:
    """The well-known axes that differ: a group's choice, or a plain value."""
    values = []
    for key in _NAMED:
        choice, value = point.choices.get(key, "None"), OmegaConf.select(point.app, key)
        if choice != base.choices.get(key, "None"):
            values.append(choice.replace("/", "."))
        elif isinstance(value, (str, int)) and value != OmegaConf.select(base.app, key):
            values.append(str(value))
    return values


def _is_of_chain(point: Point, key: str) -> bool:
    """Whether `key` is one of the well-known axes of a chain, and its value plain."""
    match = _OF_CHAIN.fullmatch(key)
    chain = OmegaConf.select(point.app, f"nodes.{match[1]}") if match else None
    is_chain = isinstance(chain, DictConfig) and not {"kind", "_target_"} & {str(each) for each in chain}
    return is_chain and isinstance(_chain_value(point, key), str)


def _chain_values(keys: Sequence[str], point: Point, base: Point) -> list[str]:
    """`det.int8` for each that differs from what the chain had without it, be that the recipe's own value."""
    values = {key: _chain_value(point, key) for key in keys if _chain_value(point, key) != _chain_value(base, key)}
    return [f"{key.split('.')[1]}.{value}".replace("/", ".") for key, value in values.items()]


def _chain_value(point: Point, key: str) -> Any:
    """What the chain says itself, or else the recipe for all."""
    found = (OmegaConf.select(point.app, each, throw_on_resolution_failure=False) for each in (key, key.split(".")[2]))
    value = next((each for each in found if each is not None), None)
    return value.name if isinstance(value, DictConfig) and list(value) == ["name"] else value


def _other_digits(point: Point, base: Point) -> str:
    """Eight digits of what the other overrides change in the recipe's nodes; empty when that is nothing."""
    before, after = base.description, point.description
    changed = {name: difference for name in after if (difference := _difference(before.get(name, {}), after[name]))}
    return digest_bytes(canonical(changed))[:8] if changed else ""


def _difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The entries that differ: what else the node has may change later without another name."""
    gone: dict[str, Any] = {key: None for key in before if key not in after}
    return gone | {key: value for key, value in after.items() if key not in before or before[key] != value}


def _description(nodes: RecipeNodes, known: Described) -> dict[str, dict[str, Any]]:
    """Every node with all that the recipe says of it; of one that cannot be made, why."""
    described: dict[str, dict[str, Any]] = {}
    for name in nodes.declared:
        try:
            spec = nodes.spec(name)
        except MobuildError as error:
            described[name] = {"error": error.message}
            continue
        if id(spec) not in known:
            known[id(spec)] = spec, _said(spec)
        described[name] = known[id(spec)][1]
    return described


def _said(spec: NodeSpec) -> dict[str, Any]:
    said = {"kind": spec.node.kind, "needs": dict(spec.needs), "python": str(spec.python or ""), "env": spec.env}
    said["requirements"] = str(spec.requirements or "")
    said["container"] = f"{spec.container.image} {spec.container.python}" if spec.container else ""
    return dict(_flat("", {**said, "fields": encode(spec.node)}))


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The entries of nested mappings by their dotted names, and beside those the order of each mapping's keys."""
    if isinstance(value, Mapping) and value:
        yield f"{prefix}()", [str(key) for key in value]
        for key, item in value.items():
            yield from _flat(f"{prefix}.{key}", item)
    else:
        yield prefix, _pairs(value)


def _pairs(value: Any) -> Any:
    """Mappings as pairs, since some have a meaning in their order; unkeyed fields (a path) count here as well."""
    if isinstance(value, Mapping):
        return [[str(key), _pairs(item)] for key, item in value.items()]
    if isinstance(value, str):
        return scrubbed(value)  # a signed URL that was signed again is the same variant
    return [_pairs(item) for item in value] if isinstance(value, (list, tuple)) else value
