"""What a recipe gives to kinds that ask for it by `given` in their YAML, beside what `needs` says.

`libraries` and `plugins` are native code of the recipe or of a chain. `engines` is for kinds that open engines which
other nodes build: how each of their needs is opened, and the graph that it was built of. `evaluation` is for kinds that
run the `cmd` of the validation: its further inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf

from mobuild.backend import Opening
from mobuild.errors import ConfigError
from mobuild.graph import NodeSpec
from mobuild.libraries import OPERATORS, PREFIXES

ENGINES = "engines"
EVALUATION = "evaluation"
_ENGINE, _MODEL = "build_engine", "model"


def roles(placing: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    """Role → node, as a mapping of the recipe says it.

    Raises:
        ConfigError: it is none.
    """
    found = placing.get(key) or {}
    if not isinstance(found, Mapping) or not all(isinstance(need, (str, int, type(None))) for need in found.values()):
        raise ConfigError(f"{where}: {key}: expected role: node, found {found!r}", f"{key}: {{model: onnx}}")
    return found


def libraries(wanted: Sequence[str], scope: DictConfig) -> dict[str, str]:
    """Role → node, of the native libraries among what is `wanted`."""
    found: dict[str, str] = {}
    for key in PREFIXES:
        if key in wanted:
            named = OmegaConf.to_container(scope[key]) if isinstance(scope[key], DictConfig) else scope[key]
            given = roles({key: named}, key, f"recipe, {key}")
            found.update({f"{PREFIXES[key]}{name}": str(need) for name, need in given.items() if need})
    return found


def evaluation(cmd: str, scope: DictConfig, defaults: Callable[[str], Any]) -> dict[str, str]:
    """Role → node, of the needs that the recipe itself gives to the validation, for the `cmd` that is run on both;
    whether it names them or reads them where it knows them to be.

    `defaults` are those of a kind: its own roles are of the form of the model that it measures.
    """
    validation = OmegaConf.select(scope, "chain.validation")
    if not cmd or not isinstance(validation, DictConfig):
        return {}
    entries = {key: validation.get(key) for key in ("needs", "in")}
    said = {key: OmegaConf.to_container(entry, resolve=True) for key, entry in entries.items() if entry}
    asked = {role: need for key in said for role, need in roles(said, key, "validation").items()}
    of_kind = defaults(str(validation.get("kind")))
    own = (of_kind.get("needs") if of_kind else None) or {}
    return {role: str(need) for role, need in asked.items() if need and role not in own}


def engines(
    needs: Mapping[str, Any], chain: str, kinds: Mapping[str, str], spec: Callable[[str], NodeSpec]
) -> tuple[dict[str, Opening], dict[str, str]]:
    """How to open those needs that are engines, and further needs: `<role>.model`, the graph before each of them, and
    that graph's libraries.

    `kinds` are those of the recipe's nodes; `spec` makes a node.
    """
    openings: dict[str, Opening] = {}
    further: dict[str, str] = {}
    for role, text in needs.items():
        name = _absolute(str(text), chain, kinds)
        if kinds.get(name) != _ENGINE:
            continue
        engine = spec(name)
        node: Any = engine.node
        openings[role] = Opening(node.backend, node.shapes, node.precision)
        own = name.rpartition(".")[0]
        for other, need in engine.needs.items():
            if other == _MODEL:
                further[f"{role}.{_MODEL}"] = _absolute(need, own, kinds)
            elif other.startswith(OPERATORS):
                further[f"{OPERATORS}{role}.{other.removeprefix(OPERATORS)}"] = _absolute(need, own, kinds)
    return openings, further


def _absolute(text: str, chain: str, names: Mapping[str, Any]) -> str:
    """A need as it is written from any chain: `enc.onnx` for `onnx` in the chain `enc`."""
    wanted = text.partition("/")[0]
    return f"{chain}.{text}" if f"{chain}.{wanted}" in names else text
