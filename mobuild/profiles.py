"""Sizes of dynamic axes: from `shapes`, which speaks of axis names, to one profile per input.

`shapes` is a map of axis name to one size or `[min, opt, max]`; a list of such maps asks for several
profiles. An axis name means the same size wherever it occurs. `check_shapes` needs no model and serves the
composition of a recipe; `profiles` joins the sizes with the model's summary. Nothing is invented: an axis
without a size is an error, and so is a size for an axis that the model does not have, also when the model
has no dynamic axis at all: such a size would promise a range that the engine cannot take. An axis without a
name is called after its input and position, as `onnxmodel.axes` does: axis 0 of `x` is `x_0`. One with a name
may be called so, too, which then goes before its name; a name that is no plain word (`p2o.DynamicDimension.0`,
`?`) cannot be a key of a command line, so hints call such an axis by its place. An integer input may itself hold sizes
(where to resize to): its name gives what it holds, `[min, opt, max]` of numbers or of lists.

What is written wrongly cannot be understood (`ConfigError`); sizes that are understood and cannot work, because they
fall or are missing, are `Refused`, and rule P1 of the contracts finds them.
"""

from __future__ import annotations

import operator
import re
from typing import Any, Mapping, Sequence, Tuple, Union

from mobuild.backend import Profile, Shape
from mobuild.errors import ConfigError, Refused, did_you_mean
from mobuild.onnxmodel.summary import axes

Sizes = Mapping[str, Tuple[Any, Any, Any]]
"""One profile by axis name: (min, opt, max) sizes; by the name of an integer input: what it holds, a list perhaps."""

Shapes = Union[Mapping[str, Any], Sequence[Mapping[str, Any]]]

_NO_TENSORS = ("sequence", "optional", "map")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")  # a key of a command line


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
            if _falls(low, best):
                falling.append(f"{where}axis {axis!r}: min {low} is larger than opt {best}")
            elif _falls(best, high):
                falling.append(f"{where}axis {axis!r}: opt {best} is larger than max {high}")
    if falling:
        raise Refused(f"shapes: {'; '.join(falling)}", "write [min, opt, max] in rising order")


def _falls(first: Any, second: Any) -> bool:
    """Whether `second` is smaller; of what an integer input holds, any number of it."""
    return any(map(operator.gt, first, second)) if _is_list(first) else bool(first > second)


def profiles(summary: Mapping[str, Any], shapes: Shapes) -> tuple[Profile, ...]:
    """One profile per map in `shapes`, with the min, opt and max shape of every input of the model.

    `summary` is `onnxmodel.summary` of the model. Empty when no axis is dynamic.

    Raises:
        ConfigError: a size for an axis that does not exist.
        Refused: an axis without a size, an input without a shape, or sizes that fall.
    """
    wanted = check_shapes(shapes) or ({},)
    refuse_falling(wanted)
    dynamic, held = _axes(summary), _held(summary)
    for i, sizes in enumerate(wanted):
        where = f"profile {i}: " if len(wanted) > 1 else ""
        _refuse_unknown(sizes, summary, (*dynamic, *_places(summary), *held), where)
        _refuse_lists(sizes, held, where)
        _refuse_missing(summary, sizes, where)
    if not dynamic and not any(name in sizes for sizes in wanted for name in held):
        return ()
    return tuple(
        Profile(
            {entry["name"]: _corners(entry, sizes) for entry in summary["inputs"]},
            {name: _contents(name, counts, sizes[name]) for name, counts in held.items() if name in sizes},
        )
        for sizes in wanted
    )


def places_of(summary: Mapping[str, Any], shapes: Shapes) -> Mapping[str, tuple[str, int]]:
    """The axes with a name that `shapes` calls by their place: that name → (input, axis)."""
    places = _places(summary)
    named = {name for sizes in check_shapes(shapes) for name in sizes} - set(_axes(summary))
    return {name: places[name] for name in sorted(named & set(places))}


def _sizes(shapes: Any, where: str) -> dict[str, tuple[Any, Any, Any]]:
    if not isinstance(shapes, Mapping):
        raise ConfigError(
            f"shapes: {where}expected sizes by axis name, found {shapes!r}",
            "several profiles are a list of maps: shapes=[{batch: 1}, {batch: [2, 8, 32]}]",
        )
    return {str(axis): _range(axis, size, where) for axis, size in shapes.items()}


def _range(axis: Any, size: Any, where: str) -> tuple[Any, Any, Any]:
    name = f"shapes: {where}axis {str(axis)!r}"
    if isinstance(size, Sequence) and not isinstance(size, str) and any(_is_list(each) for each in size):
        return _lists(name, size)
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


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _lists(name: str, found: Sequence[Any]) -> tuple[Any, Any, Any]:
    """What an integer input holds at min, opt and max, or always: lists of one length."""
    lists = [tuple(each) if _is_list(each) else (each,) for each in found]
    whole = all(type(number) is int for each in lists for number in each)
    if len(lists) not in (1, 3) or len({len(each) for each in lists}) != 1 or not whole:
        raise ConfigError(
            f"{name}: expected one list of whole numbers or [min, opt, max] of such, found {[*found]}",
            "what an integer input of two numbers holds: shapes.size=[[1,8],[2,16],[4,32]]",
        )
    low, best, high = lists * 3 if len(lists) == 1 else lists
    return low, best, high


