"""The recipe that begins at an ONNX file: its inputs, their ranges and sizes, as the file has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mobuild import onnxmodel
from mobuild.adopt.recipe import flow
from mobuild.errors import ToolchainError
from mobuild.onnxmodel.summary import axes
from mobuild.starting.recipe import Content, noted, plain
from mobuild.starting.tensors import Input

_MASK = (0, 1)


def is_one(path: Path) -> bool:
    """Whether it is an ONNX file by its name, or a folder with one and its external data."""
    return len(list(path.glob("*.onnx"))) == 1 if path.is_dir() else path.suffix.lower() == ".onnx"


def content(file: Path, name: str, uri: str) -> Content:
    """The recipe for the model in `file`, which it knows as `uri`.

    Raises:
        NodeFailed: the file is no model that can be read.
        ToolchainError: the library that reads it is not here.
    """
    try:
        summary = onnxmodel.summary(file)
    except ModuleNotFoundError as error:
        raise ToolchainError(
            f"init: the model is read with {error.name!r}, which is not installed", "pip install 'mobuild[onnx]'"
        ) from error
    return of_summary(summary, name, uri)


def of_summary(summary: Mapping[str, Any], name: str, uri: str) -> Content:
    inputs = [Input(each["name"], axes(each), each["dtype"]) for each in summary["inputs"]]
    opset = summary["opsets"].get("ai.onnx", "none")
    about = f"Begins at {uri}: ONNX, opset {opset}, {summary['nodes']} nodes."
    sources = [
        noted(
            f"onnx: {{kind: source, uri: {flow(uri)}}}", "a path from the project's folder; or s3://… https://… hf:…"
        ),
        *_told("inputs", summary["inputs"]),
        *_told("outputs", summary["outputs"]),
    ]
    ranges = list(_ranges(summary))
    after = [noted("sanitized:", "cleaned; proven to give the same numbers"), "  ranges:", *ranges] if ranges else []
    return Content(name, about, sources, inputs=inputs, after=after)


def _told(word: str, tensors: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for each in tensors:
        shape = "unknown shape" if each["shape"] is None else flow(list(axes(each)))
        yield plain(f"# {word[:-1]} {each['name']}: {each['dtype']} {shape}")


def _ranges(summary: Mapping[str, Any]) -> Iterator[str]:
    """Which numbers integer inputs hold: the rows of the table that they look up, else those of a mask."""
    for each in summary["inputs"]:
        name = each["name"]
        if "int" not in each["dtype"] or name in summary["ranges"]:
            continue
        rows = summary["embeddings"].get(name)
        why = (
            f"it looks up a table of {rows} rows: 0 to {rows - 1}"
            if rows
            else "guessed: 0 and 1, as a mask has; write which numbers occur"
        )
        yield noted(f"    {flow(name)}: {flow([0, rows] if rows else list(_MASK))}", why)
