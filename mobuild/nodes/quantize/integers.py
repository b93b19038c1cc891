"""INT8 by ONNX Runtime's quantisers: Q/DQ from stored ranges, or weights alone with ranges found at run time.

What is written is what TensorRT takes as well: symmetric, zero point 0, no int32 bias.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mobuild.errors import NodeFailed, did_you_mean
from mobuild.nodes.quantize.ranges import assert_known
from mobuild.onnxmodel.walk import captured, nodes, subgraphs

_NO_OUTPUT_QUANTISATION = ["MatMul", "Gemm"]
# Ranges of their outputs are wide (48–195 in a small transformer), and a step of such a range loses what
# follows: cosine 0.81 with them, 0.98 without.


def static(
    model: Any,
    ranges: Mapping[str, tuple[float, float]],
    operators: Sequence[str],
    excluded: Sequence[str],
    **how: Any,
) -> Any:
    """The model with Q/DQ around `operators`, by name without `excluded`.

    `how`: `per_channel`, `outputs_quantized`, `stores_integers`, and `raw`, further options of ONNX Runtime.

    Raises:
        NodeFailed: a tensor has no range, or the quantiser fails.
    """
    import numpy as np

    _prepare_onnxruntime()
    from onnxruntime.quantization import QuantType
    from onnxruntime.quantization.calibrate import CalibrationMethod, TensorsData
    from onnxruntime.quantization.qdq_quantizer import QDQQuantizer

    assert_known(_activations(model, operators, excluded, how["outputs_quantized"]), ranges)
    limits = {name: tuple(np.array(each, np.float32) for each in pair) for name, pair in sorted(ranges.items())}
    options = {
        "ActivationSymmetric": True,
        "WeightSymmetric": True,
        "QuantizeBias": False,
        "AddQDQPairToWeight": not how["stores_integers"],
        "OpTypesToExcludeOutputQuantization": [] if how["outputs_quantized"] else _NO_OUTPUT_QUANTISATION,
        **how["raw"],
    }
    quantizer = QDQQuantizer(
        model,
        how["per_channel"],
        False,  # the reduced range is for CPUs without VNNI
        QuantType.QInt8,
        QuantType.QInt8,
        TensorsData(CalibrationMethod.MinMax, limits),
        [],
        list(excluded),
        list(operators),
        options,
    )
    try:
        quantizer.quantize_model()
    except (ValueError, RuntimeError, KeyError, IndexError) as error:
        raise NodeFailed(f"ONNX Runtime's quantiser fails: {error}", "exclude the node that it names") from error
    _sort_nodes(quantizer.model.model.graph)
    return quantizer.model.model


def dynamic(model: Any, operators: Sequence[str], excluded: Sequence[str], per_channel: bool, scratch: Path) -> Any:
    """The model with int8 weights, whose activations are quantised at run time."""
    import onnx

    _prepare_onnxruntime()
    from onnxruntime.quantization import QuantType, quantize_dynamic

    out = scratch / "dynamic.onnx"
    quantize_dynamic(
        model,
        str(out),
        op_types_to_quantize=[each for each in operators if each != "Conv"],  # ConvInteger has no int8 kernel
        per_channel=per_channel,
        weight_type=QuantType.QInt8,
        nodes_to_exclude=list(excluded),
    )
    return onnx.load(str(out))


def name_nodes(model: Any) -> None:
    """Give nameless nodes a name after their output: quantisers and exclusions go by name."""
    for node in nodes(model):
        if not node.name and node.output:
            node.name = f"{node.op_type}_{node.output[0]}"


def excluded_nodes(model: Any, patterns: Sequence[str], operators: Sequence[str]) -> list[str]:
    """Names of the nodes that `patterns` (names, or fnmatch patterns of names) match.

    Raises:
        NodeFailed: a pattern matches no node.
    """
    names = [node.name for node in model.graph.node]
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            known = [node.name for node in model.graph.node if node.op_type in operators]
            raise NodeFailed(
                f"exclude: {pattern!r} matches no node.{did_you_mean(pattern, names)}",
                f"nodes that are quantised: {_some(known)}",
            )
    return [name for name in names if any(fnmatch.fnmatchcase(name, each) for each in patterns)]


def why_none(model: Any, operators: Sequence[str], excluded: Sequence[str]) -> str:
    """Why the quantiser found nothing to do: where the operators are, if anywhere."""
    outer = [node.name for node in model.graph.node if node.op_type in operators]
    inner = sum(node.op_type in operators for node in nodes(model)) - len(outer)
    kinds = ", ".join(operators)
    if inner:
        owners = sorted({node.op_type for node in model.graph.node if subgraphs([node])})
        return f"all {inner} nodes of {kinds} are inside {', '.join(owners)}, where the quantiser does not look"
    if outer:
        return f"{len(set(excluded) & set(outer))} of the {len(outer)} nodes of {kinds} are excluded"
    return f"the graph has no node of {kinds}"


def _activations(model: Any, operators: Sequence[str], excluded: Sequence[str], outputs: bool) -> Iterator[str]:
    """Float tensors that the quantiser will ask a range for, as they come."""
    constants = {each.name for each in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type not in operators or node.name in excluded:
            continue
        given = node.input if node.op_type == "MatMul" else node.input[:1]
        yield from (name for name in given if name not in constants)
        if outputs or node.op_type not in _NO_OUTPUT_QUANTISATION:
            yield from node.output[:1]


def _sort_nodes(graph: Any) -> None:
    """Put makers before users, as ONNX demands; ONNX Runtime's quantiser appends what it adds at the end."""
    makers = {name: i for i, node in enumerate(graph.node) for name in node.output if name}
    order: dict[int, None] = {}
    for last in range(len(graph.node)):
        waiting = [last]
        while waiting:
            i = waiting[-1]
            node = graph.node[i]
            before = {makers[name] for name in (*node.input, *captured([node])) if name in makers} - {i}
            missing = sorted(before.difference(order), reverse=True)
            waiting += missing
            if not missing:
                order[waiting.pop()] = None
    ordered = [graph.node[i] for i in order]
    del graph.node[:]
    graph.node.extend(ordered)


def _prepare_onnxruntime() -> None:
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def _some(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "") or "none"
