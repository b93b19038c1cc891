"""Example inputs for a model from its summary alone, and the sizes at which to try it.

Validation data belongs to the recipe; these are the inputs of proofs that need none: parity of two
forms of one model, a first run of an engine.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mobuild.errors import ConfigError, NodeFailed

RANGE_RULE = "from low up to, but without, high, as Python's range; of two neighbours, [0, 1], both occur"
_DEFAULT_RANGE = (0, 1)  # a mask; whoever needs more says so in the recipe
_SMALL = (3, 5, 7, 11, 13, 17, 19, 23)
_TILES = tuple(32 * i for i in range(2, 10))
_LARGE = tuple(32 * i for i in range(7, 15))


def feeds(summary: Mapping[str, Any], sizes: Mapping[str, int], seed: int = 0) -> dict[str, Any]:
    """One array per input: equal arguments give equal arrays, input by input.

    `sizes` is axis name → size (unnamed axes as `onnxmodel.axes` names them), and input name → what an integer input
    holds, one number or a list. Floats are standard normal,
    or uniform within the input's range where the summary has one; integers lie within their range
    (default 0 and 1). The upper end itself is drawn only from ranges of two values: recipes write the
    last token there as well as the vocabulary's size.

    Raises:
        ConfigError: an axis has no size.
        NodeFailed: an input's type cannot be made up (strings).
    """
    ranges = summary.get("ranges", {})
    named = {axis for each in summary["inputs"] for axis in _named(each)}
    return {
        each["name"]: _held_array(each, _shape(each, sizes), sizes[each["name"]])
        if each["name"] in sizes and each["name"] not in named
        else _array(each, _shape(each, sizes), ranges.get(each["name"]), seed)
        for each in summary["inputs"]
    }


def check_range(limits: Any, dtype: str = "") -> tuple[float, float]:
    """`limits` as (low, high); whole numbers that fit where the type `dtype` is one of integers.

    Raises:
        ConfigError: says what is wrong with it and what a range means, but not of which input it is.
    """
    kind = "whole numbers" if "int" in dtype else "numbers"
    hint = f"range: [low, high]: {RANGE_RULE}"
    types = (int,) if "int" in dtype else (int, float)
    if not isinstance(limits, Sequence) or len(limits) != 2 or any(type(each) not in types for each in limits):
        found = list(limits) if isinstance(limits, tuple) else limits
        raise ConfigError(f"range: expected [low, high], two {kind}, found {found!r}", hint)
    low, high = limits
    if low > high:
        raise ConfigError(f"range: expected low below high, found [{low}, {high}]", hint)
    if "int" in dtype:
        least, most = _held(dtype)
        last = high if high - low <= 1 else high - 1
        if low < least or last > most:
            raise ConfigError(f"range: {dtype} holds {least} to {most}, found [{low}, {high}]", hint)
    return low, high


def _held(dtype: str) -> tuple[int, int]:
    """The least and the greatest number of an integer type."""
    bits = int(dtype.rpartition("int")[2])
    return (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def trial_sizes(summary: Mapping[str, Any], fixed: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Sizes of all dynamic axes to try a model at, smallest first, until it accepts one.

    Leading axes (the batch, by custom) are 2, 4, …; the others differ from each other, so that a confusion
    of two shows: small primes, then multiples of 32 from 64, then from 224 (networks that halve their
    input need a minimum). `fixed` sizes stay.
    """
    leading, others = _by_position(summary)
    first = {axis: 2 * i + 2 for i, axis in enumerate(leading)}
    for ladder in (_SMALL, _TILES, _LARGE):
        rest = {axis: ladder[i % len(ladder)] for i, axis in enumerate(others)}
        yield {axis: fixed.get(axis, size) for axis, size in {**first, **rest}.items()}
        if set(others) <= set(fixed):
            return


def other_sizes(size: int) -> tuple[int, ...]:
    """Other sizes of an axis to try, likeliest first: double, one tile more, one more, half, one."""
    return tuple(dict.fromkeys((2 * size, size + 32, size + 1, max(size // 2, 1), 1)))


def _by_position(summary: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    from mobuild.onnxmodel.summary import axes

    shapes = [axes(each) for each in summary["inputs"]]
    leading = dict.fromkeys(shape[0] for shape in shapes if shape and isinstance(shape[0], str))
    names = dict.fromkeys(axis for shape in shapes for axis in shape if isinstance(axis, str))
    return list(leading), [axis for axis in names if axis not in leading]


def _named(tensor: Mapping[str, Any]) -> tuple[str, ...]:
    from mobuild.onnxmodel.summary import axes

    return tuple(axis for axis in axes(tensor) if isinstance(axis, str))


def _held_array(tensor: Mapping[str, Any], shape: tuple[int, ...], held: Any) -> Any:
    import numpy as np

    return np.ascontiguousarray(np.broadcast_to(np.asarray(held, tensor["dtype"]), shape))


def _shape(tensor: Mapping[str, Any], sizes: Mapping[str, int]) -> tuple[int, ...]:
    from mobuild.onnxmodel.summary import axes

    named = axes(tensor)
    missing = [axis for axis in named if isinstance(axis, str) and axis not in sizes]
    if missing:
        raise ConfigError(
            f"input {tensor['name']!r}: axis {missing[0]!r} has no size",
            f"give one: shapes: {{{missing[0]}: 8}}",
        )
    return tuple(sizes[axis] if isinstance(axis, str) else axis for axis in named)


def _array(tensor: Mapping[str, Any], shape: tuple[int, ...], limits: Any, seed: int) -> Any:
    import numpy as np

    random = np.random.default_rng([seed, zlib.crc32(tensor["name"].encode())])
    dtype = tensor["dtype"]
    if dtype == "bool":
        return random.integers(0, 2, shape).astype(bool)
    if "float" in dtype:
        values = random.uniform(limits[0], limits[1], shape) if limits else random.standard_normal(shape)
        return values.astype(_float(dtype))
    if dtype == "string":  # of digits, since a Cast to numbers refuses other words
        return random.integers(0, 100, shape).astype(str).astype(object)
    if "int" not in dtype:
        raise NodeFailed(f"input {tensor['name']!r}: no example can be made of type {dtype!r}")
    low, high = limits or _DEFAULT_RANGE
    if high - low > 1:
        return random.integers(low, high, shape).astype(dtype)
    values = random.integers(low, high + 1, shape).astype(dtype)
    if shape:
        values[..., :1] = high  # a mask of zeros alone is NaN in many networks
    return values


def _float(dtype: str) -> Any:
    if dtype != "bfloat16":
        return dtype
    import ml_dtypes  # numpy has no bfloat16; onnx brings this along

    return ml_dtypes.bfloat16
