"""Runs an ONNX model in ONNX Runtime on the CPU: the judge of every proof about an ONNX file.

Engines are run by `runtime.runner`; this is for models on their way there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mobuild.engine_errors import runtime_errors
from mobuild.errors import NodeFailed
from mobuild.onnxmodel.files import model_file
from mobuild.runtime.onnxruntime import register

_NODE_NAME = re.compile(r"Name:'([^']*)'")
_PREFIX = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")


def open_session(path: Path, optimized: bool = False, libraries: Iterable[Path] = ()) -> Any:
    """An `onnxruntime.InferenceSession` of the artifact, without graph optimisations unless asked for.

    `libraries` hold the custom operators of the model.

    Raises:
        NodeFailed: ONNX Runtime does not load it or a library, in its own words.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 3
    level = ort.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_EXTENDED if optimized else level.ORT_DISABLE_ALL
    file = model_file(path)
    with runtime_errors():
        register(ort, options, libraries)
    try:
        return ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its classes share no base but Exception
        raise NodeFailed(f"ONNX Runtime does not load {file.name!r}: {_words(error)}") from error


def run(session: Any, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Outputs by name.

    Raises:
        NodeFailed: the run fails; the message names the ONNX node where ONNX Runtime does.
    """
    names = [each.name for each in session.get_outputs()]
    try:
        outputs = session.run(names, dict(feeds))
    except Exception as error:  # its classes share no base but Exception
        node = _NODE_NAME.search(str(error))
        where = f" in node {node.group(1)!r}" if node else ""
        raise NodeFailed(f"ONNX Runtime fails{where}: {_words(error)}") from error
    return {name: outputs[i] for i, name in enumerate(names)}


def _words(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return _PREFIX.sub("", lines[0])[:400] if lines else type(error).__name__
