"""Walks through all of an ONNX model: subgraphs of control flow and local functions included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def graphs(model: Any) -> Iterator[Any]:
    """The main graph, then every subgraph, outer before inner."""
    waiting = [model.graph]
    for function in model.functions:
        waiting += subgraphs(function.node)
    while waiting:
        graph = waiting.pop(0)
        yield graph
        waiting += subgraphs(graph.node)


def nodes(model: Any) -> Iterator[Any]:
    """Every node: of the graph, its subgraphs and the local functions."""
    for graph in graphs(model):
        yield from graph.node
    for function in model.functions:
        yield from function.node


def operator(node: Any) -> str:
    """`Conv`, or `domain::name` for an operator of another domain."""
    return str(node.op_type) if is_onnx(node) else f"{node.domain}::{node.op_type}"


def type_name(number: int) -> str:
    """The name of a tensor's type as ONNX has it, `FLOAT`; `TYPE99` of one that the onnx here does not know."""
    import onnx

    kinds = onnx.TensorProto.DataType
    return str(kinds.Name(number)) if number in kinds.values() else f"TYPE{number}"


def is_onnx(node: Any) -> bool:
    """Whether the operator is of ONNX's own domain, which has two names."""
    return node.domain in ("", "ai.onnx")


def node_name(node: Any) -> str:
    """The name of a node; its first output where it has none."""
    return str(node.name or next(iter(node.output), "") or node.op_type)


def tensors(model: Any) -> Iterator[Any]:
    """Every constant tensor: initializers, sparse ones by their values and indices, and attributes."""
    for graph in graphs(model):
        yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield from (sparse.values, sparse.indices)
    for node in nodes(model):
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors


def subgraphs(owners: Any) -> list[Any]:
    """The graphs in the attributes of nodes, not those inside them."""
    found = []
    for node in owners:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found.append(attribute.g)
            found += attribute.graphs
    return found


def captured(owners: Any) -> Iterator[str]:
    """Names that the subgraphs of nodes use, from outside or their own; subgraphs inside them included."""
    for graph in subgraphs(owners):
        for node in graph.node:
            yield from node.input
        yield from (each.name for each in graph.output)
        yield from captured(graph.node)
