"""What the parser of TensorRT-RTX itself says of a model: the last word, where it is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mobuild.contract.findings import Finding
from mobuild.facts.operators import taken_from

_RTX = "tensorrt_rtx"
_SECONDS = 300
_ASK = """
import json, sys
import tensorrt_rtx as trt
logger = trt.Logger(trt.Logger.INTERNAL_ERROR)
network = trt.Builder(logger).create_network(0)
parser = trt.OnnxParser(network, logger)
parser.parse_from_file(sys.argv[1])
errors = [parser.get_error(i) for i in range(parser.num_errors)]
found = [[one.node_name(), one.node_operator(), " ".join(one.desc().split())] for one in errors]
print("\\n" + json.dumps({"version": trt.__version__, "errors": found}))
"""


def refusals(node: Any, model: Path) -> Iterator[Finding]:
    """N2: what the parser refuses of a model, asked in a process of its own, for engines of TensorRT-RTX alone."""
    if node.backend.name != _RTX:
        return
    file = next(iter(sorted(model.glob("*.onnx"))), model) if model.is_dir() else model
    try:
        done = subprocess.run([sys.executable, "-c", _ASK, str(file)], capture_output=True, text=True, timeout=_SECONDS)
        answer = json.loads(done.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError, subprocess.TimeoutExpired):
        message = "the parser of TensorRT-RTX cannot be asked: it is not installed, or it ended without an answer"
        yield Finding("N2", "warning", "check.parser", message, "pip install 'mobuild[tensorrt-rtx]'")
        return
    for name, operator, words in answer["errors"]:
        where = f"node {name!r}" if name else f"operator {operator}" if operator else f"model '{file}'"
        message = f"the parser of TensorRT-RTX {answer['version']} refuses it: {words}"
        taken = taken_from(operator)
        yield Finding("N2", "error", where, message, f"{taken}: backend=tensorrt" if taken else "")
