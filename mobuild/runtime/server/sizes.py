"""Whether an engine takes inputs of these names, types and shapes; says so before any data is read."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence

from ..model import Model, Profile
from ..runner import Tensor, shape_text
from ..tensors import DATATYPES, Malformed

Shapes = Mapping[str, Sequence[int]]


def check(model: Model, shapes: Shapes, datatypes: Mapping[str, str]) -> None:
    """Raise Malformed, with the input, the axis, its size and the sizes that it may have."""
    names = [tensor.name for tensor in model.inputs]
    for unknown in (name for name in shapes if name not in names):
        raise Malformed(f"there is no input {unknown!r}: the model takes {', '.join(names)}")
    for missing in (name for name in names if name not in shapes):
        raise Malformed(f"input {missing!r} is missing: the model takes {', '.join(names)}")
    for tensor in model.inputs:
        expected = DATATYPES[tensor.dtype]
        if datatypes[tensor.name] != expected:
            raise Malformed(f"input {tensor.name!r}: expected the datatype {expected}, found {datatypes[tensor.name]}")
        _check_shape(tensor, shapes[tensor.name])
    _check_names(model.inputs, shapes)
    _check_profiles(model, shapes)


def check_arrays(model: Model, feeds: Mapping[str, Any]) -> None:
    """As `check`, for arrays of an application; their names and types are its own affair, and the engine's to tell."""
    dtypes = {tensor.name: tensor.dtype for tensor in model.inputs}
    if {name: str(getattr(array, "dtype", "")) for name, array in feeds.items()} == dtypes:
        shapes = {name: array.shape for name, array in feeds.items()}
        check(model, shapes, {name: DATATYPES[dtype] for name, dtype in dtypes.items()})


def _check_shape(tensor: Tensor, shape: Sequence[int]) -> None:
    if len(shape) != len(tensor.shape):
        wanted = f"{len(tensor.shape)} axes ({shape_text(tensor.shape)})"
        raise Malformed(f"input {tensor.name!r}: expected {wanted}, found {len(shape)} ({shape_text(shape)})")
    for number, (axis, size) in enumerate(zip(tensor.shape, shape)):
        if isinstance(axis, int) and axis not in (-1, size):
            raise Malformed(f"input {tensor.name!r}, axis {number}: expected {axis}, found {size}")


def _check_names(inputs: Iterable[Tensor], shapes: Shapes) -> None:
    """An axis of one name has one size."""
    seen: dict[str, tuple[int, str]] = {}
    for tensor in inputs:
        for axis, size in zip(tensor.shape, shapes[tensor.name]):
            before, place = seen.setdefault(axis, (size, tensor.name)) if isinstance(axis, str) else (size, "")
            if before != size:
                both = f"{before} in input {place!r} and {size} in input {tensor.name!r}"
                raise Malformed(f"axis {axis!r}: expected one size, found {both}")


def _check_profiles(model: Model, shapes: Shapes) -> None:
    """Some profile takes all shapes; else what the nearest one would not take."""
    outside = [list(_outside(model, profile, shapes)) for profile in model.profiles]
    if not outside or not all(outside):
        return
    nearest = min(outside, key=len)
    raise Malformed(nearest[0] + (f" (the nearest of {len(outside)} profiles)" if len(outside) > 1 else ""))


def _outside(model: Model, profile: Profile, shapes: Shapes) -> Iterable[str]:
    for tensor in model.inputs:
        low, _, high = profile.get(tensor.name, (shapes[tensor.name],) * 3)
        for number, (axis, size) in enumerate(zip(tensor.shape, shapes[tensor.name])):
            if not low[number] <= size <= high[number]:
                called = f" ({axis!r})" if isinstance(axis, str) else ""
                limits = f"{low[number]} to {high[number]}"
                yield f"input {tensor.name!r}, axis {number}{called}: expected {limits}, found {size}"
