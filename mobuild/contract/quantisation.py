"""Rules on quantisation (Q2); what single Q/DQ nodes are like is among the operators' rules."""

from __future__ import annotations

from mobuild.contract.findings import Finding
from mobuild.contract.request import Model


def something_is_quantised(model: Model) -> tuple[Finding, ...]:
    """Q2: an int8 engine is built of a graph with Q nodes."""
    is_weak = model.request.options.get("typing") == "weak"  # precision is the builder's, and not the graph's
    if model.request.precision != "int8" or not model.is_final or model.summary["quantize_nodes"] or is_weak:
        return ()
    if any("Integer" in name or "QLinear" in name or "Quantize" in name for name in model.named):
        return ()
    message = "precision int8: the model holds no Q node, so nothing of the engine would be int8"
    return (Finding("Q2", "error", model.where, message, "build it of 'quantized': needs: {model: quantized}"),)
