"""Rewrites the types of a graph: float32 becomes float16 or bfloat16 wherever that is safe and legal.

Networks of today's builders are strongly typed, so a precision is a property of the graph. What an operator
may take is read from its ONNX schema at the model's opset. Inputs and outputs stay float32. Which nodes
must stay as well, for their numbers, is decided by `sensitive`; what follows from a node's type is here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mobuild.onnxmodel.walk import captured, subgraphs

_FLOAT = 1  # onnx.TensorProto.FLOAT
_SUFFIXES = {1: "__float32", 10: "__float16", 16: "__bfloat16"}
_OWN_DTYPE = {
    "RandomNormal",
    "RandomUniform",
    "RandomNormalLike",
    "RandomUniformLike",
    "Bernoulli",
    "EyeLike",
}
_BFLOAT16_OPSET = 22  # the first in which all operators take bfloat16, Conv and MaxPool among them


def can_lower(node: Any, types: Mapping[str, int], opset: int, low: int) -> bool:
    """Whether the node may compute in the type `low`: its schema allows it, and all types are known.

    Nodes with subgraphs stay float32 with all that is in them.
    """
    if node.domain not in ("", "ai.onnx") or node.op_type in _OWN_DTYPE or list(subgraphs([node])):
        return False
    names = [name for name in (*node.input, *node.output) if name]
    if any(name not in types for name in names) or all(types[name] != _FLOAT for name in names):
        return False
    floats = [(side, i) for side in ("inputs", "outputs") for i in _floats(node, side, types)]
    allowed = [place for place in floats if _allows(node, opset, *place, low)]
    return bool(allowed) and all(place in allowed for place in floats if place[0] == "outputs")


def key(node: Any) -> str:
    """What tells a node from all others: its first output; names of nodes may be empty or repeat."""
    return next((name for name in node.output if name), "")


def types_of(model: Any) -> dict[str, int]:
    """Tensor → element type, for all tensors of the main graph that onnx can tell."""
    found = {each.name: each.data_type for each in model.graph.initializer}
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        if value.type.HasField("tensor_type"):
            found[value.name] = value.type.tensor_type.elem_type
    return {name: kind for name, kind in found.items() if kind}


def opset_of(model: Any) -> int:
    return next(int(each.version) for each in model.opset_import if each.domain in ("", "ai.onnx"))


def name_constants(model: Any) -> None:
    """Turn float `Constant` nodes of the main graph into initializers, which have types to rewrite."""
    from onnx import numpy_helper

    kept = []
    for node in model.graph.node:
        tensor = next((each.t for each in node.attribute if each.name == "value" and each.HasField("t")), None)
        if node.op_type == "Constant" and tensor is not None and tensor.data_type == _FLOAT:
            model.graph.initializer.append(numpy_helper.from_array(numpy_helper.to_array(tensor), node.output[0]))
        else:
            kept.append(node)
    del model.graph.node[:]
    model.graph.node.extend(kept)


def raise_opset(model: Any, low: int) -> Any:
    """The model at an opset whose operators take bfloat16; itself for float16 or where onnx cannot convert."""
    import onnx
    from onnx import version_converter

    if low != onnx.TensorProto.BFLOAT16 or opset_of(model) >= _BFLOAT16_OPSET:
        return model
    try:
        raised = version_converter.convert_version(model, _BFLOAT16_OPSET)
        onnx.checker.check_model(raised)
    except (RuntimeError, onnx.checker.ValidationError):
        return model  # operators that take no bfloat16 then stay float32, and are counted as such
    return raised


@dataclass(frozen=True)
class Plan:
    """Which nodes of the main graph compute in the type `low`, and how a constant becomes one of that type."""

    low: int
    opset: int
    types: Mapping[str, int]
    lowered: frozenset[str]  # nodes by `key`
    convert: Callable[[Any, str], Any]  # (tensor, name) → the tensor in the low type

    def is_low(self, node: Any) -> bool:
        return key(node) in self.lowered

    def wanted(self, node: Any) -> Iterator[tuple[int, str, int]]:
        """(position, tensor, type) of the node's float inputs, and of those that its subgraphs use."""
        lowered = self.is_low(node)
        for i, name in enumerate(node.input):
            if self.types.get(name) == _FLOAT:
                fits = lowered and _allows(node, self.opset, "inputs", i, self.low)
                yield i, name, self.low if fits else _FLOAT


def rewrite(model: Any, plan: Plan) -> None:
    """Give the nodes of `plan` their types, with a `Cast` wherever two types meet; in place."""
    writer = _Writer(model, plan)
    nodes = list(model.graph.node)
    del model.graph.node[:]
    for node in nodes:
        writer.add(node)
    writer.finish()


