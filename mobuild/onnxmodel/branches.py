"""What `If` nodes hold, and when their conditions are known: some builders take only some of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mobuild.onnxmodel.bare import bare
from mobuild.onnxmodel.origins import CONSTANT, INPUT, Origins
from mobuild.onnxmodel.walk import node_name, nodes, subgraphs

_RECURRENT = ("LSTM", "GRU")


def signs(model: Any, origins: Origins) -> Iterator[tuple[str, str, str]]:
    """(sign, node, detail) of the `If` nodes: `recurrent_in_if`, `if_ranks_shape`, `if_ranks_input`, `if_nested`."""
    yield from _of(_with_ranks(model).graph.node, origins, outer="")
    for function in model.functions:
        yield from _of(function.node, origins, outer="")


def _with_ranks(model: Any) -> Any:
    """The model with the ranks that inference gives the outputs of branches, where some declare none."""
    import onnx

    branches = [graph for node in nodes(model) if node.op_type == "If" for graph in subgraphs([node])]
    if all(value.type.tensor_type.HasField("shape") for graph in branches for value in graph.output):
        return model
    try:
        return onnx.shape_inference.infer_shapes(bare(model))
    except Exception:  # noqa: BLE001 - a model that it cannot infer is judged by what it declares
        return model


def _of(owners: Any, origins: Origins, outer: str) -> Iterator[tuple[str, str, str]]:
    """`outer` is the `If` around these nodes whose condition comes of input values; empty without one."""
    for node in owners:
        inside = outer
        if node.op_type == "If":
            name, condition = node_name(node), origins.of(node.input[0])
            for inner in _recurrent(node):
                yield "recurrent_in_if", inner, f"inside the If {name!r}"
            ranks = _ranks(node)
            if ranks and condition != CONSTANT:
                yield f"if_ranks_{condition}", name, ranks
            if outer and condition == INPUT:
                yield "if_nested", name, f"inside the If {outer!r}"
            inside = name if condition == INPUT else outer
        for graph in subgraphs([node]):
            yield from _of(graph.node, origins, inside)


def _recurrent(owner: Any) -> Iterator[str]:
    """The LSTM and GRU nodes in the branches of an `If`, those of an `If` inside it left to that one."""
    for graph in subgraphs([owner]):
        for node in graph.node:
            if node.op_type in _RECURRENT:
                yield node_name(node)
            elif node.op_type != "If":
                yield from _recurrent(node)


def _ranks(node: Any) -> str:
    """`2 and 3`, the ranks of an output that differ from branch to branch; empty when none is seen."""
    for several in zip(*(graph.output for graph in subgraphs([node]))):
        kinds = [value.type.tensor_type for value in several]
        ranks = {len(kind.shape.dim) for kind in kinds if kind.HasField("shape")}
        if len(ranks) > 1:
            return f"ranks {' and '.join(map(str, sorted(ranks)))}"
    return ""
