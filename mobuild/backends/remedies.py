"""What to do about a builder's refusal: its words, and the remedy, in the order in which they are tried.

Every pattern was seen in a real failure of TensorRT-RTX 1.7.1. Tests provoke each with a small network, but
for the assertion on scopes: nested `If`s over a whole model of megabytes fail with it, small ones build.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Remedy:
    """`hint` is for messages in which `pattern`, a regular expression, is found."""

    pattern: str
    hint: str


REMEDIES = (
    Remedy(
        r"Turing \(SM75\): FP32 GEMM is not supported",
        "Turing has no fp32 matrix product in TensorRT-RTX: build a model of float16 (precision=fp16),\n"
        "or for a card of compute capability 8.0 or newer (hardware=l4)",
    ),
    Remedy(
        r"HW-specific datatypes: b16",
        "Turing has no bfloat16: precision=fp16, or a card of compute capability 8.0 or newer (hardware=l4)",
    ),
    Remedy(
        r"OutOfMemory|within workspace limit",
        "give the builder more scratch memory: workspace=4GiB",
    ),
    Remedy(
        r"no optimization profile has been defined",
        "give every dynamic axis its sizes: shapes.batch=[1,8,32]",
    ),
    Remedy(
        r"Invalid optimization profiles for input|missing dimensions in profile",
        "give every dynamic axis its sizes in rising order: shapes.batch=[1,8,32]",
    ),
    Remedy(
        r"Must have inputs with equal ranks when condition is not a build-time constant",
        "the branches of an `If` return tensors of different rank: export the model without that branch,\n"
        "or use backend=onnxruntime",
    ),
    Remedy(
        r"tScope\.getType\(\) != ScopeType::kUNDEFINED",
        "the builder cannot compile an `If` of this model: export the model without that branch,\n"
        "or use backend=onnxruntime",
    ),
    Remedy(
        r"libnvinfer_lean",
        "VERSION_COMPATIBLE needs the lean runtime, which is not installed: add EXCLUDE_LEAN_RUNTIME: true\n"
        "to raw, or leave both out",
    ),
    Remedy(
        r"CHECK\(status == CUDA_SUCCESS\) failed",
        "REFIT, REFIT_IDENTICAL and STRIP_PLAN need a GPU while building: leave them out of raw,\n"
        "or build on a machine with one",
    ),
    Remedy(
        r"UNSUPPORTED_NODE",
        "the builder has no such operator: export the model without it, or use backend=onnxruntime",
    ),
    Remedy(
        r"MODEL_DESERIALIZE_FAILED",
        "the ONNX file is damaged or of another format; fetch or export it again",
    ),
)


def remedy(words: str) -> str:
    """The hint of the first remedy for a builder's message; empty when none is known."""
    return next((each.hint for each in REMEDIES if re.search(each.pattern, words)), "")
