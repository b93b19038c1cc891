"""Nodes by name and the edges between them, as a recipe declares them.

A name is `onnx` at the top of a recipe or `enc.onnx` in a chain. A need is a node's name, looked up in the
node's own chain and then at the top, or `prep/model.onnx`, a member of the folder that `prep` makes. A
graph holds what its targets need and nothing else: `Catalogue.spec` is asked for a node only when it is
reached, so a broken node that no target needs costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from mobuild import libraries
from mobuild.container import Container
from mobuild.errors import ConfigError, GraphError, did_you_mean
from mobuild.node import Node
from mobuild.paths import expanded


@dataclass(frozen=True)
class Need:
    """One edge: the node that is needed and, when it makes a folder, which member."""

    node: str
    member: str = ""


@dataclass(frozen=True)
class NodeSpec:
    """A node as a recipe places it: its parameters, its edges, and where and how it runs."""

    name: str
    node: Node
    needs: Mapping[str, str] = field(default_factory=dict)  # role → name as written
    folder: Path = Path()  # the recipe's: `file.py:` is relative to it
    root: Path = Path()  # the project's: other paths are relative to it
    python: Path | None = None  # another interpreter to run under
    requirements: Path | None = None  # a locked set, of which an environment is made with that interpreter
    container: Container | None = None  # an image to run in
    timeout_seconds: float | None = None
    env: Mapping[str, str | None] = field(default_factory=dict)  # variables that it sees; None: unset
    said_by: str = "uri: … in the recipe"  # where the path of a local source stands, for messages

    @property
    def isolated(self) -> bool:
        """Whether it runs in a process of its own: for its kind, or since it loads native code of the user's."""
        return self.node.isolated or libraries.are_among(self.needs)


def local_source(spec: NodeSpec) -> Path | None:
    """The user's own file, used in place, that a source node stands for; None for every other node."""
    if not getattr(spec.node, "is_local", False):
        return None
    return spec.root / expanded(spec.node.uri)  # type: ignore[attr-defined]


class Catalogue(Protocol):
    """What can be asked for by name; `spec` may raise ConfigError for that one node."""

    @property
    def recipe(self) -> str: ...

    @property
    def names(self) -> Sequence[str]: ...

    def spec(self, name: str) -> NodeSpec: ...


@dataclass(frozen=True)
class Graph:
    """The nodes that the targets need, each after those that it needs."""

    nodes: Mapping[str, NodeSpec]
    edges: Mapping[str, Mapping[str, Need]]  # node → role → need
    targets: tuple[str, ...]


def build_graph(catalogue: Catalogue, targets: Sequence[str]) -> Graph:
    """The graph below `targets`, in the order of dependence.

    Raises:
        GraphError: an unknown target or need, or a cycle, which the message draws.
    """
    asked = [Need(name) for target in targets for name in expand(catalogue, target)]
    wanted = tuple(dict.fromkeys(_through(catalogue, need).node for need in asked))
    nodes: dict[str, NodeSpec] = {}
    edges: dict[str, dict[str, Need]] = {}
    for name in wanted:
        _visit(catalogue, name, (), nodes, edges)
    return Graph(nodes, edges, wanted)


def expand(catalogue: Catalogue, target: str) -> tuple[str, ...]:
    """The nodes that a target means: itself, or the node of that name in every chain.

    Raises:
        GraphError: there is no such node.
    """
    names = catalogue.names
    if target in names:
        return (target,)
    in_chains = tuple(name for name in names if name.endswith(f".{target}"))
    if not names:
        raise GraphError(
            f"recipe {catalogue.recipe!r}: has no nodes, so there is no {target!r} to build",
            "begin it with the standard chain: defaults: [/recipe/standard, _self_]",
        )
    if not in_chains:
        if inside := [name for name in names if name.startswith(f"{target}.")]:
            example = f"{target}.engine" if f"{target}.engine" in inside else inside[-1]
            raise GraphError(
                f"recipe {catalogue.recipe!r}: {target!r} is a chain, and a target is a node. "
                f"Did you mean {example!r}?",
                f"Nodes of {target!r}: {', '.join(inside)}",
            )
        raise GraphError(
            f"recipe {catalogue.recipe!r}: there is no node {target!r} to build.{did_you_mean(target, names)}",
            f"Nodes: {', '.join(names)}",
        )
    return in_chains


def _visit(
    catalogue: Catalogue,
    name: str,
    path: tuple[str, ...],
    nodes: dict[str, NodeSpec],
    edges: dict[str, dict[str, Need]],
) -> None:
    if name in path:
        _refuse_cycle(catalogue, (*path[path.index(name) :], name))
    if name in nodes:
        return
    spec = catalogue.spec(name)
    found = {role: _look_up(catalogue, spec, role, text) for role, text in spec.needs.items()}
    needs: dict[str, Need] = {}
    for role, need in found.items():
        try:
            needs[role] = _through(catalogue, need)
            _visit(catalogue, needs[role].node, (*path, name), nodes, edges)
        except ConfigError as error:
            _name_the_asker(error, spec, need)
            raise
    nodes[name], edges[name] = spec, needs


def _name_the_asker(error: ConfigError, spec: NodeSpec, need: Need) -> None:
    """Say of a fault at the top of a recipe that a chain came there for want of a node of its own."""
    chain, dot, _ = spec.name.rpartition(".")
    if dot and "." not in need.node:
        error.hint += f"\n{spec.name!r} needs {need.node!r} of the recipe itself: chain {chain!r} has none of its own"


def _refuse_cycle(catalogue: Catalogue, names: Sequence[str]) -> None:
    raise GraphError(
        f"recipe {catalogue.recipe!r}: the nodes need each other in a cycle: {' → '.join(names)}",
        "(read '→' as 'needs'); let one of them need something else",
    )


def _through(catalogue: Catalogue, need: Need) -> Need:
    """`need`, or what stands for it when its node passes its input through."""
    seen = [need.node]
    while role := getattr((spec := catalogue.spec(need.node)).node, "passes_through", ""):
        need = _look_up(catalogue, spec, role, spec.needs[role])
        if need.node in seen:
            _refuse_cycle(catalogue, (*seen, need.node))
        seen.append(need.node)
    return need


def _look_up(catalogue: Catalogue, spec: NodeSpec, role: str, text: str) -> Need:
    wanted, _, member = text.partition("/")
    chain, dot, _ = spec.name.rpartition(".")
    for candidate in (f"{chain}{dot}{wanted}", wanted):
        if candidate in catalogue.names:
            return Need(candidate, member)
    raise GraphError(
        f"recipe {catalogue.recipe!r}, node {spec.name!r}: needs {role!r} from {wanted!r}, which is no node"
        f"{_nearest(catalogue, chain, wanted)}",
        f"{_remedy(spec, role, chain)}Nodes: {', '.join(catalogue.names)}",
    )


def _nearest(catalogue: Catalogue, chain: str, wanted: str) -> str:
    """The end of a sentence. What other chains call `wanted` is another model's, and no guess at what was meant."""
    others = {name for name in catalogue.names if name.endswith(f".{wanted}")}
    if others and chain:
        return f": chain {chain!r} has none of its own."
    return f".{did_you_mean(wanted, [name for name in catalogue.names if name not in others])}"


def _remedy(spec: NodeSpec, role: str, chain: str) -> str:
    """What the kind says of doing without `role`."""
    setting = getattr(spec.node, "instead_of", {}).get(role, "")
    place = f"nodes.{chain}." if chain else ""
    return f"add {place or 'nodes.'}{role}, or do without: {place}{setting}\n" if setting else ""
