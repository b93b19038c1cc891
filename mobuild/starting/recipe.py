"""The recipe as text, written for someone who reads one for the first time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mobuild.adopt.recipe import flow
from mobuild.starting.guesses import sizes
from mobuild.starting.tensors import Input

SCHEMA = ".mobuild.schema.json"
_WIDTH = 46  # of a key and its value, where its comment begins
_WIDEST = 118
_BETWEEN = "\0"  # a line and its comment


@dataclass(frozen=True)
class Content:
    """What a recipe says. `sources` are lines of nodes before the model, `about` is what the file is."""

    name: str
    about: str
    sources: Sequence[str]
    onnx: Sequence[str] = ()  # lines below the node `onnx`; none where it is one of the sources
    inputs: Sequence[Input] = ()
    after: Sequence[str] = ()  # lines of nodes behind it
    requires: str = ""  # what is to be installed for its Python
    shapes: Mapping[str, Any] | None = None  # None: by the names of the inputs' axes


def text(content: Content) -> str:
    return "\n".join(map(_aligned, _lines(content))) + "\n"


def _lines(content: Content) -> Iterator[str]:
    yield f"# yaml-language-server: $schema=../{SCHEMA}"
    yield "# @package _global_"
    yield f"# {plain(content.about)}"
    if content.requires:
        yield f"# Needs:     pip install {content.requires}"
    yield f"# Build it:  mobuild target=engine recipe={content.name}"
    yield "# Then:      precision=fp16 (int8: with samples), hardware=l4 (mobuild list shows all), mobuild why"
    yield "defaults:"
    yield noted("  - /recipe/standard", "weights → onnx → sanitized → quantized → engine")
    yield "  - _self_"
    yield "nodes:"
    yield from (f"  {line}" for line in content.sources)
    if content.onnx:
        yield "  onnx:"
        yield from (f"    {line}" for line in content.onnx)
        yield noted("    inputs:", "in forward's order; names are axes that vary, numbers are fixed")
        for each in content.inputs:
            yield from _input(each)
    yield from (f"  {line}" for line in content.after)
    found = sizes(content.inputs) if content.shapes is None else content.shapes
    if found:
        yield noted("shapes:", "of axes that vary: [min, opt, max] of the engine, or one size")
        for axis, each in found.items():
            yield f"  {flow(axis)}: {flow(each)}"
    yield f"# What else it can say is in mobuild's recipes/README.md; editors that read {SCHEMA} complete it."


def _input(each: Input) -> Iterator[str]:
    shape = flow(list(each.shape))
    if each.dtype == "float32":
        words = f"      {flow(each.name)}: {shape}"
    else:
        words = f"      {flow(each.name)}: {{shape: {shape}, dtype: {each.dtype}"
        words += f", range: {flow(list(each.range))}}}" if each.range else "}"
    yield noted(words, each.note) if each.note else words


def noted(words: str, comment: str) -> str:
    """A line with a comment, which is put in its column once the line is at its place."""
    return f"{words}{_BETWEEN}{plain(comment)}"


def _aligned(line: str) -> str:
    """A comment behind its words, or above them where that would be too long."""
    words, between, comment = line.partition(_BETWEEN)
    if not between:
        return line
    whole = f"{words.ljust(_WIDTH - 2)}  # {comment}"
    if len(whole) <= _WIDEST:
        return whole
    return f"{' ' * (len(words) - len(words.lstrip()))}# {comment}\n{words}"


def plain(text: str) -> str:
    """`text` in one line: what a file calls itself must not become a line of a recipe, or of Python."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def in_docstring(text: str) -> str:
    """`text` as a part of a doc string."""
    return plain(text).replace("\\", "\\\\").replace('"', "'")
