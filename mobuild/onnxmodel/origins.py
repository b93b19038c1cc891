"""What tensors come of: `constant`, of sizes (`shape`: known where a builder fixes them), or of `input` values."""

from __future__ import annotations

from typing import Any

from mobuild.onnxmodel.walk import graphs, nodes, subgraphs

CONSTANT, SHAPE, INPUT = "constant", "shape", "input"
_ORDER = (CONSTANT, SHAPE, INPUT)


class Origins:
    """The origins of a model's tensors, whose names are unique over its subgraphs as well.

    `constants` are tensors, or attributes of `Constant` nodes, by the name that nodes call them.
    """

    def __init__(self, model: Any) -> None:
        self.constants: dict[str, Any] = {each.name: each for graph in graphs(model) for each in graph.initializer}
        for node in nodes(model):
            if node.op_type == "Constant" and node.output:
                self.constants.update((node.output[0], each) for each in node.attribute)
        self._producers = {name: node for node in nodes(model) for name in node.output if name}
        self._known: dict[str, str] = dict.fromkeys(self.constants, CONSTANT)

    def of(self, name: str) -> str:
        """The origin of a tensor; walks with a list of its own, since graphs are deeper than Python's stack."""
        waiting, begun = [name], set()  # begun: a graph that runs in a circle is no reason to do so, too
        while waiting:
            current = waiting[-1]
            producer = self._producers.get(current)
            unknown = [each for each in _sources(producer) if each not in self._known and each not in begun]
            begun.add(current)
            if unknown and current not in self._known:
                waiting += unknown
                continue
            self._known.setdefault(current, self._origin(producer))
            waiting.pop()
        return self._known[name]

    def _origin(self, producer: Any) -> str:
        if producer is None or subgraphs([producer]):
            return INPUT
        if producer.op_type in ("Shape", "Size"):
            inner = self._producers.get(producer.input[0])
            return CONSTANT if inner is not None and inner.op_type == "Shape" else SHAPE  # of a shape: the rank
        origins = [self._known.get(each, INPUT) for each in producer.input if each]
        return max(origins, key=_ORDER.index, default=CONSTANT)


def _sources(producer: Any) -> list[str]:
    """The inputs whose values decide; of a size, none does."""
    if producer is None or producer.op_type in ("Shape", "Size") or subgraphs([producer]):
        return []
    return [each for each in producer.input if each]
