"""Which nodes keep float32 for the sake of their numbers, and constants that a small type cannot hold.

float16 ends at 65504 and at 6e-8. A sum of squares leaves that range where the values themselves do not, so
reductions, powers and exponentials stay float32, with what carries their results to a division (norms), and
so does softmax, whose sum decides every element.
What computes sizes stays as well: half counts exactly to 2048 only. So do coordinates that are made of sizes (the grid
of a detector's head), up to where they meet data; TensorRT-RTX 1.7 builds no engine of a grid in half.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mobuild.nodes.quantize.lowering import key

SENSITIVE = frozenset(
    (
        "Softmax",
        "LogSoftmax",
        "Exp",
        "Log",
        "Pow",
        "Softplus",
        "CumSum",
        "ReduceMean",
        "ReduceSum",
        "ReduceSumSquare",
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceProd",
        "LpNormalization",
        "Range",
        "NonMaxSuppression",
        "TopK",
    )
)
_HALF_MAX = 65504.0
_HALF_MIN = 2.0**-25  # what is smaller rounds to zero
_SCALES = {"QuantizeLinear": 1, "DequantizeLinear": 1}
_LEAST_SCALE = 2.0**-20
# An infinitely negative mask is as good as the largest number; a weight that is clipped is a wrong weight.
_CLIPPED = {
    "Add",
    "Sub",
    "Mul",
    "Where",
    "Min",
    "Max",
    "Clip",
    "Pad",
    "Expand",
    "Concat",
    "Identity",
    "Unsqueeze",
}
# Their results may be too large for half, and so is all that follows until something divides by it.
_GROWING = frozenset(("Pow", "Exp", "ReduceSum", "ReduceMean", "ReduceSumSquare", "ReduceL1", "ReduceL2", "CumSum"))
_DIVIDERS = frozenset(("Div", "Reciprocal", "Log", "Pow"))
_UNARY = frozenset(("Sqrt", "Expand", "Unsqueeze", "Squeeze", "Identity", "Reshape", "Abs", "Clip"))
_WITH_CONSTANT = frozenset(("Add", "Mul", "Max", "Min", "Sub"))
_FLOATS = (1, 10, 11, 16)  # onnx.TensorProto.FLOAT, FLOAT16, DOUBLE, BFLOAT16
_INTEGERS = (6, 7)  # INT32, INT64: what sizes are
_LISTED = 8


@dataclass
class Kept:
    """Nodes that stay float32, by `key`, and what to tell the user about constants."""

    nodes: set[str] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)


def sensitive(model: Any, is_half: bool, patterns: Sequence[str], types: Mapping[str, int]) -> Kept:
    """Nodes of sensitive operators, those that `patterns` match, those that compute sizes or coordinates, and (in
    half) those whose constants leave its range. `types` are those of the tensors (onnx.TensorProto)."""
    found = Kept()
    for node in model.graph.node:
        if node.op_type in SENSITIVE or matches(node, patterns):
            found.nodes.add(key(node))
    derived = _of_sizes(model.graph)
    found.nodes |= _computing_sizes(derived) | _coordinates(model.graph, derived, types)
    if is_half:
        _keep_extremes(model.graph, found)
        found.nodes |= _growing(model.graph)
    return found


def matches(node: Any, patterns: Sequence[str]) -> bool:
    """Whether a pattern is the node's operator, its name, or an fnmatch pattern of its name."""
    return any(node.op_type == each or fnmatch.fnmatchcase(node.name, each) for each in patterns)


def to_half(tensor: Any, name: str) -> Any:
    """The float32 tensor in float16. Finite values stay finite, and so do scales (see `least_scales`)."""
    import numpy as np
    from onnx import numpy_helper

    values = numpy_helper.to_array(tensor)
    clipped = np.where(np.isfinite(values), np.clip(values, -_HALF_MAX, _HALF_MAX), values)
    return numpy_helper.from_array(clipped.astype(np.float16), name)


def to_bfloat16(tensor: Any, name: str) -> Any:
    import ml_dtypes
    import onnx
    from onnx import numpy_helper

    values = numpy_helper.to_array(tensor).astype(ml_dtypes.bfloat16)
    made = onnx.TensorProto(name=name, data_type=onnx.TensorProto.BFLOAT16, raw_data=values.tobytes())
    made.dims.extend(values.shape)
    return made


def least_scales(model: Any) -> None:
    """Raise scales of Q/DQ that half would round to zero (channels of next to nothing), in place."""
    import numpy as np
    from onnx import numpy_helper

    names = {node.input[_SCALES[node.op_type]] for node in model.graph.node if node.op_type in _SCALES}
    for tensor in model.graph.initializer:
        if tensor.name in names:
            values = numpy_helper.to_array(tensor)
            if values.dtype == np.float32 and (values < _LEAST_SCALE).any():
                tensor.CopyFrom(numpy_helper.from_array(np.maximum(values, np.float32(_LEAST_SCALE)), tensor.name))


def _of_sizes(graph: Any) -> dict[str, Any]:
    """Nodes that are fed by sizes alone, by output."""
    made = {each.name for each in graph.initializer}
    derived: dict[str, Any] = {}
    for node in graph.node:
        given = [name for name in node.input if name and name not in made]
        if node.op_type == "Constant":
            made.update(node.output)
        elif node.op_type in ("Shape", "Size") or (given and all(name in derived for name in given)):
            derived.update((name, node) for name in node.output)
    return derived


