"""Which nodes no simplifier takes away: a rule may refuse them before the graph is simplified."""

from __future__ import annotations

from typing import Any

from mobuild.onnxmodel.walk import captured, node_name

_OF_SHAPES = ("Shape", "Size")  # what they give may be a constant of the build
_MAY_GO = ("Sequence", "Optional", "Split", "Identity", "Dropout", "If", "Loop", "Constant")


def lasting(model: Any) -> set[str]:
    """The nodes of the main graph that compute with the values of inputs and that outputs need.

    What hangs on shapes alone may be folded, what no output needs is dropped, and sequences, conditions and the like
    can be rewritten: those are left out.
    """
    nodes = model.graph.node
    constants = {each.name for each in model.graph.initializer}
    values = {each.name for each in model.graph.input} - constants
    for node in nodes:  # in topological order, as ONNX asks
        if node.op_type not in _OF_SHAPES and values & {*node.input, *captured([node])}:
            values.update(node.output)
    needed = {each.name for each in model.graph.output}
    found = set()
    for node in reversed(nodes):
        if not needed & set(node.output):
            continue
        needed |= {*node.input, *captured([node])}
        if values & set(node.output) and not node.op_type.startswith(_MAY_GO):
            found.add(node_name(node))
    return found
