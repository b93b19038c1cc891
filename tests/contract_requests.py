"""Requests and a plain model for the rules, and what rules say of them in short."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mobuild.contract.rules import Model, Request, check, check_model
from tests.projects import hardware

RTX = Request(hardware("l4"), "tensorrt_rtx", "1.7.1.116")
TENSORRT = Request(hardware("l4"), "tensorrt", "10.16")
SAME_CC = {"hardware_compatibility": "same_compute_capability"}
SAME = {"raw": {"hardware_compatibility_level": "SAME_COMPUTE_CAPABILITY"}}
COMPATIBLE = {"raw": {"VERSION_COMPATIBLE": True}}
RUNTIME = Request(hardware("cpu"), "onnxruntime", "1.32.0")
SUMMARY: Mapping[str, Any] = {
    "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 8]}],
    "outputs": [{"name": "y", "dtype": "float32", "shape": ["batch", 4]}],
    "opsets": {"ai.onnx": 18},
    "ir_version": 10,
    "nodes": 1,
    "operators": {"MatMul": 1},
    "initializer_bytes": 128,
    "dynamic_axes": ["batch"],
    "quantize_nodes": 0,
    "external_data": False,
    "ranges": {},
    "functions": 0,
    "named": {},
    "signs": {},
    "types": {"float32": 128},
    "embeddings": {},
    "activations": [],
}
SHAPES = {"batch": [1, 4, 16]}


def on_card(name: str, **fields: Any) -> Request:
    return Request(hardware(name), fields.pop("backend", "tensorrt"), fields.pop("version", "10.16"), **fields)


def said(request: Request) -> list[tuple[str, str]]:
    return [(each.code, each.severity) for each in check(request)]


def said_of(request: Request, summary: Mapping[str, Any] | None = None, **fields: Any) -> list[tuple[str, str]]:
    model = Model(request, {**SUMMARY, **(summary or {})}, "quantized", shapes=fields.pop("shapes", SHAPES), **fields)
    return [(each.code, each.severity) for each in check_model(model)]