def _axes(summary: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of all dynamic axes of the inputs, in their order."""
    for entry in summary["inputs"]:
        if entry["dtype"] in _NO_TENSORS:
            raise Refused(
                f"input {entry['name']!r}: expected a tensor, found the type {entry['dtype']}",
                "engines take tensors alone: export the model with one in its place",
            )
        if entry["shape"] is None:
            raise Refused(
                f"input {entry['name']!r}: the model declares no shape, so no size can be given",
                "export the model with a shape for every input",
            )
    named = (axis for entry in summary["inputs"] for axis in axes(entry) if isinstance(axis, str))
    return tuple(dict.fromkeys(named))


def _places(summary: Mapping[str, Any]) -> dict[str, tuple[str, int]]:
    """`x_0` → (input, axis) of every dynamic axis."""
    return {
        f"{entry['name']}_{i}": (entry["name"], i)
        for entry in summary["inputs"]
        for i, axis in enumerate(axes(entry))
        if isinstance(axis, str)
    }


def _held(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The integer inputs that may hold sizes → how many numbers; None when that is not fixed."""
    dynamic = _axes(summary)
    return {
        entry["name"]: (1 if not entry["shape"] else entry["shape"][0] if isinstance(entry["shape"][0], int) else None)
        for entry in summary["inputs"]
        if "int" in entry["dtype"] and len(entry["shape"]) < 2 and entry["name"] not in dynamic
    }


def _contents(name: str, count: Any, corners: Any) -> tuple[Shape, Shape, Shape]:
    """What the input holds at min, opt and max; one number stands for all of its elements."""
    lists = [tuple(each) if _is_list(each) else (each,) * (count or 1) for each in corners]
    if count is not None and any(len(each) != count for each in lists):
        raise ConfigError(
            f"shapes: {name!r} is an input of {count} numbers, found {len(lists[0])}",
            f"shapes.{name}=[min,opt,max], each one number or a list of {count}",
        )
    low, best, high = lists
    return low, best, high


def _refuse_lists(sizes: Sizes, held: Mapping[str, Any], where: str) -> None:
    for axis, corners in sizes.items():
        if axis not in held and any(_is_list(each) for each in corners):
            raise ConfigError(
                f"shapes: {where}axis {axis!r}: expected numbers, found lists", "only integer inputs hold lists of them"
            )


def _refuse_unknown(sizes: Sizes, summary: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    dynamic = _axes(summary)
    for axis in sizes:
        if axis not in known:
            near = did_you_mean(axis, dynamic) or _of_input(axis, summary)
            raise ConfigError(
                f"shapes: {where}axis {axis!r} is no dynamic axis of the model.{near}",
                f"dynamic axes: {_by_input(summary)}" if dynamic else f"the model has no dynamic axis; remove {axis!r}",
            )


def _of_input(word: str, summary: Mapping[str, Any]) -> str:
    """What is meant where `word` is, nearly, the name of an input."""
    inputs = [entry["name"] for entry in summary["inputs"]]
    if word in inputs:
        return f" {word!r} is an input: sizes are given by axis"
    near = did_you_mean(word, inputs)
    return f"{near} That is an input: sizes are given by axis" if near else ""


def _by_input(summary: Mapping[str, Any]) -> str:
    """`batch, height of 'image'; batch of 'ids', 'mask'`"""
    inputs: dict[str, list[str]] = {}
    for entry in summary["inputs"]:
        if named := ", ".join(axis for axis in axes(entry) if isinstance(axis, str)):
            inputs.setdefault(named, []).append(repr(entry["name"]))
    return "; ".join(f"{named} of {', '.join(names)}" for named, names in inputs.items())


def _corners(entry: Mapping[str, Any], sizes: Sizes) -> tuple[Shape, Shape, Shape]:
    """The min, opt and max shape of one input."""
    shape = _called(entry, sizes)
    low, best, high = (
        tuple(sizes[axis][corner] if isinstance(axis, str) else axis for axis in shape) for corner in range(3)
    )
    return low, best, high


def _called(entry: Mapping[str, Any], sizes: Sizes) -> tuple[int | str, ...]:
    """The shape of an input, each dynamic axis called as `sizes` may call it: by its place before its name."""
    places = (f"{entry['name']}_{i}" for i, _ in enumerate(axes(entry)))
    return tuple(
        place if isinstance(axis, str) and place in sizes else axis for axis, place in zip(axes(entry), places)
    )


def _refuse_missing(summary: Mapping[str, Any], sizes: Sizes, where: str) -> None:
    """Refuse axes without sizes: tells the first, and a remedy for all of them."""
    missing = [
        (entry, i, axis)
        for entry in summary["inputs"]
        for i, axis in enumerate(_called(entry, sizes))
        if isinstance(axis, str) and axis not in sizes
    ]
    if missing:
        keys = dict.fromkeys(axis if is_plain(axis) else f"{entry['name']}_{i}" for entry, i, axis in missing)
        raise Refused(_missing(*missing[0], where), _remedy([*keys], sizes))


def is_plain(axis: str) -> bool:
    """Whether a name can be a key of a command line as it is."""
    return bool(_PLAIN.fullmatch(axis))


def _missing(entry: Mapping[str, Any], i: int, axis: str, where: str) -> str:
    if entry["shape"][i] is None:
        return f"{where}input {entry['name']!r}, axis {i}: has no name in the model, and no size in shapes"
    return f"{where}input {entry['name']!r}, axis {i}: {axis!r} has no size in shapes"


def _remedy(missing: Sequence[str], sizes: Sizes) -> str:
    known = f"\nshapes names {', '.join(map(repr, sizes))}" if sizes else ""
    words = " ".join(size_word(key, "[min,opt,max]") for key in missing)
    return f"add {words}, or one number{' each' * (len(missing) > 1)}{known}"


def size_word(key: str, size: str) -> str:
    """How a command line gives a size: a key that is no plain word stands in a map, where Hydra takes it escaped."""
    if is_plain(key):
        return f"shapes.{key}={size}"
    escaped = re.sub(r"([\\()\[\]{}:=, \t])", r"\\\1", key)
    return f"'shapes={{{escaped}:{size}}}'"
