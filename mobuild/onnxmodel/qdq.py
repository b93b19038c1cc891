"""What is quantised in an ONNX model, and whether TensorRT's parsers take it.

TensorRT reads QuantizeLinear and DequantizeLinear as symmetric int8: zero points are 0, and what is
dequantised is int8, not an int32 bias (TensorRT operator reference, QuantizeLinear and DequantizeLinear). The
defaults of common tools are neither, and the parser's own words name no node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from mobuild.errors import NodeFailed
from mobuild.onnxmodel.files import size_bytes
from mobuild.onnxmodel.walk import node_name, nodes, operator, tensors, type_name

QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
INTEGER = frozenset(
    (
        "QLinearConv",
        "QLinearMatMul",
        "MatMulInteger",
        "ConvInteger",
        "DynamicQuantizeLinear",
        "com.microsoft::QGemm",
        "com.microsoft::QLinearAdd",
        "com.microsoft::MatMulIntegerToFloat",
        "com.microsoft::DynamicQuantizeMatMul",
        "com.microsoft::QLinearConv",
        "com.microsoft::QAttention",
        "com.microsoft::DynamicQuantizeLSTM",
    )
)
"""Operators that compute in integers; the builder's own fusions among them."""
_PLUMBING = frozenset(
    (
        "Cast",
        "Constant",
        "ConstantOfShape",
        "Concat",
        "Expand",
        "Flatten",
        "Gather",
        "Identity",
        "Range",
        "Reshape",
        "Shape",
        "Slice",
        "Split",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
        "Where",
        "Equal",
        "Not",
        "And",
        "Or",
        "Less",
        "Greater",
    )
)
_TAKEN = ("INT8", "FLOAT8E4M3FN", "INT4", "FLOAT4E2M1")


def is_quantized(summary: Mapping[str, Any]) -> bool:
    """Whether a model of this summary holds anything quantised, in any form."""
    return bool(summary["quantize_nodes"] or INTEGER.intersection(summary["operators"]))


def assert_symmetric(model: Any, product: str = "TensorRT") -> None:
    """Refuse what TensorRT's parsers refuse, all of it at once and by name.

    Raises:
        NodeFailed: a zero point that is not 0, a type other than int8, or integer operators; names the nodes.
    """
    found: dict[str, list[str]] = {}
    for kind, name, words in refused(model):
        found.setdefault(kind, []).append(f"node {name!r} {words}")
    if found:
        told = [each[0] + (f" (and {len(each) - 1} like it)" if len(each) > 1 else "") for each in found.values()]
        raise NodeFailed(
            f"{product} takes symmetric int8 alone: {'; '.join(told)}",
            "quantise with zero point 0 and without biases: give mobuild the float model and precision=int8,\n"
            "or in ONNX Runtime QuantType.QInt8 with ActivationSymmetric, WeightSymmetric and QuantizeBias: False;\n"
            "backend=onnxruntime takes the model as it is",
        )


def counts(model: Any) -> dict[str, Any]:
    """How far the model is quantised: Q and DQ nodes, the share of its weights, and what computes in floats."""
    operators = Counter(operator(node) for node in nodes(model))
    quantised, total = _weight_bytes(model)
    return {
        "quantize_nodes": operators[QUANTIZE],
        "dequantize_nodes": operators[DEQUANTIZE],
        "integer_operators": {name: operators[name] for name in sorted(INTEGER.intersection(operators))},
        "quantised_weights": round(quantised / total, 4) if total else 0.0,
        "float_operators": _float_operators(model),
    }


def refused(model: Any) -> Iterator[tuple[str, str, str]]:
    """(kind of fault, node, what it does): `zero`, `bias`, `integer …` for an operator, else the type.

    What lies in external data that was not loaded is not judged, nor is a zero point that other nodes make.
    """
    from onnx import numpy_helper

    constants = _constants(model)
    for node in nodes(model):
        name = node_name(node)
        if operator(node) in INTEGER:
            yield f"integer {operator(node)}", name, f"({operator(node)}) computes in integers"
        if node.op_type not in (QUANTIZE, DEQUANTIZE):
            continue
        point = constants.get(node.input[2]) if len(node.input) > 2 else None
        data = constants.get(node.input[0]) if node.op_type == DEQUANTIZE else None
        typed = point or data
        number = typed.data_type if typed else _output_type(node)
        kind = type_name(number) if number else ""
        if kind == "INT32":
            yield "bias", name, f"dequantises {node.input[0]!r} of int32, a bias"
        elif _is_read(point, kind) and (zeros := numpy_helper.to_array(point)).any():
            yield "zero", name, f"has zero point {int(zeros.ravel()[abs(zeros.astype(int)).argmax()])}, not 0"
        elif kind and kind not in _TAKEN:
            yield kind, name, f"is of {kind.lower()}"
        elif node.op_type == QUANTIZE and not kind and not any(node.input[2:]):
            yield "none", name, "has no zero point, which means uint8"


def _is_read(point: Any, kind: str) -> bool:
    """Whether a zero point is of whole numbers that are here."""
    return kind in ("INT8", "UINT8", "INT16", "UINT16") and bool(point) and point.data_location != point.EXTERNAL


def _output_type(node: Any) -> int:
    """The type that a QuantizeLinear without a zero point asks for; 0 when it asks for none."""
    if node.op_type != QUANTIZE:
        return 0  # of a DequantizeLinear, it is that of the floats
    return next((int(each.i) for each in node.attribute if each.name == "output_dtype"), 0)


def _constants(model: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for node in nodes(model):
        if node.op_type == "Constant" and node.output:
            found.update((node.output[0], each.t) for each in node.attribute if each.HasField("t"))
    found.update((tensor.name, tensor) for tensor in tensors(model) if tensor.name)
    return found


def _weight_bytes(model: Any) -> tuple[int, int]:
    """(bytes of quantised weights, bytes of all weights), both as if they were float32."""
    constants = {each.name: each for each in model.graph.initializer}
    takers: dict[str, list[Any]] = {}
    for node in nodes(model):
        for i, name in enumerate(node.input):
            if name in constants:
                takers.setdefault(name, []).append((node, i))
    quantised = total = 0
    for name, used in takers.items():
        tensor = constants[name]
        is_scale = any(node.op_type in (QUANTIZE, DEQUANTIZE) and i > 0 for node, i in used)
        if is_scale or not tensor.dims or tensor.data_type not in _WEIGHTS:
            continue
        elements = size_bytes(tensor) * 4 // _WEIGHTS[tensor.data_type]
        total += elements
        if any(node.op_type in (QUANTIZE, DEQUANTIZE) or operator(node) in INTEGER for node, _ in used):
            quantised += elements
    return quantised, total


_WEIGHTS = {1: 4, 2: 1, 3: 1, 10: 2, 16: 2}  # FLOAT, UINT8, INT8, FLOAT16, BFLOAT16 → bytes of an element


def _float_operators(model: Any) -> dict[str, int]:
    """Operators that read no quantised tensor, by type; what only moves data is left out."""
    quantised = {name for node in nodes(model) if node.op_type == DEQUANTIZE for name in node.output}
    cast = {
        name
        for node in nodes(model)
        if node.op_type == "Cast" and quantised.intersection(node.input)
        for name in node.output
    }
    skipped = {QUANTIZE, DEQUANTIZE} | _PLUMBING | INTEGER
    found: Counter[str] = Counter(
        operator(node)
        for node in nodes(model)
        if operator(node) not in skipped and not (quantised | cast).intersection(node.input)
    )
    return dict(sorted(found.items()))
