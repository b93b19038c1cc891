"""Names, edges, targets, cycles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

from mobuild.errors import GraphError
from mobuild.graph import NodeSpec, build_graph, expand
from mobuild.nodes.command import Command
from mobuild.nodes.quantize import Quantize


@dataclass(frozen=True)
class Recipe:
    """A catalogue of command nodes; `broken` ones raise when they are asked for."""

    needs: Mapping[str, Mapping[str, str]]
    broken: tuple[str, ...] = ()
    recipe: str = "det"

    @property
    def names(self) -> Sequence[str]:
        return tuple(self.needs)

    def spec(self, name: str) -> NodeSpec:
        assert name not in self.broken
        return NodeSpec(name, Command(cmd=f"make {name}"), self.needs[name])


@dataclass(frozen=True)
class Quantized(Recipe):
    """A catalogue of quantising nodes."""

    def spec(self, name: str) -> NodeSpec:
        return NodeSpec(name, Quantize("int8"), self.needs[name])


CHAINS = Recipe(
    {
        "weights": {},
        "enc.onnx": {"weights": "weights"},
        "enc.engine": {"model": "onnx"},
        "dec.onnx": {"weights": "weights"},
        "dec.engine": {"model": "onnx"},
        "image": {"encoder": "enc.engine", "decoder": "dec.engine"},
    }
)


def test_a_need_is_looked_up_in_its_own_chain_and_then_at_the_top() -> None:
    graph = build_graph(CHAINS, ["enc.engine"])

    assert list(graph.nodes) == ["weights", "enc.onnx", "enc.engine"]
    assert graph.edges["enc.engine"]["model"].node == "enc.onnx"


def test_a_bare_target_means_that_node_in_every_chain() -> None:
    assert expand(CHAINS, "engine") == ("enc.engine", "dec.engine")
    assert build_graph(CHAINS, ["engine", "enc.engine"]).targets == ("enc.engine", "dec.engine")


def test_a_need_in_another_chain_and_a_member_of_a_folder_can_be_named() -> None:
    recipe = Recipe({"prep": {}, "engine": {"model": "prep/model.onnx"}, "image": {"one": "engine"}})

    need = build_graph(recipe, ["image"]).edges["engine"]["model"]

    assert (need.node, need.member) == ("prep", "model.onnx")


def test_a_node_that_no_target_needs_is_not_asked_for() -> None:
    recipe = Recipe({"onnx": {}, "engine": {"model": "onnx"}}, broken=("engine",))

    assert list(build_graph(recipe, ["onnx"]).nodes) == ["onnx"]


def test_a_cycle_is_drawn() -> None:
    recipe = Recipe({"a": {"x": "b"}, "b": {"x": "c"}, "c": {"x": "a"}})

    with pytest.raises(GraphError) as caught:
        build_graph(recipe, ["a"])

    assert caught.value.message == "recipe 'det': the nodes need each other in a cycle: a → b → c → a"


def test_an_unknown_need_names_the_nearest_node() -> None:
    recipe = Recipe({"sanitized": {}, "engine": {"model": "sanitised"}})

    with pytest.raises(GraphError) as caught:
        build_graph(recipe, ["engine"])

    assert str(caught.value) == (
        "recipe 'det', node 'engine': needs 'model' from 'sanitised', which is no node. Did you mean 'sanitized'?\n"
        "  Nodes: sanitized, engine"
    )


def test_a_chain_without_calibration_is_not_led_to_that_of_another() -> None:
    recipe = Quantized({"sanitized": {}, "det.calibration": {}, "cls.quantized": {"calibration": "calibration/r.json"}})

    with pytest.raises(GraphError) as caught:
        build_graph(recipe, ["cls.quantized"])

    assert str(caught.value) == (
        "recipe 'det', node 'cls.quantized': needs 'calibration' from 'calibration', which is no node: "
        "chain 'cls' has none of its own.\n"
        "  add nodes.cls.calibration, or do without: nodes.cls.precision=fp32\n"
        "  Nodes: sanitized, det.calibration, cls.quantized"
    )


def test_an_unknown_target_names_the_nearest_node() -> None:
    with pytest.raises(GraphError) as caught:
        build_graph(CHAINS, ["imge"])

    assert caught.value.message == "recipe 'det': there is no node 'imge' to build. Did you mean 'image'?"


def test_a_chain_as_a_target_names_its_nodes() -> None:
    with pytest.raises(GraphError) as caught:
        build_graph(CHAINS, ["enc"])

    assert str(caught.value) == (
        "recipe 'det': 'enc' is a chain, and a target is a node. Did you mean 'enc.engine'?\n"
        "  Nodes of 'enc': enc.onnx, enc.engine"
    )
