"""torch's two exporters behind one call, with their failures in plain words.

`dynamo` captures the program with `torch.export` and refuses a branch on data. `torchscript` traces one
run and bakes the branch that it took and the numbers that it saw, so those are watched: `tracing`.
"""

from __future__ import annotations

import contextlib
import inspect
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mobuild.errors import NodeFailed, did_you_mean
from mobuild.nodes.export import naming, tracing
from mobuild.nodes.export.frames import causes, decolour, plain, user_line, words
from mobuild.nodes.export.shapes import Input
from mobuild.onnxmodel.files import EXTERNAL_BYTES

EXPORTERS = ("dynamo", "torchscript")
TORCHSCRIPT_OPSETS = range(7, 21)
DYNAMO_FIRST_OPSET = 18
_FROZEN = re.compile(r"inferred a static shape of (\d+) for dimension inputs\['(\w+)'\](?:\[(\d+)\])?\.shape\[(\d+)\]")
FREEZES = (
    "the network turns a size into a constant: int(x.shape[0]), a list or buffer of fixed length, "
    "a branch on a size; use x.shape in shapes alone"
)
_UNKNOWN_ARGUMENT = re.compile(r"unexpected keyword argument '(\w+)'")


def export(exporter: str, module: Any, arguments: Sequence[Any], file: Path, options: dict[str, Any]) -> None:
    """Write `module` to `file` by `torch.onnx.export` with `options`.

    Raises:
        NodeFailed: a branch on data, an operator without ONNX form, or the exporter's own words.
    """
    import torch

    lost: list[NodeFailed] = []
    watch = tracing.watched(len(arguments)) if exporter == "torchscript" else contextlib.nullcontext(lost)
    try:
        with warnings.catch_warnings(), torch.no_grad(), watch as lost:
            warnings.simplefilter("ignore")
            torch.onnx.export(module, tuple(arguments), str(file), **options)
    except Exception as error:
        decolour(error)
        if lost:
            raise lost[0] from error
        raise _frozen(module, error, options) or _explained(exporter, error, options) from error
    if lost:
        raise lost[0]


def dynamo_options(
    module: Any, inputs: Sequence[Input], outputs: Sequence[str], opset: int, raw: Mapping[str, Any]
) -> dict[str, Any]:
    shapes = tuple({i: axis for i, axis in enumerate(each.shape) if isinstance(axis, str)} for each in inputs)
    alone = _named_arguments(module)
    return {
        "dynamo": True,
        "input_names": naming.stand_ins([each.name for each in inputs]),
        "output_names": naming.stand_ins(outputs),
        "opset_version": opset,
        "dynamic_shapes": shapes if len(shapes) <= alone else (*shapes[:alone], shapes[alone:]),
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


def _named_arguments(module: Any) -> int:
    """How many arguments come before a `*` one, whose shapes torch.export wants in a tuple of their own."""
    try:
        kinds = [each.kind for each in inspect.signature(module.forward).parameters.values()]
    except (TypeError, ValueError):  # a compiled function has no signature
        return sys.maxsize
    variadic = inspect.Parameter.VAR_POSITIONAL
    return kinds.index(variadic) if variadic in kinds else sys.maxsize


def _weight_bytes(module: Any) -> int:
    return sum(each.numel() * each.element_size() for each in (*module.parameters(), *module.buffers()))


def opsets() -> str:
    """Which opsets the exporters meet: the dynamo exporter up to the newest that onnx knows."""
    import onnx

    first, last = TORCHSCRIPT_OPSETS[0], TORCHSCRIPT_OPSETS[-1]
    return f"dynamo meets {DYNAMO_FIRST_OPSET} to {onnx.defs.onnx_opset_version()}, torchscript {first} to {last}"


def _frozen(module: Any, error: Exception, options: Mapping[str, Any]) -> NodeFailed | None:
    """The error that names the axes of which torch.export found that only one size works."""
    found = {each for cause in causes(error) for each in _FROZEN.findall(plain(str(cause)))}
    if not found:
        return None
    arguments, shapes = list(inspect.signature(module.forward).parameters), options["dynamic_shapes"]
    sizes = {}
    for size, argument, place, axis in sorted(found):
        shape = shapes[arguments.index(argument)]
        sizes[(shape[int(place)] if place else shape)[int(axis)]] = size
    names, only = ", ".join(map(repr, sizes)), ", ".join(sizes.values())
    subject = f"axis {names} is" if len(sizes) == 1 else f"axes {names} are"
    return NodeFailed(
        f"{subject} dynamic in name only: the dynamo exporter finds that no size works but {only}", FREEZES
    )


def _explained(exporter: str, error: Exception, options: Mapping[str, Any]) -> NodeFailed:
    unknown = _UNKNOWN_ARGUMENT.search(str(error))
    if unknown and unknown.group(1) in options:
        return _unknown_argument(unknown.group(1))
    if "onnx_opset_version" in str(error):
        asked = options["opset_version"]
        return NodeFailed(f"asked for opset {asked}: the {exporter} exporter does not meet it", opsets())
    where = user_line(error)
    if any(_is_data_dependent(cause) for cause in causes(error)):
        return tracing.branch(where or "the network")
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
