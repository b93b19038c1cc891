"""Shapes by input, as builders take them, to sizes by axis, as recipes say them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mobuild.adopt.wishes import Corners, Dims
from mobuild.errors import ConfigError, did_you_mean
from mobuild.onnxmodel.summary import axes

CORNERS = ("min", "opt", "max")
_PAIR = re.compile(r"(?:'(?P<quoted>[^']+)'|(?P<name>.+)):(?P<dims>[^:]*)")
_FROM = {  # which corner stands in for one that is not given, as trtexec's processShapes takes it
    "min": ("min", "opt", "max"),
    "opt": ("opt", "max", "min"),
    "max": ("max", "opt", "min"),
}


def of_trtexec(flag: str, text: str) -> dict[str, Dims]:
    """`images:1x3x640x640,ids:1x128` by input.

    Raises:
        ConfigError: another form; names the part.
    """
    parts = re.findall(r"(?:'[^']*'|[^,])+", text)
    return dict(_pair(flag, part, "images:1x3x640x640", "x") for part in parts) or _nothing(flag, text)


def of_polygraphy(flag: str, words: Sequence[str]) -> dict[str, Dims]:
    """`images:[1,3,640,640]`, a word for each input.

    Raises:
        ConfigError: another form; names the part.
    """
    return dict(_pair(flag, word, "images:[1,3,640,640]", ",") for word in words) or _nothing(flag, "")


def filled(profile: Corners) -> Corners:
    """The profile with all three corners: those that are missing are taken from those that are there.

    Raises:
        ConfigError: one corner names an input that another does not.
    """
    whole = {corner: profile[next(each for each in _FROM[corner] if each in profile)] for corner in CORNERS}
    for corner, other in (("min", "max"), ("max", "min"), ("min", "opt"), ("opt", "min")):
        for name in whole[corner].keys() - whole[other].keys():
            raise ConfigError(
                f"adopt: {corner} shapes name input {name!r}, and {other} shapes do not",
                "give every input in all three, or leave it out of all",
            )
    return whole


def by_axis(
    profiles: Sequence[Corners], others: Mapping[str, Dims], summary: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Sizes by axis for each profile, and the axes whose size no one gave, which get 1.

    `others` are shapes of inputs that no profile names. Without a dynamic axis there are no sizes.

    Raises:
        ConfigError: no such input, another rank, another size of a static axis, one axis with two sizes, a falling
            order.
    """
    tensors = {each["name"]: each for each in summary["inputs"]}
    missing: list[str] = []
    found = []
    for profile in profiles or [{corner: {} for corner in CORNERS}]:
        corners = {corner: {**others, **profile[corner]} for corner in CORNERS}
        for name in corners["min"]:
            if name not in tensors:
                raise ConfigError(
                    f"adopt: {name!r} is no input of the model.{did_you_mean(name, tensors)}",
                    f"inputs: {', '.join(_described(each) for each in tensors.values())}",
                )
        sizes = _sizes(corners, tensors)
        for axis in (axis for each in tensors.values() for axis in axes(each) if isinstance(axis, str)):
            if axis not in sizes:
                sizes[axis] = 1
                missing.append(axis)
        found.append(sizes)
    return [sizes for sizes in found if sizes], list(dict.fromkeys(missing))


def _sizes(corners: Corners, tensors: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    said_by: dict[str, str] = {}
    for name in corners["min"]:
        for axis, sizes in _along(tensors[name], [corners[corner][name] for corner in CORNERS]):
            size = sizes[0] if len(set(sizes)) == 1 else sizes
            if found.setdefault(axis, size) != size:
                raise ConfigError(
                    f"adopt: axis {axis!r} of inputs {said_by[axis]!r} and {name!r} is one axis in the model: expected "
                    f"one size, found {found[axis]} and {size}",
                    "give both the same, or export the model with two names",
                )
            said_by[axis] = name
    return found


def _along(tensor: Mapping[str, Any], dims: Sequence[Dims]) -> Iterator[tuple[str, list[int]]]:
    """The dynamic axes of one input with their three sizes."""
    named = axes(tensor)
    for each, corner in zip(dims, CORNERS, strict=True):
        if len(each) != len(named):
            raise ConfigError(
                f"adopt: {corner} shape {_text(each)} of input {tensor['name']!r}: expected {len(named)} sizes, found "
                f"{len(each)}",
                f"the model has {_described(tensor)}",
            )
    for i, axis in enumerate(named):
        sizes = [each[i] for each in dims]
        where = f"adopt: input {tensor['name']!r}, axis {i}"
        if isinstance(axis, int) and set(sizes) != {axis}:
            wrong = next(size for size in sizes if size != axis)
            raise ConfigError(
                f"{where}: the model has the fixed size {axis}, the line says {wrong}",
                f"the model has {_described(tensor)}; export it with a name for the axis to make it vary",
            )
        if sizes != sorted(sizes):
            raise ConfigError(
                f"{where}: expected sizes in rising order, found min {sizes[0]}, opt {sizes[1]}, max {sizes[2]}"
            )
        if isinstance(axis, str):
            yield axis, sizes


def _pair(flag: str, part: str, example: str, between: str) -> tuple[str, Dims]:
    found = _PAIR.fullmatch(part.strip())
    if found is None:
        raise ConfigError(f"adopt: {flag}: expected input:sizes, found {part!r}", f"{flag}={example}")
    name, text = found["quoted"] or found["name"].replace("'", ""), found["dims"].strip("[]() ")
    words = [] if text in ("", "scalar") else [word.strip() for word in text.split(between)]
    for word in words:
        if not word.isdecimal() or int(word) < 1:
            raise ConfigError(
                f"adopt: {flag}: input {name!r}: expected whole numbers from 1, found {word!r} in {found['dims']!r}",
                f"{flag}={example}",
            )
    return name, tuple(map(int, words))


def _nothing(flag: str, text: str) -> dict[str, Dims]:
    raise ConfigError(f"adopt: {flag}: expected input:sizes, found {text!r}", f"{flag}=images:1x3x640x640")


def _described(tensor: Mapping[str, Any]) -> str:
    return f"{tensor['name']}:{_text(axes(tensor))}" if tensor["shape"] is not None else f"{tensor['name']}:?"


def _text(shape: Sequence[Any]) -> str:
    return "x".join(map(str, shape)) or "scalar"
