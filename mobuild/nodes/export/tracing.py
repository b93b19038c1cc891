"""What a trace forgets: branches on the data, and numbers taken out of it.

A trace keeps what one run did. Where a tensor becomes a Python boolean, a number or a list, it keeps the one of
the example, without a word; torch says so in a warning at most, which also comes where nothing is lost. Sizes are
no data: whether a file holds at others is the proof's question. Parameters and buffers are none either, since
they never change.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from mobuild.errors import NodeFailed
from mobuild.nodes.export.frames import is_users, place

_BRANCH, _NUMBER = "branch", "number"
_OF_VALUES: Mapping[str, str] = {
    "__bool__": _BRANCH,
    "__complex__": _NUMBER,
    "__float__": _NUMBER,
    "__index__": _NUMBER,
    "__int__": _NUMBER,
    "item": _NUMBER,
    "numpy": _NUMBER,
    "tolist": _NUMBER,
}
_OF_LENGTHS = ("__iter__", "__len__")  # Python numbers too, of a size that the data may decide
_SIZES = ("aten::size", "aten::sym_size", "aten::numel", "aten::len")
_RANKS = ("aten::dim", "prim::shape")
_SIZED_BY_DATA = ("nonzero", "masked_select", "unique", "argwhere", "bincount", "nms")
_PRINTING = "_tensor_str.py"  # print(x) in a forward changes nothing


@contextlib.contextmanager
def watched(arguments: int) -> Iterator[list[NodeFailed]]:
    """Collect what is lost while a network of so many arguments is traced, each as the error to raise."""
    import torch

    found: list[NodeFailed] = []
    kept, trace = dict(vars(torch.Tensor)), _Trace(arguments)
    for name, what in _OF_VALUES.items():
        setattr(torch.Tensor, name, _watched(getattr(torch.Tensor, name), trace.depends_on_data, what, found))
    for name in _OF_LENGTHS:
        setattr(torch.Tensor, name, _watched(getattr(torch.Tensor, name), trace.is_sized_by_data, _BRANCH, found))
    try:
        yield found
    finally:
        for name in (*_OF_VALUES, *_OF_LENGTHS):
            if name in kept:
                setattr(torch.Tensor, name, kept[name])
            else:
                delattr(torch.Tensor, name)


def branch(where: str) -> NodeFailed:
    """The error of a branch on the data; `where` as `frames.place` says."""
    return NodeFailed(
        f"{where} branches on the data, and the exported graph would hold one branch for ever",
        "compute both sides and choose with torch.where, or use torch.cond",
    )


def _number(where: str) -> NodeFailed:
    return NodeFailed(
        f"{where} takes a number out of the data, and the exported graph would hold that one for ever",
        "keep it a tensor, or leave it out where it is only printed; exporter: dynamo keeps some of them",
    )


def _watched(original: Any, is_lost: Any, what: str, found: list[NodeFailed]) -> Any:
    import torch

    def watching(tensor: Any, *words: Any, **named: Any) -> Any:
        if torch.jit.is_tracing() and not _is_printed() and is_lost(torch._C._get_value_trace(tensor)):
            found.append(branch(_caller()) if what == _BRANCH else _number(_caller()))
        return original(tensor, *words, **named)

    return watching


class _Trace:
    """The graph of a network of so many arguments, while it grows."""

    def __init__(self, arguments: int) -> None:
        self._arguments = arguments
        self._fixed: set[Any] = set()  # nodes below which nothing picks elements: a graph grows at its end alone

    def depends_on_data(self, value: Any) -> bool:
        """Whether a value is computed from what the arguments hold, and not from their sizes alone."""
        waiting, seen = [value], set()
        while waiting:
            value = waiting.pop()
            node = value.node()
            if node.kind() == "prim::Param" and _number_of(value, node) < self._arguments:
                return True
            if node.kind() in _SIZES and _is_first_axis(node) and self.is_sized_by_data(_source(node)):
                return True
            if node.kind() not in (*_SIZES, *_RANKS, "prim::Param") and node not in seen:
                seen.add(node)
                waiting += list(node.inputs())
        return False

    def is_sized_by_data(self, value: Any) -> bool:
        """Whether the first axis of a value is as long as the data says: of all that the value comes of, any picks
        elements by what the arguments hold."""
        waiting, seen = [value], set()
        while waiting:
            node = waiting.pop().node()
            if node in seen or node in self._fixed or node.kind() == "prim::Param":
                continue
            seen.add(node)
            if _picks(node) and any(map(self.depends_on_data, node.inputs())):
                return True
            waiting += list(node.inputs())
        self._fixed |= seen
        return False


def _picks(node: Any) -> bool:
    if node.kind() == "aten::index":
        return any(_is_mask(each) for each in list(node.inputs())[1].node().inputs())
    return any(word in node.kind() for word in _SIZED_BY_DATA)


def _is_mask(value: Any) -> bool:
    kind = value.type()
    return kind.kind() == "TensorType" and kind.scalarType() in ("Bool", "Byte")


def _number_of(value: Any, node: Any) -> int:
    """Which of the graph's inputs it is: the network's arguments come first, then its parameters and buffers."""
    return [each.debugName() for each in node.outputs()].index(value.debugName())


def _source(node: Any) -> Any:
    return next(iter(node.inputs()))


def _is_first_axis(node: Any) -> bool:
    """Whether a size is that of the first axis, the one that grows where elements are picked."""
    inputs = list(node.inputs())
    if len(inputs) < 2 or inputs[1].node().kind() != "prim::Constant":
        return True
    return bool(inputs[1].toIValue() == 0)


def _is_printed() -> bool:
    frame: Any = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.endswith(_PRINTING):
            return True
        frame = frame.f_back
    return False


def _caller() -> str:
    frame: Any = sys._getframe(2)
    while frame.f_back is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
