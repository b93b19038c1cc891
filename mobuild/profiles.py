"""Sizes of dynamic axes: from `shapes`, which speaks of axis names, to one profile per input.

`shapes` is a map of axis name to one size or `[min, opt, max]`; a list of such maps asks for several
profiles. An axis name means the same size wherever it occurs. `check_shapes` needs no model and serves the
composition of a recipe; `profiles` joins the sizes with the model's summary. Nothing is invented: an axis
without a size is an error, and so is a size for an axis that the model does not have, also when the model
has no dynamic axis at all: such a size would promise a range that the engine cannot take. An axis without a
name is called after its input and position, as `onnxmodel.axes` does: axis 0 of `x` is `x_0`.

What is written wrongly cannot be understood (`ConfigError`); sizes that are understood and cannot work, because they
fall or are missing, are `Refused`, and rule P1 of the contracts finds them.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence, Tuple, Union

from mobuild.backend import Profile, Shape
from mobuild.errors import ConfigError, Refused, did_you_mean
from mobuild.onnxmodel.summary import axes

Sizes = Mapping[str, Tuple[int, int, int]]
"""One profile by axis name: (min, opt, max)."""

Shapes = Union[Mapping[str, Any], Sequence[Mapping[str, Any]]]


def check_shapes(shapes: Any) -> tuple[Sizes, ...]:
    """`shapes` as one map of axis name → (min, opt, max) per profile; empty when nothing is asked.

    Raises:
        ConfigError: a size is no positive whole number.
    """
    if shapes is None:
        return ()
    if isinstance(shapes, Mapping):
        return (_sizes(shapes, ""),) if shapes else ()
    if isinstance(shapes, str) or not isinstance(shapes, Sequence):
        raise ConfigError(
            f"shapes: expected sizes by axis name, found {shapes!r}",
            "write shapes.batch=[1,8,32], or shapes.batch=8 for one size; lists stand in brackets",
        )
    return tuple(_sizes(item, f"profile {i}: ") for i, item in enumerate(shapes))


def refuse_falling(shapes: Any) -> None:
    """Refuse sizes whose min, opt and max do not rise.

    Raises:
        Refused: names every such axis, with its profile where there are several.
    """
    wanted = check_shapes(shapes)
    falling = []
    for i, sizes in enumerate(wanted):
        where = f"profile {i}: " if len(wanted) > 1 else ""
        for axis, (low, best, high) in sizes.items():
            if low > best:
                falling.append(f"{where}axis {axis!r}: min {low} is larger than opt {best}")
            elif best > high:
                falling.append(f"{where}axis {axis!r}: opt {best} is larger than max {high}")
    if falling:
        raise Refused(f"shapes: {'; '.join(falling)}", "write [min, opt, max] in rising order")


def profiles(summary: Mapping[str, Any], shapes: Shapes) -> tuple[Profile, ...]:
    """One profile per map in `shapes`, with the min, opt and max shape of every input of the model.

    `summary` is `onnxmodel.summary` of the model. Empty when no axis is dynamic.

    Raises:
        ConfigError: a size for an axis that does not exist.
        Refused: an axis without a size, an input without a shape, or sizes that fall.
    """
    wanted = check_shapes(shapes)
    refuse_falling(wanted)
    dynamic = _axes(summary)
    for i, sizes in enumerate(wanted):
        _refuse_unknown(sizes, dynamic, f"profile {i}: " if len(wanted) > 1 else "")
    if not dynamic:
        return ()
    return tuple(
        {
            entry["name"]: _corners(entry, sizes, f"profile {i}: " if len(wanted) > 1 else "")
            for entry in summary["inputs"]
        }
        for i, sizes in enumerate(wanted or ({},))
    )


def _sizes(shapes: Any, where: str) -> dict[str, tuple[int, int, int]]:
    if not isinstance(shapes, Mapping):
        raise ConfigError(
            f"shapes: {where}expected sizes by axis name, found {shapes!r}",
            "several profiles are a list of maps: shapes=[{batch: 1}, {batch: [2, 8, 32]}]",
        )
    return {str(axis): _range(axis, size, where) for axis, size in shapes.items()}


def _range(axis: Any, size: Any, where: str) -> tuple[int, int, int]:
    name = f"shapes: {where}axis {str(axis)!r}"
    if isinstance(size, str):
        raise ConfigError(f"{name}: expected numbers, found {size!r}", f"lists stand in brackets: [{size}]")
    numbers = list(size) if isinstance(size, Sequence) else [size]
    if len(numbers) not in (1, 3):
        raise ConfigError(f"{name}: expected one size or [min, opt, max], found {len(numbers)} numbers: {numbers}")
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ConfigError(f"{name}: expected whole numbers from 1, found {number!r}")
    low, best, high = numbers * 3 if len(numbers) == 1 else numbers
    return low, best, high


def _axes(summary: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of all dynamic axes of the inputs, in their order."""
    for entry in summary["inputs"]:
        if entry["shape"] is None:
            raise Refused(
                f"input {entry['name']!r}: the model declares no shape, so no size can be given",
                "export the model with a shape for every input",
            )
    named = (axis for entry in summary["inputs"] for axis in axes(entry) if isinstance(axis, str))
    return tuple(dict.fromkeys(named))


def _refuse_unknown(sizes: Sizes, dynamic: Sequence[str], where: str) -> None:
    for axis in sizes:
        if axis not in dynamic:
            known = ", ".join(dynamic)
            raise ConfigError(
                f"shapes: {where}axis {axis!r} is no dynamic axis of the model.{did_you_mean(axis, dynamic)}",
                f"dynamic axes: {known}" if dynamic else f"the model has no dynamic axis; remove {axis!r}",
            )


def _corners(entry: Mapping[str, Any], sizes: Sizes, where: str) -> tuple[Shape, Shape, Shape]:
    """The min, opt and max shape of one input."""
    shape = axes(entry)
    for i, axis in enumerate(shape):
        if isinstance(axis, str) and axis not in sizes:
            raise Refused(_missing(entry, i, axis, where), _remedy(axis, sizes))
    low, best, high = (
        tuple(sizes[axis][corner] if isinstance(axis, str) else axis for axis in shape) for corner in range(3)
    )
    return low, best, high


def _missing(entry: Mapping[str, Any], i: int, axis: str, where: str) -> str:
    if entry["shape"][i] is None:
        return f"{where}input {entry['name']!r}, axis {i}: has no name in the model, and no size in shapes"
    return f"{where}input {entry['name']!r}, axis {i}: {axis!r} has no size in shapes"


def _remedy(axis: str, sizes: Sizes) -> str:
    known = f"\nshapes names {', '.join(map(repr, sizes))}" if sizes else ""
    return f"add shapes.{axis}=[min,opt,max], or one number{known}"
