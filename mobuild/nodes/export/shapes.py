"""The inputs that a recipe asks for, as values: name, shape with axis names, type, range."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mobuild.errors import ConfigError, did_you_mean
from mobuild.onnxmodel.feeds import RANGE_RULE, check_range

_FLOATS = ("float32", "float16", "float64")
_INTEGERS = ("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64")
_DTYPES = (*_FLOATS, "bool", *_INTEGERS)
_WORDS = ("shape", "dtype", "range")


@dataclass(frozen=True)
class Input:
    """One input: `shape` holds ints for static axes and names for dynamic ones."""

    name: str
    shape: tuple[int | str, ...]
    dtype: str
    limits: tuple[float, float] | None


def parse(inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> tuple[Input, ...]:
    """Read `inputs` of a recipe, short (`[batch, 3, h, w]`) or long (`{shape, dtype, range}`).

    Raises:
        ConfigError: names the input and what is wrong with it.
    """
    if not inputs:
        raise ConfigError("inputs: expected at least one", "write inputs: {images: [batch, 3, h, w]}")
    found = tuple(_input(name, spec) for name, spec in inputs.items())
    known = axis_names(found)
    for axis, size in sizes.items():
        if axis not in known:
            raise ConfigError(
                f"sizes: {axis!r} is no axis of the inputs.{did_you_mean(axis, known)}",
                f"axes: {', '.join(known) or 'none'}",
            )
        if not _is_size(size):
            raise ConfigError(f"sizes: axis {axis!r}: expected a whole number above 0, found {size!r}")
    return found


def axis_names(inputs: Sequence[Input]) -> tuple[str, ...]:
    """The dynamic axes, each once, in the order of their first use."""
    return tuple(dict.fromkeys(axis for each in inputs for axis in each.shape if isinstance(axis, str)))


def elements(inputs: Sequence[Input], sizes: Mapping[str, int]) -> int:
    """How many numbers all inputs together hold at `sizes`."""
    return sum(math.prod(sizes[axis] if isinstance(axis, str) else axis for axis in each.shape) for each in inputs)


def as_summary(inputs: Sequence[Input]) -> dict[str, Any]:
    """The inputs in the form of `onnxmodel.summary`, for `onnxmodel.feeds`."""
    return {
        "inputs": [{"name": each.name, "dtype": each.dtype, "shape": list(each.shape)} for each in inputs],
        "ranges": {each.name: list(each.limits) for each in inputs if each.limits},
    }


def _input(name: str, spec: Any) -> Input:
    words = spec if isinstance(spec, Mapping) else {"shape": spec}
    for word in words:
        if word not in _WORDS:
            raise ConfigError(
                f"input {name!r}: {word!r} is no property of an input.{did_you_mean(word, _WORDS)}",
                f"properties: {', '.join(_WORDS)}",
            )
    dtype = words.get("dtype", "float32")
    if dtype not in _DTYPES:
        raise ConfigError(
            f"input {name!r}: {dtype!r} is no type of an input.{did_you_mean(str(dtype), _DTYPES)}",
            f"types: {', '.join(_DTYPES)}",
        )
    return Input(name, _shape(name, words.get("shape")), dtype, _limits(name, dtype, words.get("range")))


def _shape(name: str, shape: Any) -> tuple[int | str, ...]:
    if isinstance(shape, str) or not isinstance(shape, Sequence):
        raise ConfigError(
            f"input {name!r}: expected a shape such as [batch, 3, h, w], found {shape!r}",
            "names are dynamic axes, numbers static ones",
        )
    for axis in shape:
        if not _is_size(axis) and not (isinstance(axis, str) and axis.isidentifier()):
            raise ConfigError(f"input {name!r}: expected axis names and sizes above 0 in its shape, found {axis!r}")
    return tuple(shape)


def _limits(name: str, dtype: str, limits: Any) -> tuple[float, float] | None:
    if limits is None and dtype not in _INTEGERS:
        return None
    if limits is None:
        raise ConfigError(
            f"input {name!r}: is {dtype} and has no range, so no example of it can be made",
            f"say which values occur, {RANGE_RULE}:\n"
            f"{name}: {{shape: [...], dtype: {dtype}, range: [0, 30522]}} for a vocabulary of 30522",
        )
    try:
        return check_range(limits, dtype)
    except ConfigError as error:
        raise ConfigError(f"input {name!r}: {error.message}", error.hint) from error


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
