"""Writes nodes into a graph, and knows what tensors are: type, shape, and which node made them."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from mobuild.onnxmodel.files import EXTERNAL_BYTES, tensor_bytes


class Writer:
    """Appends nodes to `graph`: `write("Add", [a, b])` gives the name of the sum. `made` is tensor → its node."""

    def __init__(self, graph: Any, types: Mapping[str, Any], made: Mapping[str, Any]) -> None:
        self.graph, self.made, self._types = graph, made, types
        named = (*graph.input, *graph.initializer, *made.values())
        self._taken = {*types, *made, *(each.name for each in named)}

    @staticmethod
    def types_of(model: Any) -> dict[str, Any]:
        """Tensor → (element type, shape with numbers, names and None; None where it is not known)."""
        import onnx

        if tensor_bytes(model) <= EXTERNAL_BYTES:
            model = onnx.shape_inference.infer_shapes(model, data_prop=True)
        values = (*model.graph.value_info, *model.graph.input, *model.graph.output)
        found = {each.name: (each.type.tensor_type.elem_type, _shape(each.type.tensor_type)) for each in values}
        found.update({each.name: (each.data_type, list(each.dims)) for each in model.graph.initializer})
        return found

    def __call__(self, operator: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        from onnx import helper

        output = output or self._name(operator.lower())
        self.graph.node.append(helper.make_node(operator, inputs, [output], name=self._name(operator), **attributes))
        return output

    def ints(self, numbers: Sequence[int]) -> str:
        """A constant list of numbers."""
        import numpy as np

        return self._constant(np.asarray(numbers, np.int64))

    def int(self, number: int) -> str:
        """A constant number."""
        import numpy as np

        return self._constant(np.asarray(number, np.int64))

    def dtype(self, tensor: str) -> Any:
        return self._types.get(tensor, (0, None))[0]

    def shape(self, tensor: str) -> Any:
        return self._types.get(tensor, (0, None))[1]

    def single(self, tensor: str, through: Sequence[str]) -> str:
        """The tensor of one element which `tensor` repeats, made by nodes of the operators `through`; else empty."""
        while (node := self.made.get(tensor)) is not None and node.op_type in through:
            tensor = node.input[0]
        shape = self.shape(tensor)
        count = 1
        for axis in shape if shape is not None else (None,):
            count = count * axis if isinstance(axis, int) else 0
        return tensor if count == 1 else ""

    def _constant(self, array: Any) -> str:
        from onnx import numpy_helper

        name = self._name("constant")
        self.graph.initializer.append(numpy_helper.from_array(array, name))
        return name

    def _name(self, word: str) -> str:
        number = 0
        while (name := f"rewritten_{word}_{number}") in self._taken:
            number += 1
        self._taken.add(name)
        return name


def attribute(node: Any, name: str, default: Any) -> Any:
    from onnx import helper

    return next((helper.get_attribute_value(each) for each in node.attribute if each.name == name), default)


def int_list(node: Any, name: str, default: list[int]) -> list[int]:
    return list(attribute(node, name, default))


def drop_unused(graph: Any) -> None:
    """Drop nodes and constants that nothing reads any more."""
    nodes = list(graph.node)
    while True:
        read = {name for node in nodes for name in _read(node)} | {each.name for each in graph.output}
        kept = [node for node in nodes if read.intersection(node.output)]
        if len(kept) == len(nodes):
            break
        nodes = kept
    constants = [each for each in graph.initializer if each.name in read]
    made = {name for node in nodes for name in node.output}
    values = [each for each in graph.value_info if each.name in made]
    del graph.node[:], graph.initializer[:], graph.value_info[:]
    graph.node.extend(nodes)
    graph.initializer.extend(constants)
    graph.value_info.extend(values)


def _read(node: Any) -> set[str]:
    """What a node reads, its subgraphs included."""
    from mobuild.onnxmodel.walk import subgraphs

    inner = {name for graph in subgraphs([node]) for each in graph.node for name in _read(each)}
    outputs = {each.name for graph in subgraphs([node]) for each in graph.output}
    return {*node.input, *inner, *outputs}


def _shape(kind: Any) -> Any:
    if not kind.HasField("shape"):
        return None
    return [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in kind.shape.dim]
