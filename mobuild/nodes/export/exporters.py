"""torch's two exporters behind one call, with their failures in plain words.

`dynamo` captures the program with `torch.export` and refuses a branch on data. `torchscript` traces one
run and bakes the branch that it took, so branches are watched here: one on data is an error, one on a
shape is not (whether it holds at other sizes is the proof's question).
"""

from __future__ import annotations

import contextlib
import inspect
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mobuild.errors import NodeFailed, did_you_mean
from mobuild.nodes.export import naming
from mobuild.nodes.export.frames import causes, decolour, is_users, place, user_line, words
from mobuild.nodes.export.shapes import Input
from mobuild.onnxmodel.files import EXTERNAL_BYTES

EXPORTERS = ("dynamo", "torchscript")
TORCHSCRIPT_OPSETS = range(7, 21)
DYNAMO_FIRST_OPSET = 18
_UNKNOWN_ARGUMENT = re.compile(r"unexpected keyword argument '(\w+)'")
_OF_SHAPES = ("aten::size", "aten::sym_size", "aten::numel", "aten::dim", "aten::len", "prim::shape")


def export(exporter: str, module: Any, arguments: Sequence[Any], file: Path, options: dict[str, Any]) -> None:
    """Write `module` to `file` by `torch.onnx.export` with `options`.

    Raises:
        NodeFailed: a branch on data, an operator without ONNX form, or the exporter's own words.
    """
    import torch

    branches: list[str] = []
    watch = _branches_on_data(branches) if exporter == "torchscript" else contextlib.nullcontext()
    try:
        with warnings.catch_warnings(), torch.no_grad(), watch:
            warnings.simplefilter("ignore")
            torch.onnx.export(module, tuple(arguments), str(file), **options)
    except Exception as error:
        decolour(error)
        if branches:
            raise _branch(branches[0]) from error
        raise _explained(exporter, error, options) from error
    if branches:
        raise _branch(branches[0])


def dynamo_options(
    module: Any, inputs: Sequence[Input], outputs: Sequence[str], opset: int, raw: Mapping[str, Any]
) -> dict[str, Any]:
    shapes = tuple({i: axis for i, axis in enumerate(each.shape) if isinstance(axis, str)} for each in inputs)
    return {
        "dynamo": True,
        "input_names": naming.stand_ins([each.name for each in inputs]),
        "output_names": naming.stand_ins(outputs),
        "opset_version": opset,
        "dynamic_shapes": shapes,
        "external_data": _weight_bytes(module) > EXTERNAL_BYTES,
        "verbose": False,
        **raw,
    }


def torchscript_options(
    inputs: Sequence[Input],
    outputs: Mapping[str, Sequence[int | str]],
    opset: int,
    raw: Mapping[str, Any],
) -> dict[str, Any]:
    shapes = [(each.name, each.shape) for each in inputs] + list(outputs.items())
    axes = {name: {i: axis for i, axis in enumerate(shape) if isinstance(axis, str)} for name, shape in shapes}
    return {
        "dynamo": False,
        "input_names": [each.name for each in inputs],
        "output_names": list(outputs),
        "opset_version": opset,
        "dynamic_axes": {name: named for name, named in axes.items() if named},
        **raw,
    }


def _weight_bytes(module: Any) -> int:
    return sum(each.numel() * each.element_size() for each in (*module.parameters(), *module.buffers()))


@contextlib.contextmanager
def _branches_on_data(found: list[str]) -> Iterator[None]:
    """Collect the places where a traced tensor that depends on data becomes a Python boolean."""
    import torch

    original = torch.Tensor.__bool__

    def watched(tensor: Any) -> bool:
        if torch.jit.is_tracing() and _depends_on_data(tensor):
            found.append(_caller())
        return bool(original(tensor))

    torch.Tensor.__bool__ = watched  # type: ignore[method-assign,unused-ignore]
    try:
        yield
    finally:
        torch.Tensor.__bool__ = original  # type: ignore[method-assign,unused-ignore]


def _depends_on_data(tensor: Any) -> bool:
    import torch

    waiting, seen = [torch._C._get_value_trace(tensor)], set()
    while waiting:
        node = waiting.pop().node()
        if node.kind() == "prim::Param":
            return True
        if node.kind() not in _OF_SHAPES and node not in seen:
            seen.add(node)
            waiting += list(node.inputs())
    return False


def _caller() -> str:
    frame: Any = sys._getframe(2)
    while frame.f_back is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def _branch(where: str) -> NodeFailed:
    return NodeFailed(
        f"{where} branches on the data, and the exported graph would hold one branch for ever",
        "compute both sides and choose with torch.where, or use torch.cond",
    )


def opsets() -> str:
    """Which opsets the exporters meet: the dynamo exporter up to the newest that onnx knows."""
    import onnx

    first, last = TORCHSCRIPT_OPSETS[0], TORCHSCRIPT_OPSETS[-1]
    return f"dynamo meets {DYNAMO_FIRST_OPSET} to {onnx.defs.onnx_opset_version()}, torchscript {first} to {last}"


def _explained(exporter: str, error: Exception, options: Mapping[str, Any]) -> NodeFailed:
    unknown = _UNKNOWN_ARGUMENT.search(str(error))
    if unknown and unknown.group(1) in options:
        return _unknown_argument(unknown.group(1))
    if "onnx_opset_version" in str(error):
        asked = options["opset_version"]
        return NodeFailed(f"asked for opset {asked}: the {exporter} exporter does not meet it", opsets())
    where = user_line(error)
    if any(_is_data_dependent(cause) for cause in causes(error)):
        return _branch(where or "the network")
    other = EXPORTERS[1 - EXPORTERS.index(exporter)]
    return NodeFailed(
        f"the {exporter} exporter fails{f' at {where}' if where else ''}: {words(error)}",
        f"the whole message is in the log; exporter: {other} takes another way",
    )


def _unknown_argument(name: str) -> NodeFailed:
    import torch

    known = list(inspect.signature(torch.onnx.export).parameters)
    return NodeFailed(
        f"raw: {name!r} is no argument of torch.onnx.export.{did_you_mean(name, known)}",
        f"arguments: {', '.join(known)}",
    )


def _is_data_dependent(error: BaseException) -> bool:
    return type(error).__name__ == "GuardOnDataDependentSymNode" or "Data-dependent branching" in str(error)
