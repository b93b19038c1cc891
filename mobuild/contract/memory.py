"""Rules on the device's memory: weights, the largest tensors, workspace (M1, M2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mobuild.contract.findings import Finding
from mobuild.contract.request import Model, Request
from mobuild.errors import ConfigError
from mobuild.facts import CERTAIN
from mobuild.onnxmodel.summary import axes
from mobuild.profiles import check_shapes
from mobuild.units import parse_size

_BYTES = {"float64": 8, "int64": 8, "uint64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int16": 2}
_TIMES_SMALLER = {"fp16": 2, "bf16": 2, "int8": 4}  # than float32, at best


def engine_fits(model: Model) -> tuple[Finding, ...]:
    """M1: weights, inputs, outputs and the two largest tensors inside fit into the device, at the largest sizes."""
    memory_gib = model.request.hardware.memory_gib
    if not memory_gib:
        return ()
    weights, tensors = _weight_bytes(model), _tensor_bytes(model)
    needed_gib = (weights + tensors) / 2**30
    if needed_gib <= memory_gib:
        return ()
    parts = f"{weights / 2**30:.1f} of weights, {tensors / 2**30:.1f} of tensors at the largest shapes"
    message = f"needs at least {needed_gib:.1f} GiB ({parts}), has {memory_gib:g} GiB"
    hint = "a smaller max in shapes, a lower precision=…, or a card with more memory"
    return (Finding("M1", _severity(model.request), f"{model.request.where}, {model.where}", message, hint),)


def workspace_fits(request: Request) -> tuple[Finding, ...]:
    """M2: the workspace is smaller than the device's memory."""
    memory_gib, workspace = request.hardware.memory_gib, request.options.get("workspace")
    if not memory_gib or not workspace or parse_size(workspace, "workspace") < memory_gib * 2**30:
        return ()
    message = f"workspace {workspace} on a card of {memory_gib:g} GiB: a tactic may be chosen that does not fit there"
    return (Finding("M2", "warning", "option workspace", message, f"workspace={max(1, int(memory_gib // 2))}GiB"),)


def _severity(request: Request) -> str:
    is_sure = request.hardware.confidence in CERTAIN and "memory_gib" not in request.hardware.uncertain
    return "error" if is_sure else "warning"


def _weight_bytes(model: Model) -> float:
    """Bytes of the weights in the engine's precision, at least."""
    types: Mapping[str, int] = model.summary.get("types") or {"float32": model.summary["initializer_bytes"]}
    return sum(size / _times_smaller(model, dtype) for dtype, size in types.items())


def _times_smaller(model: Model, dtype: str) -> int:
    """How many times smaller the engine may hold what the model holds in a type.

    A lower precision comes to float32 on the way, or by flags of the builder (weak typing); where Q/DQ are in the graph
    already, the builder quantises float32 weights itself.
    """
    precision, is_weak = model.request.precision, model.request.options.get("typing") == "weak"
    is_lowered = not model.is_final or is_weak or (precision == "int8" and bool(model.summary["quantize_nodes"]))
    return _TIMES_SMALLER.get(precision, 1) if is_lowered and dtype == "float32" else 1


def _tensor_bytes(model: Model) -> float:
    """Bytes of inputs, outputs and the two largest tensors inside; what has an axis of unknown size is left out."""
    sizes = _largest_sizes(model)
    ends = [_bytes(each["dtype"], axes(each), sizes) for word in ("inputs", "outputs") for each in model.summary[word]]
    inside = sorted(
        _bytes(dtype, shape, sizes) / _times_smaller(model, dtype)
        for dtype, shape in model.summary.get("activations", ())
    )
    return sum(ends) + sum(inside[-2:])


def _largest_sizes(model: Model) -> dict[str, int]:
    found: dict[str, int] = {}
    try:
        wanted = check_shapes(model.shapes)
    except ConfigError:
        wanted = ()
    for profile in wanted:
        for axis, (_, _, high) in profile.items():
            if isinstance(high, int):  # else what an integer input holds
                found[axis] = max(high, found.get(axis, 0))
    return found


def _bytes(dtype: str, shape: Sequence[Any], sizes: Mapping[str, int]) -> int:
    total = _BYTES.get(dtype, 1)
    for axis in shape:
        total *= sizes.get(axis, 0) if isinstance(axis, str) else axis
    return total
