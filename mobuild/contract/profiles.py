"""Rules on sizes: what the engine is asked to take against the model and the data (P1 to P4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from mobuild.contract.findings import Finding
from mobuild.contract.request import Model
from mobuild.errors import ConfigError, Refused
from mobuild.onnxmodel.summary import axes
from mobuild.profiles import check_shapes, profiles, refuse_falling, size_word

_FAR = 4  # times as large as what 99 % of the samples need


def asked_sizes_rise(shapes: Any, where: str) -> tuple[Finding, ...]:
    """P1, of the sizes that a recipe asks for: min, opt and max rise."""
    try:
        refuse_falling(shapes)
    except Refused as error:
        return (Finding("P1", "error", where, error.message, error.hint),)
    return ()


def shapes_fit(model: Model) -> tuple[Finding, ...]:
    """P1: every dynamic axis has sizes, and every size an axis; those that fall are a fault of the configuration."""
    if asked_sizes_rise(model.shapes, model.where):
        return ()
    try:
        profiles(model.summary, model.shapes or {})
    except (ConfigError, Refused) as error:
        return (Finding("P1", "error", model.where, error.message, error.hint, error.status),)
    return ()


def sizes_are_held(model: Model) -> tuple[Finding, ...]:
    """P1: an integer input that holds sizes has values, as a dynamic axis has sizes."""
    asked = {name for profile in check_shapes(model.shapes) for name in profile}
    missing = [
        each
        for each in model.summary["inputs"]
        if each["name"] in model.summary.get("size_inputs", ()) and each["name"] not in asked
    ]
    if not model.request.is_tensorrt or not missing:
        return ()
    names = ", ".join(repr(each["name"]) for each in missing)
    message = f"input{'s' * (len(missing) > 1)} {names}: what it holds decides sizes in the model; shapes has no values"
    words = " ".join(size_word(each["name"], f"[{_held(each)}]") for each in missing)
    hint = f"add {words}: what it holds at min, opt and max; or fix the sizes in the model"
    return (Finding("P1", "error", model.where, message, hint),)


def _held(entry: Mapping[str, Any]) -> str:
    """`[…],[…],[…]` with as many places as the input has, if that is fixed."""
    shape = entry["shape"]
    if not shape:
        return "min,opt,max"
    return ",".join(["[" + ",".join(["…"] * (shape[0] if isinstance(shape[0], int) else 1)) + "]"] * 3)


def axes_have_names_of_their_own(model: Model) -> tuple[Finding, ...]:
    """P2: two axes of one input that share a name have one size, unless the sizes call them by their places.

    A name without a letter (`?`) says that the size is unknown, not that two are equal; as a name it counts where the
    sizes use it.
    """
    asked = {axis for profile in check_shapes(model.shapes) for axis in profile}
    findings: tuple[Finding, ...] = ()
    for each in model.summary["inputs"]:
        shared: dict[str, list[int]] = {}
        for i, axis in enumerate(each["shape"] or ()):
            is_name = isinstance(axis, str) and (axis in asked or any(map(str.isalnum, axis)))
            if is_name and f"{each['name']}_{i}" not in asked:
                shared.setdefault(axis, []).append(i)
        for name, places in shared.items():
            if len(places) < 2:
                continue
            message = f"axes {', '.join(map(str, places))} share the name {name!r}: the engine takes equal sizes alone"
            other = size_word(f"{each['name']}_{places[-1]}", "[min,opt,max]")
            hint = f"where they are meant to differ, give one a size by its place: {other}"
            findings += (Finding("P2", "warning", f"input {each['name']!r}", message, hint),)
    return findings


def data_fits(model: Model) -> tuple[Finding, ...]:
    """P3: the profiles cover the lengths of the samples."""
    findings: tuple[Finding, ...] = ()
    for node, place, axis, lengths, (low, high) in _measured(model):
        outside = sum(count for size, count in lengths.items() if not low <= size <= high)
        if outside:
            message = (
                f"{outside} of {sum(lengths.values())} samples of node {node!r} do not fit: their sizes are "
                f"{min(lengths)} to {max(lengths)}, shapes.{axis} takes {low} to {high}"
            )
            hint = (
                f"shapes.{axis}=[{min(low, min(lengths))},…,{max(high, max(lengths))}], or cut the samples in transform"
            )
            findings += (Finding("P3", "warning", place, message, hint),)
    return findings


def maximum_is_needed(model: Model) -> tuple[Finding, ...]:
    """P4: a maximum far above what the samples need costs memory and speed."""
    findings: tuple[Finding, ...] = ()
    for node, place, axis, lengths, (_, high) in _measured(model):
        usual = _quantile(lengths, 0.99)
        if high > _FAR * usual:
            message = f"shapes.{axis} goes to {high}, 99 % of the samples of node {node!r} need {usual} at most"
            findings += (Finding("P4", "warning", place, message, f"shapes.{axis}=[…,…,{usual}], or a second profile"),)
    return findings


def _measured(model: Model) -> Iterator[tuple[str, str, str, Counter[int], tuple[int, int]]]:
    """(node, place, axis, sizes with counts, limits) of the dynamic axes whose lengths are known from samples."""
    limits = _limits(model)
    for node, manifest in model.samples.items():
        for each in model.summary["inputs"]:
            known: Mapping[str, Any] = manifest.get(each["name"], {})
            named = axes(each)
            for text, counts in known.items():
                i = int(text) + 1  # samples come without the batch
                if i < len(named) and isinstance(named[i], str) and str(named[i]) in limits and counts:
                    lengths = Counter({int(size): int(count) for size, count in counts.items()})
                    axis = str(named[i])
                    yield node, f"input {each['name']!r}, axis {i}", axis, lengths, limits[axis]


def _limits(model: Model) -> dict[str, tuple[int, int]]:
    """Axis → the smallest min and the largest max of all profiles."""
    found: dict[str, tuple[int, int]] = {}
    for profile in check_shapes(model.shapes):
        for axis, sizes in profile.items():
            if all(isinstance(size, int) for size in sizes):  # else what an integer input holds
                low, high = min(sizes), max(sizes)
                before = found.get(axis, (low, high))
                found[axis] = (min(low, before[0]), max(high, before[1]))
    return found


def _quantile(lengths: Counter[int], share: float) -> int:
    seen, total = 0, sum(lengths.values())
    for size in sorted(lengths):
        seen += lengths[size]
        if seen >= share * total:
            return size
    return max(lengths)
