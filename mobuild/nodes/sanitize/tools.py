"""The tools that make graphs smaller, each as a function from one model to another.

onnxsim runs in a process of its own: it is native code that aborts on some graphs, and this kind shares
its process with others. (Without it the import of torch, which onnxsim does when it can, is saved too.)
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mobuild
from mobuild import onnxmodel
from mobuild.errors import NodeFailed
from mobuild.onnxmodel.files import EXTERNAL_BYTES, save_beside, tensor_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    Tool = Callable[[Path, Path, Mapping[str, Any]], None]


def infer_shapes(source: Path, out: Path, options: Mapping[str, Any]) -> None:
    """Add the shapes of all tensors; external data need not be read for this."""
    import onnx

    model = onnxmodel.load(source, external_data=False)
    save_beside(onnx.shape_inference.infer_shapes(model, data_prop=True), source, out)


def fold(source: Path, out: Path, options: Mapping[str, Any]) -> None:
    """Evaluate what is constant, with Polygraphy.

    Raises:
        NodeFailed: the tensors exceed what one message can hold; Polygraphy works in memory.
    """
    size_gib = tensor_bytes(onnxmodel.load(source, external_data=False)) / (1 << 30)
    if size_gib * (1 << 30) > EXTERNAL_BYTES:
        raise NodeFailed(f"{size_gib:.1f} GiB of tensors exceed what it folds (1.5 GiB)")
    from polygraphy.backend.onnx import fold_constants
    from polygraphy.logger import G_LOGGER

    with G_LOGGER.verbosity(G_LOGGER.ERROR):
        model = fold_constants(onnxmodel.load(source), **{**_FOLD, **options})
    onnxmodel.save(model, out)


def simplify(source: Path, out: Path, options: Mapping[str, Any]) -> None:
    """Simplify with onnxsim, in a child.

    Raises:
        NodeFailed: the child failed or died; its last line, or the signal.
    """
    root = str(Path(mobuild.__file__).parents[1])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    words = [sys.executable, "-W", "ignore", "-m", "mobuild.nodes.sanitize.simplify"]
    done = subprocess.run(
        [*words, str(onnxmodel.model_file(source)), str(out), json.dumps(options)],
        capture_output=True,
        text=True,
        errors="replace",
        env={**os.environ, "PYTHONPATH": path},
    )
    if done.returncode:
        print(done.stdout + done.stderr, file=sys.stderr)
        raise NodeFailed(_reason(done.returncode, done.stderr))


TOOLS: dict[str, Tool] = {"shape inference": infer_shapes, "polygraphy": fold, "onnxsim": simplify}
OPTIONED = ("polygraphy", "onnxsim")
# ONNX Runtime's symbolic shape inference imports torch and sympy (2.7 s); onnx's own has run before.
_FOLD = {"error_ok": False, "allow_onnxruntime_shape_inference": False}


def attempt(tool: Tool, source: Path, out: Path, options: Mapping[str, Any]) -> str:
    """Run `tool`; what went wrong in its own words, or an empty string."""
    try:
        tool(source, out, options)
    except Exception as error:  # noqa: BLE001 - whatever a tool raises, the graph before it is good
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        said = lines[0][:300] if lines else ""
        return said if isinstance(error, NodeFailed) else f"failed with {type(error).__name__}: {said}"
    return ""


def _reason(status: int, stderr: str) -> str:
    if status < 0:
        return f"died of {signal.Signals(-status).name}"
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return f"failed with {lines[-1][:300]}" if lines else f"failed with status {status}"
