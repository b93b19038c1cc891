"""Is a tool's result at least as good as what it got? Counts, axes, and the same numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mobuild import onnxmodel, parity
from mobuild.errors import NodeFailed
from mobuild.onnxmodel.files import tensor_bytes
from mobuild.onnxmodel.summary import axes, of_model
from mobuild.onnxmodel.walk import tensors

_TYPED = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")  # of a TensorProto


@dataclass(frozen=True)
class Look:
    """What one model is and does. `why_not_run` tells why there are no `runs` to compare."""

    summary: Mapping[str, Any]
    size_bytes: int  # of the graph and of what its constants hold; without names of nodes and shapes
    feeds: Sequence[Mapping[str, Any]]
    runs: Sequence[Mapping[str, Any]]
    why_not_run: str = ""
    libraries: Sequence[Path] = ()  # of the model's custom operators


def look(path: Path, ranges: Mapping[str, Any], sizes: Mapping[str, int], libraries: Sequence[Path] = ()) -> Look:
    """Look at the model before any tool, and run it at two sizes where ONNX Runtime can."""
    summary, size_bytes = _facts(path)
    ranged = {**summary, "ranges": {**summary["ranges"], **ranges}}
    try:
        pairs = list(_runs(onnxmodel.open_session(path, libraries=libraries), ranged, sizes))
    except NodeFailed as error:
        why = f"results of the tools cannot be compared and are not used: {error.message}"
        return Look(summary, size_bytes, (), (), why)
    feeds, runs = [fed for fed, _ in pairs], [outputs for _, outputs in pairs]
    return Look(summary, size_bytes, feeds, runs, libraries=libraries)


def again(path: Path, before: Look) -> Look:
    """Look at a later form of the model, with the same feeds."""
    summary, size_bytes = _facts(path)
    try:
        session = onnxmodel.open_session(path, libraries=before.libraries) if before.feeds else None
        runs = [onnxmodel.run(session, feeds) for feeds in before.feeds]
    except NodeFailed as error:
        return Look(summary, size_bytes, before.feeds, (), error.message, before.libraries)
    return Look(summary, size_bytes, before.feeds, runs, libraries=before.libraries)


def worse(after: Look, before: Look, absolute: float, relative: float) -> str:
    """Why `after` is no improvement on `before`; empty when it is at least as good."""
    if changed := changed_outside(after, before):
        return changed
    for what, unit in (("nodes", "nodes"), ("quantize_nodes", "Q/DQ nodes")):
        old, new = before.summary[what], after.summary[what]
        if new > old or (what == "quantize_nodes" and new != old):
            return f"the graph went from {old} to {new} {unit}"
    if after.size_bytes > before.size_bytes:
        return f"the model went from {before.size_bytes} to {after.size_bytes} bytes"
    try:
        differences(after, before, absolute, relative)
    except NodeFailed as error:
        return error.message
    return "" if before.runs or _only_shapes(after, before) else "the result cannot be compared"


def changed_outside(after: Look, before: Look) -> str:
    """What of the model's inputs, outputs and axes became another; empty when a caller sees no change."""
    lost = lost_axis(before, after)
    if lost:
        return f"axis {lost[1]!r} of input {lost[0]!r} became {lost[2]}"
    for what in ("inputs", "outputs"):
        if _signature(before, what) != _signature(after, what):
            return f"the {what} changed from {_signature(before, what)} to {_signature(after, what)}"
    return ""


def differences(after: Look, before: Look, absolute: float, relative: float) -> dict[str, float]:
    """Largest differences over all runs; empty when the model could not be run at all.

    Raises:
        NodeFailed: `after` does not run where `before` did, or differs from it.
    """
    if not before.runs:
        return {}
    if after.why_not_run:
        raise NodeFailed(after.why_not_run)
    measured = [parity.assert_close(got, before.runs[i], absolute, relative) for i, got in enumerate(after.runs)]
    return {
        "parity_max_abs": max(each["max_abs"] for each in measured),
        "parity_max_rel": max(each["max_rel"] for each in measured),
    }


def lost_axis(before: Look, after: Look) -> tuple[str, str, int] | None:
    """(input, axis, size) of the first dynamic axis that became a number."""
    shapes = {each["name"]: each["shape"] or () for each in after.summary["inputs"]}
    for each in before.summary["inputs"]:
        now = shapes.get(each["name"], ())
        for i, axis in enumerate(axes(each)):
            if isinstance(axis, str) and i < len(now) and isinstance(now[i], int):
                return each["name"], axis, now[i]
    return None


def suspects(before: Look) -> str:
    """The usual reason why tools fail: outputs whose shape the file does not declare."""
    names = [each["name"] for each in before.summary["outputs"] if each["shape"] is None]
    return f" (output {', '.join(map(repr, names))} declares no shape)" if names else ""


def name_axes(model: Any) -> None:
    """Give unnamed dynamic axes of the inputs the names of `onnxmodel.axes`, so that sizes can be given."""
    named = {each["name"]: axes(each) for each in of_model(model)["inputs"]}
    for value in model.graph.input:
        for i, axis in enumerate(named.get(value.name, ())):
            dim = value.type.tensor_type.shape.dim[i]
            if isinstance(axis, str) and not dim.dim_param:
                dim.dim_param = axis


def _facts(path: Path) -> tuple[dict[str, Any], int]:
    model = onnxmodel.load(path, external_data=False)
    summary = of_model(model)
    onnxmodel.strip(model)
    del model.graph.value_info[:]
    del model.graph.output[:]
    for node in model.graph.node:
        node.ClearField("name")
    data = tensor_bytes(model)
    for tensor in tensors(model):  # whose bytes lie in the model or beside it, under names of any length
        for field in ("raw_data", "external_data", "data_location", *_TYPED):
            tensor.ClearField(field)
    return summary, model.ByteSize() + data


def _runs(
    session: Any, summary: Mapping[str, Any], fixed: Mapping[str, int]
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    first = _first_run(session, summary, list(onnxmodel.trial_sizes(summary, fixed)))
    yield first[1:]
    others = [
        {axis: onnxmodel.other_sizes(size)[i] for axis, size in first[0].items()} for i in range(2 if first[0] else 0)
    ]
    try:
        if others:
            yield _first_run(session, summary, others)[1:]
    except NodeFailed:
        return  # a foreign model may take one size only, whatever it declares


def _first_run(session: Any, summary: Mapping[str, Any], trials: Sequence[Mapping[str, int]]) -> Any:
    refused = NodeFailed("")
    for sizes in trials:
        feeds = onnxmodel.feeds(summary, sizes)
        try:
            return sizes, feeds, onnxmodel.run(session, feeds)
        except NodeFailed as error:
            refused = error
    raise refused


def _signature(found: Look, what: str) -> list[tuple[str, str]]:
    return [(each["name"], each["dtype"]) for each in found.summary[what]]


def _only_shapes(after: Look, before: Look) -> bool:
    """The tool added nothing but shapes, which no run need confirm."""
    return after.summary["operators"] == before.summary["operators"] and after.size_bytes <= before.size_bytes