def _coordinates(graph: Any, derived: Mapping[str, Any], types: Mapping[str, int]) -> set[str]:
    """Nodes that compute with sizes as numbers. A choice between constants (a mask) is none."""
    outputs: set[str] = set()
    found: set[str] = set()
    for node in graph.node:
        if not node.output or node.output[0] not in derived or node.op_type == "Where":
            continue
        is_float = types.get(node.output[0]) in _FLOATS
        begins = node.op_type == "Range" or (node.op_type == "Cast" and types.get(node.input[0]) in _INTEGERS)
        if (is_float and begins) or not outputs.isdisjoint(node.input):
            outputs.update(node.output)
            found.add(key(node))
    return found


def _computing_sizes(derived: Mapping[str, Any]) -> set[str]:
    """Nodes between a `Shape` and a `Cast` to integers, fed by sizes alone: they compute sizes or indices."""
    waiting = [node for node in derived.values() if node.op_type == "Cast" and node.attribute[0].i not in _FLOATS]
    found: set[str] = set()
    while waiting:
        node = waiting.pop()
        if key(node) not in found:
            found.add(key(node))
            waiting += [derived[name] for name in node.input if name in derived]
    return found


def _growing(graph: Any) -> set[str]:
    """Squares that are summed, and what follows a sum until it divides: a norm, written out."""
    flow = _Flow(graph)
    found: set[str] = set()
    for node in graph.node:
        if node.op_type in _GROWING:
            found.update(key(each) for each in flow.to_divider(node))
            maker = flow.makers.get(node.input[0])
            if maker is not None and maker.op_type == "Mul" and len(set(maker.input)) == 1:
                found.add(key(maker))
    return found


def _keep_extremes(graph: Any, found: Kept) -> None:
    flow = _Flow(graph)
    for node, name, value in _extremes(graph, found.nodes):
        if abs(value) < _HALF_MIN:
            chain = list(flow.to_divider(node))
            found.nodes.update(key(each) for each in chain)
            others = ", ".join(repr(each.name) for each in chain[1:])
            stay = f"it and {others} stay float32" if others else "it stays float32"
            found.warnings.append(f"node {node.name!r}: its constant {value:g} ({name!r}) is 0 in float16; {stay}")
        elif node.op_type in _CLIPPED:
            limit = _HALF_MAX if value > 0 else -_HALF_MAX
            found.warnings.append(
                f"node {node.name!r}: its constant {value:g} ({name!r}) is beyond float16 (±65504); "
                f"it is clipped to {limit:g}"
            )
        else:
            found.nodes.add(key(node))
            found.warnings.append(
                f"node {node.name!r}: its constant {name!r} holds {value:g}, beyond float16 (±65504); it stays float32"
            )
    if len(found.warnings) > _LISTED:
        rest = len(found.warnings) - _LISTED
        found.warnings[_LISTED:] = [f"and {rest} more nodes with constants beyond float16"]


def _extremes(graph: Any, kept: set[str]) -> Iterator[tuple[Any, str, float]]:
    """(node, constant, its most extreme value) for constants of nodes not yet kept that half cannot hold.

    Small values count where a constant holds nothing else: among weights they are as good as zero.
    """
    worst = {each.name: value for each in graph.initializer for value in _worst(each)}
    for node in graph.node:
        for i, name in enumerate(node.input):
            if name in worst and key(node) not in kept and _SCALES.get(node.op_type) != i:
                yield node, name, worst[name]


def _worst(tensor: Any) -> Iterator[float]:
    import numpy as np
    from onnx import numpy_helper

    if tensor.data_type != tensor.FLOAT:
        return
    values = numpy_helper.to_array(tensor).ravel()
    finite = values[np.isfinite(values)]
    if not finite.size:
        return
    largest = float(finite[np.abs(finite).argmax()])
    if abs(largest) > _HALF_MAX or 0 < abs(largest) < _HALF_MIN:
        yield largest


class _Flow:
    """Who makes and who uses the tensors of a graph."""

    def __init__(self, graph: Any) -> None:
        self._constants = {each.name for each in graph.initializer}
        self.makers = {name: node for node in graph.node for name in node.output if name}
        self._users: dict[str, list[Any]] = {}
        for node in graph.node:
            for name in node.input:
                self._users.setdefault(name, []).append(node)

    def to_divider(self, start: Any) -> Iterator[Any]:
        """`start` and what carries its result on unchanged in kind, up to and with what divides by it."""
        waiting, seen = [start], set()
        while waiting:
            node = waiting.pop(0)
            if key(node) in seen:
                continue
            seen.add(key(node))
            yield node
            if node is start or node.op_type not in _DIVIDERS:
                users = [user for name in node.output for user in self._users.get(name, ())]
                waiting += [user for user in users if self._carries(user)]

    def _carries(self, node: Any) -> bool:
        if node.op_type in _WITH_CONSTANT:
            return any(name in self._constants for name in node.input)
        return node.op_type in _UNARY or node.op_type in _DIVIDERS
