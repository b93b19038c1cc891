"""Rules on operators: what the builder's parser takes, and what of it (R10, O1, S1)."""

from __future__ import annotations

from collections.abc import Callable

from mobuild.contract.configuration import said, working_version
from mobuild.contract.findings import Finding, found, nodes
from mobuild.contract.request import Model
from mobuild.facts import Support, order, rtx
from mobuild.facts import operators as tensorrt

_OF_RUNTIME = ("ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview", "com.microsoft", "com.ms.internal.nhwc")
_CONTRIBUTED = {  # of ONNX Runtime, for types that came later to ONNX; the parser reads them as ONNX's own
    f"com.microsoft::{each}": each for each in ("QuantizeLinear", "DequantizeLinear")
}
_QUANTISED = ("zero_point", "integer_bias", "quantised_type")
_BRANCHES = ("recurrent_in_if", "if_ranks_input", "if_ranks_shape", "if_nested")


def operators_are_taken(model: Model) -> tuple[Finding, ...]:
    """R10: the builder has every operator, in this version."""
    findings: tuple[Finding, ...] = ()
    for name, names in model.named.items():
        answer = _answer(model, name)
        if answer.word in ("yes", "limited"):
            continue
        message = f"operator {name}: {answer.why}"
        findings += found("R10", answer, nodes(names), message, _remedy(model, name))
    return findings


def nodes_are_taken(model: Model) -> tuple[Finding, ...]:
    """O1: what the builder asks of the nodes of an operator."""
    return _signed(model, "O1", lambda sign: sign not in _QUANTISED + _BRANCHES)


def branches_are_taken(model: Model) -> tuple[Finding, ...]:
    """S1: what the builder takes in the branches of an `If`."""
    return _signed(model, "S1", lambda sign: sign in _BRANCHES)


def quantisers_are_taken(model: Model) -> tuple[Finding, ...]:
    """Q1: Q/DQ are symmetric int8, without integer biases."""
    return _signed(model, "Q1", lambda sign: sign in _QUANTISED)


_REMEDIES = {
    "O1": "export the model without it, or backend=onnxruntime",
    "S1": "fix the condition's input and simplify the model, so that one branch is left; or backend=onnxruntime",
    "Q1": "give mobuild the float model and precision=int8, or in ONNX Runtime QuantType.QInt8 with "
    "ActivationSymmetric, WeightSymmetric and QuantizeBias: False",
}


_RULES = {
    "uint8_compute": "cast to float or int32 before anything else, and back at the end; or backend=onnxruntime",
    "legacy_broadcast": "export the model with opset 13 or newer, or convert it: "
    "onnx.version_converter.convert_version(model, 13)",
    "scatter_reduction": "one that adds can be rewritten, with nodes: {rewritten: {kind: rewrite, "
    "rules: [scatter_add]}, sanitized: {needs: {model: rewritten}}}; or backend=onnxruntime",
}


def _signed(model: Model, code: str, is_ours: Callable[[str], bool]) -> tuple[Finding, ...]:
    request = model.request
    if not request.is_tensorrt:
        return ()
    findings: tuple[Finding, ...] = ()
    for sign, signed in model.signs.items():
        if not is_ours(sign):
            continue
        look_up = rtx.signed if request.backend == rtx.PRODUCT else tensorrt.signed
        answer = look_up(sign, request.version)
        details = "; ".join(dict.fromkeys(signed.values()))
        remedy = _RULES.get(sign, _REMEDIES[code])
        findings += found(code, answer, nodes(signed), f"{request.product}: {answer.why}; found {details}", remedy)
    return findings


def _answer(model: Model, name: str) -> Support:
    request, domain = model.request, name.rpartition("::")[0]
    if name.rpartition("::")[2] in request.machine.plugins or (domain and request.libraries):
        return Support("yes")  # whoever loads the library will know whether it has it
    if request.backend == "onnxruntime":
        known = not domain or domain.startswith(_OF_RUNTIME)
        return Support("yes") if known else Support("no", f"ONNX Runtime has no domain {domain!r} of its own")
    if not request.is_tensorrt:
        return Support("yes")
    if domain and name not in _CONTRIBUTED:
        return Support("no", f"{request.product} takes domain {domain!r} by a plugin alone")
    if name.endswith("_TRT"):
        return Support("unverified", "needs TensorRT's plugin library")
    look_up = rtx.operator if request.backend == rtx.PRODUCT else tensorrt.operator
    return look_up(_CONTRIBUTED.get(name, name), request.version)


def _remedy(model: Model, name: str) -> str:
    first = tensorrt.first_with(name) if model.request.backend == "tensorrt" else ""
    newer = working_version(model.request, lambda each: order(each.version) >= order(first)) if first else ""
    if newer:
        return f"{said(newer)}: TensorRT {first} is the first that has it"
    domain, _, plugin = name.rpartition("::")
    is_rtx = model.request.backend == rtx.PRODUCT  # whose parser has less
    other = tensorrt.taken_from(name) if is_rtx else ""
    other = f"{other}: backend=tensorrt; or " if other else ""
    if domain or not model.request.is_tensorrt:
        key = "plugins" if model.request.is_tensorrt else "libraries"
        own = f"name the node that makes the library with it: {key}: {{NAME: NODE}}"
        return f"{other}{own}; or export the model without it"
    own = f"export the model without it, or say that a plugin has it: check.plugins=[{plugin}]"
    return f"{other}{own}; or backend=onnxruntime"
