"""Asked names for inputs and outputs, also where a tensor inside the graph has such a name already.

torch 2.13's dynamo exporter calls a tensor after its operator (`embedding`, `linear`) and then gives an output
the asked name without looking: `outputs: [embedding]` made a file with two tensors of one name. So it is told
stand-ins, which are replaced here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mobuild.onnxmodel import walk

_STAND_IN = "mobuild:"


def stand_ins(names: Sequence[str]) -> list[str]:
    """Names that no exporter gives, for the asked ones."""
    return [_STAND_IN + name for name in names]


def replace_stand_ins(model: Any) -> None:
    """Give tensors their asked names; others that have one of these get a number behind theirs."""
    found = {name for owner, field in _places(model) for name in _names(owner, field)}
    new = {name: name[len(_STAND_IN) :] for name in sorted(found) if name.startswith(_STAND_IN)}
    for name in found.intersection(new.values()):
        new[name] = _free(name, found)
    for owner, field in _places(model):
        _rename(owner, field, new)


def _places(model: Any) -> Iterator[tuple[Any, str]]:
    """Whatever has names of tensors in a field."""
    for node in walk.nodes(model):
        yield from ((node, "input"), (node, "output"))
    for graph in walk.graphs(model):
        for values in (graph.input, graph.output, graph.value_info, graph.initializer):
            yield from ((value, "name") for value in values)


def _names(owner: Any, field: str) -> Sequence[str]:
    value = getattr(owner, field)
    return [value] if isinstance(value, str) else value


def _rename(owner: Any, field: str, new: Mapping[str, str]) -> None:
    if field == "name":
        owner.name = new.get(owner.name, owner.name)
        return
    names = getattr(owner, field)
    names[:] = [new.get(name, name) for name in names]


def _free(name: str, taken: set[str]) -> str:
    number = 1
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"
