"""What is guessed where a file does not say it: inputs from the first weights, sizes from the names of axes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mobuild.starting.tensors import Input, Tensor

_EMBEDDING = re.compile(r"emb|wte|vocab|token", re.IGNORECASE)
_RECURRENT = re.compile(r"weight_ih_l0$")
_WEIGHT = re.compile(r"(^|\.|_)(weight|kernel)(_ih_l0)?$", re.IGNORECASE)
_BATCH = re.compile(r"(^|_)(n|b|bs|batch|batch_?size|batches)($|_0$)", re.IGNORECASE)
_IMAGE = re.compile(r"^(h|w|height|width|image_?(height|width|size))$|(^|_)(height|width)$", re.IGNORECASE)
_LENGTH = re.compile(r"seq|len|token|time|frames|samples|^[tls]$", re.IGNORECASE)
_PIXELS = 224


def guessed(names: Sequence[str], tensors: Mapping[str, Tensor]) -> list[Input]:
    """Inputs called `names`, of which the first fits the first weights that say what goes in."""
    first = next(filter(None, (_input(names[0], *each) for each in tensors.items())), None)
    unknown = "nothing in the file tells its shape"
    return [first or Input(names[0], ("batch", 8), note=unknown)] + [
        Input(name, ("batch", 8), note=unknown) for name in names[1:]
    ]


def _input(name: str, weight: str, tensor: Tensor) -> Input | None:
    """What a network takes whose first weights these are; None where they do not tell."""
    if not _WEIGHT.search(weight):
        return None  # a bias, or a constant that inputs are normalised with
    shape, note = tensor.shape, f"guessed from {weight} {list(tensor.shape)}"
    if len(shape) == 2 and _EMBEDDING.search(weight):
        return Input(name, ("batch", "sequence"), "int64", (0, shape[0]), note)
    if len(shape) == 2 and _RECURRENT.search(weight):
        return Input(name, ("batch", "sequence", shape[1]), note=note)
    if len(shape) == 2 and min(shape) > 1:
        return Input(name, ("batch", shape[1]), note=note)
    if len(shape) == 3:
        return Input(name, ("batch", shape[1], "length"), note=note)
    if len(shape) == 4:
        note += f"; {_PIXELS} is the usual size of images: write yours, or names (h, w) for sizes that vary"
        return Input(name, ("batch", shape[1], _PIXELS, _PIXELS), note=note)
    if len(shape) == 5:
        return Input(name, ("batch", shape[1], 16, _PIXELS, _PIXELS), note=note)
    return None


def axes_of(inputs: Iterable[Input]) -> list[str]:
    """The dynamic axes, each once, in the order of their first use."""
    return list(dict.fromkeys(axis for each in inputs for axis in each.shape if isinstance(axis, str)))


def sizes(inputs: Sequence[Input]) -> dict[str, Any]:
    """Axis → [min, opt, max] for every dynamic axis, by what its name and place say."""
    leading = {each.shape[0] for each in inputs if len(each.shape) > 1}
    axes = axes_of(inputs)
    is_large = any(_IMAGE.search(axis) for axis in axes)
    return {axis: _sizes(axis, axis in leading, is_large) for axis in axes}


def _sizes(axis: str, is_leading: bool, is_large: bool) -> list[int]:
    if _IMAGE.search(axis):
        return [_PIXELS, 640, 640]
    if _BATCH.search(axis) or (is_leading and not _LENGTH.search(axis)):
        return [1, 4, 8] if is_large else [1, 8, 32]
    return [8, 128, 256] if _LENGTH.search(axis) else [1, 16, 64]
