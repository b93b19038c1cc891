"""What the ONNX parser of TensorRT refuses, node by node: it finds all of them at once, but names few of them well."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Sequence

from mobuild import onnxmodel


def texts(found: Sequence[Any], path: Path) -> list[str]:
    """A line for each of the parser's errors about the ONNX file `path`.

    Exporters leave nodes without a name, and the parser never tells the domain: a node is called after its first
    output, its operator with the domain.
    """
    graph = onnxmodel.load(path, external_data=False).graph if any(each.node() >= 0 for each in found) else None
    return [_text(each, graph) for each in found]


def _text(parser_error: Any, graph: Any) -> str:
    node = _node(parser_error, graph)
    if node is None:
        return str(parser_error)
    operator = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    said = f"node {node.name or node.output[0]!r} ({operator}): {parser_error.code().name}: {parser_error.desc()}"
    lacks_operator = parser_error.desc() == "false" or "plugin" in parser_error.desc().lower()
    taken = _taken_from(operator) if lacks_operator else ""  # else it has it, and not in this form
    return f"{said} ({taken})" if taken else said


def _taken_from(operator: str) -> str:
    """What the facts say of the operator; empty where they cannot be read."""
    try:
        from mobuild.facts.operators import taken_from
    except ImportError:  # a Python that is too old for them
        return ""
    try:
        return taken_from(operator)
    except ImportError:  # an environment of the user's without PyYAML
        return ""


def _node(parser_error: Any, graph: Any) -> Any:
    """The node of the graph that is meant; None when it is inside a branch, or about no node at all."""
    number = parser_error.node()
    if graph is None or not 0 <= number < len(graph.node):
        return None
    node = graph.node[number]
    meant = (parser_error.node_name(), parser_error.node_operator())
    return node if (node.name, node.op_type) == meant else None