class _Writer:
    """The new node list, and which versions of each tensor exist in it.

    A tensor keeps its name in one type, and is called `name__float16` or `name__float32` in the other.
    Names that the outside knows (outputs, what subgraphs use) stay with float32.
    """

    def __init__(self, model: Any, plan: Plan) -> None:
        self.graph, self.plan = model.graph, plan
        inputs = {each.name for each in self.graph.input}
        self._constants = {each.name: each for each in self.graph.initializer if each.name not in inputs}
        self._pinned = {each.name for each in self.graph.output} | set(captured(self.graph.node))
        float_users = {name for node in self.graph.node for _, name, kind in plan.wanted(node) if kind == _FLOAT}
        self._float_users = float_users | self._pinned
        self._names: dict[tuple[str, int], str] = {(each, _FLOAT): each for each in (*inputs, *self._constants)}
        self._new_constants: list[Any] = []

    def add(self, node: Any) -> None:
        for i, name, kind in self.plan.wanted(node):
            node.input[i] = self._version(name, kind)
        for name in captured([node]):
            if self.plan.types.get(name) == _FLOAT:
                self._version(name, _FLOAT)
        kind = self.plan.low if self.plan.is_low(node) else _FLOAT
        if kind != _FLOAT:
            _retype_attributes(node, self.plan)
        for i, name in enumerate(node.output):
            if self.plan.types.get(name) == _FLOAT:
                node.output[i] = name + _SUFFIXES[kind] if kind != _FLOAT and name in self._pinned else name
                self._names[name, kind] = node.output[i]
        self.graph.node.append(node)

    def finish(self) -> None:
        """Write the outputs in float32, and drop what nothing uses."""
        for value in self.graph.output:
            if self.plan.types.get(value.name) == _FLOAT:
                self._version(value.name, _FLOAT)
        used = {name for node in self.graph.node for name in node.input} | self._pinned
        used -= {each.name for each in self._new_constants}
        kept = [each for each in self.graph.initializer if each.name in used]
        del self.graph.initializer[:], self.graph.value_info[:]
        self.graph.initializer.extend([*kept, *self._new_constants])

    def _version(self, name: str, kind: int) -> str:
        """The name of the tensor `name` in the type `kind`; written first when there is none."""
        if (name, kind) in self._names:
            return self._names[name, kind]
        if name in self._constants:
            return self._converted(name, kind)
        other = _FLOAT if kind == self.plan.low else self.plan.low
        new: str = name if name in self._pinned and kind == _FLOAT else name + _SUFFIXES[kind]
        self._cast(self._names[name, other], new, kind)
        self._names[name, kind] = new
        return new

    def _converted(self, name: str, kind: int) -> str:
        """A constant in the low type; under its own name when float32 is wanted nowhere."""
        new: str = name + _SUFFIXES[kind] if name in self._float_users else name
        self._new_constants.append(self.plan.convert(self._constants[name], new))
        self._names[name, kind] = new
        return new

    def _cast(self, source: str, out: str, kind: int) -> None:
        from onnx import helper

        self.graph.node.append(helper.make_node("Cast", [source], [out], name=f"cast_{out}", to=kind))


def _floats(node: Any, side: str, types: Mapping[str, int]) -> list[int]:
    """Positions of the float32 tensors among the node's inputs or outputs."""
    names = node.input if side == "inputs" else node.output
    return [i for i, name in enumerate(names) if types.get(name) == _FLOAT]


def _allows(node: Any, opset: int, side: str, position: int, low: int) -> bool:
    """Whether the operator's schema lets the tensor at `position` of its inputs or outputs be of type `low`."""
    import onnx

    formals = getattr(_schema(node.op_type, opset), side)
    formal = formals[min(position, len(formals) - 1)]
    return f"tensor({onnx.TensorProto.DataType.Name(low).lower()})" in formal.types


def _schema(operator: str, opset: int) -> Any:
    import onnx

    return onnx.defs.get_schema(operator, opset)


def _retype_attributes(node: Any, plan: Plan) -> None:
    from onnx import helper

    for attribute in node.attribute:
        if attribute.name in ("to", "dtype", "output_dtype") and attribute.i == _FLOAT:
            attribute.i = plan.low
        elif attribute.HasField("t") and attribute.t.data_type == _FLOAT:
            attribute.t.CopyFrom(plan.convert(attribute.t, attribute.t.name))
    if node.op_type == "ConstantOfShape" and not node.attribute:
        node.attribute.append(helper.make_attribute("value", helper.make_tensor("value", plan.low, [1], [0])))
