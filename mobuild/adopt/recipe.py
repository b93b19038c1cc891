"""The recipe as text: what the line says as keys, each with the flag that said it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_PLAIN = re.compile(r"[A-Za-z_][\w./-]*")
_WORDS = ("true", "false", "null", "yes", "no", "on", "off", "y", "n")
_WIDTH = 46  # of a key and its value, where its comment begins
_BUILDERS = {
    "tensorrt": "[tensorrt, onnxruntime]",  # of a GPU, TensorRT as in the line; of a CPU, ONNX Runtime
    "tensorrt_rtx": "[tensorrt_rtx, onnxruntime]",
}


@dataclass(frozen=True)
class Content:
    """What a recipe says. `nodes` are fields by node beside the model's, `options` those of the backend `product`;
    `command` is the line with `{in.model}` and `{out}` in it."""

    name: str
    line: str
    version: str
    target: str
    model: str
    command: str = ""
    product: str = ""  # empty: the line builds no engine
    precision: str = "fp32"
    is_weak: bool = False
    workspace: str = ""
    shapes: Sequence[Mapping[str, Any]] = ()
    nodes: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    lacks_samples: bool = False
    is_lossy: bool = False
    hardware: str = "l4"


def text(content: Content) -> str:
    return "\n".join(_lines(content)) + "\n"


def flow(value: Any) -> str:
    """A value as YAML in one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow(str(key))}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, str):
        is_plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
        return value if is_plain else json.dumps(value.replace("${", "\\${"), ensure_ascii=False)
    return json.dumps(value)


def _lines(content: Content) -> Iterator[str]:
    yield "# @package _global_"
    yield f"# Adopted from a line{f' for TensorRT {content.version}' if content.product == 'tensorrt' else ''}:"
    yield f"#   {' '.join(content.line.split())}"
    yield f"# Build it:  mobuild {f'hardware={content.hardware} ' * bool(content.product)}recipe={content.name}"
    yield "defaults:"
    yield _noted("  - /recipe/standard", "weights → onnx → sanitized → quantized → engine")
    if content.precision != "fp32":
        yield f"  - override /precision: {content.precision}"
    yield "  - _self_"
    if content.target != "engine":
        yield f"target: {content.target}"
    yield "nodes:"
    yield f"  onnx: {{kind: source, uri: {flow(content.model)}}}"
    yield from _nodes(content)
    if content.shapes:
        value = content.shapes[0] if len(content.shapes) == 1 else list(content.shapes)
        yield _noted(f"shapes: {flow(value)}", "by axis: one size, or min, opt, max")
    if content.product:
        yield from _builder(content)


def _nodes(content: Content) -> Iterator[str]:
    for name, fields in content.nodes.items():
        yield f"  {name}: {flow(fields)}"
    if content.is_weak:
        yield _noted("  engine: {needs: {model: onnx}}", "flags allow lower types, so the graph is left as it is")
    if content.lacks_samples or (content.precision == "int8" and content.target == "quantized"):
        yield "  # int8 needs samples; formats in mobuild's recipes/README.md"
        yield f'  # calibration: {{data: {{images: calibration/, transform: "{content.name}.py:preprocess"}}}}'
    if content.is_lossy:
        yield "  # The line as it is, where a flag that no key carries matters:"
        quoted = json.dumps(" ".join(content.command.split()), ensure_ascii=False)
        yield f"  # engine: {{kind: command, cmd: {quoted}, needs: {{model: onnx}}, out: .plan}}"


def _builder(content: Content) -> Iterator[str]:
    if content.workspace:
        yield f"workspace: {content.workspace}"
    yield _noted(f"builders: {_BUILDERS[content.product]}", "what backend=auto takes: the first that the hardware has")
    if content.options:
        yield "backend:"
        yield _noted(f"  {content.product}:", "options for that backend alone")
        for name, value in content.options.items():
            yield f"    {name}: {flow(value)}"


def _noted(words: str, comment: str) -> str:
    return f"{words.ljust(_WIDTH - 1)} # {comment}"
