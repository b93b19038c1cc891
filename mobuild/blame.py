"""Says whose fault an exception in a node is, in words that help: the type, the text, the user's lines.

The whole traceback goes to the log; a message keeps only the frames of the user's own code.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from pathlib import Path
from typing import Sequence

from mobuild.distributions import installed, normalized
from mobuild.errors import MobuildError, NodeFailed, ToolchainError
from mobuild.firstparty import is_first_party
from mobuild.remedies import remedy

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")  # ECMA-48

_LONGEST = 1000  # characters in a line

PACKAGES = {  # module → what pip calls it, where the names differ
    "cv2": "opencv-python-headless",
    "PIL": "pillow",
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "yaml": "pyyaml",
    "onnx_graphsurgeon": "onnx-graphsurgeon",
    "tensorrt_rtx": "tensorrt-rtx-cu13",
}
EXTRAS = {  # module → the extra of mobuild that brings it
    "torch": "export",
    "onnxscript": "export",
    "onnx": "onnx",
    "numpy": "onnx",
    "onnxsim": "onnx",
    "polygraphy": "onnx",
    "onnx_graphsurgeon": "onnx",
    "onnxruntime": "onnxruntime",
    "tensorrt_rtx": "tensorrt-rtx",
    "safetensors": "recipes",
    "tokenizers": "recipes",
}


def translate(error: BaseException, node: str, tools: Sequence[str] = (), kind: str = "") -> MobuildError:
    """`error` as one of mobuild's own, its message beginning with the node's name.

    `tools` are the distributions that the node, which is of `kind`, needs, so that all which are missing are named at
    once.
    """
    if isinstance(error, MobuildError):
        return type(error)(_named(node, error.message), _clipped(plain(error.hint)), error.log)
    if isinstance(error, SystemExit):
        return NodeFailed(
            _named(node, f"its code called sys.exit({error.code!r})" + _frames(error)),
            "a function that a node calls has to return",
        )
    if isinstance(error, ModuleNotFoundError) and error.name and _is_missing(error.name):
        return _missing_package(error, error.name.partition(".")[0], node, tools, kind)
    return NodeFailed(_named(node, f"{type(error).__name__}: {error}" + _frames(error)), remedy(plain(str(error))))


def plain(text: str) -> str:
    """`text` without the escape sequences of terminals."""
    return _ANSI.sub("", text)


def _named(node: str, message: str) -> str:
    message = plain(message)
    message, where = _clipped(message), f"node {node!r}"
    return message if where in message.partition("\n")[0] else f"{where}: {message}"


def _clipped(text: str) -> str:
    """Messages are for reading: the end of a very long line is left to the log."""
    return "\n".join(
        line if len(line) <= _LONGEST else f"{line[:_LONGEST]} … (the rest is in the log)" for line in text.split("\n")
    )


def _frames(error: BaseException) -> str:
    """`file:line in function` for each frame of the user's, the nearest to the error last."""
    lines: list[str] = []
    for frame in traceback.extract_tb(error.__traceback__):
        # Compiled code names the source that it was made of, which is nowhere here.
        if is_first_party(frame.filename) and Path(frame.filename).exists():
            lines.append(f"\n  {os.path.relpath(frame.filename)}:{frame.lineno} in {frame.name}")
    return "".join(lines)


def _missing_package(error: BaseException, module: str, node: str, tools: Sequence[str], kind: str) -> ToolchainError:
    hint = f"install it: {sys.executable} -m pip install {_to_install(module, tools)}"
    if "mobuild" in installed(sys.path) and kind and PACKAGES.get(module, module) not in map(normalized, tools):
        hint = f"{hint}\n{_elsewhere(kind)}"
    message = f"needs the module {module!r}, which {sys.executable} does not have" + _frames(error)
    return ToolchainError(_named(node, message), hint)


def _elsewhere(kind: str) -> str:
    """How a node whose code wants what mobuild's own Python lacks comes to another one."""
    of_kind = f" (or toolchain.{kind}.python=)" if "." not in kind else ""
    return (
        f"or run the node where it is installed: python: ./venv/bin/python at the node{of_kind};\n"
        "toolchain.python alone holds for exports, commands and kinds of your own"
    )


def _to_install(module: str, tools: Sequence[str]) -> str:
    """What to ask pip for: an extra in mobuild's own environment, packages in another."""
    package, there = PACKAGES.get(module, module), installed(sys.path)
    if package not in map(normalized, tools):
        return package  # of the user's code: no extra brings it
    if "mobuild" in there and module in EXTRAS:
        return f"'mobuild[{EXTRAS[module]}]'"
    return " ".join(tool for tool in tools if normalized(tool) not in there)


def _is_missing(module: str) -> bool:
    """Whether the top-level package is not there at all; else only a part of it is not found."""
    from importlib.util import find_spec

    top = module.partition(".")[0]
    return top not in sys.modules and find_spec(top) is None
