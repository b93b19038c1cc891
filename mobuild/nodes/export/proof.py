"""Proof that the file computes what the network computes, at more than the sizes it was exported with.

An axis with a name is a promise: other sizes work. Exporters break it silently (a Python int taken from
a shape becomes a constant), so every named axis is run at a second size, and all at a clearly larger one (a
branch on a size is exported one way). Each runs twice, on copies: state kept inside the network or written into
its inputs would hide behind the first run.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mobuild import onnxmodel, parity
from mobuild.errors import NodeFailed
from mobuild.nodes.export.exporters import FREEZES
from mobuild.nodes.export.frames import user_line, words
from mobuild.nodes.export.shapes import Input, as_summary, axis_names, elements
from mobuild.onnxmodel.feeds import RANGE_RULE

_TILE = 32  # what sizes grow by: networks that halve their input take multiples of it
_MOST_ELEMENTS = 1 << 22  # of all inputs together, in the large case


@dataclass(frozen=True)
class Case:
    """One set of inputs and what torch makes of them. `axes` are those that differ from the example."""

    sizes: Mapping[str, int]
    axes: tuple[str, ...]
    feeds: Mapping[str, Any]
    want: tuple[Any, ...]

    @property
    def where(self) -> str:
        return "at " + (", ".join(f"{axis}={size}" for axis, size in self.sizes.items()) or "its one size")


def cases(
    module: Any, inputs: Sequence[Input], sizes: Mapping[str, int], absolute: float, relative: float
) -> list[Case]:
    """The example first, one case for each dynamic axis, and a large one; each was run twice and agreed.

    Raises:
        NodeFailed: the network takes no example size, or no second size of an axis, or answers
            differently the second time.
    """
    example = _example(module, inputs, sizes)
    found = [example] + [_second(module, inputs, example, axis) for axis in axis_names(inputs)]
    found += _large(module, inputs, example)
    for case in found:
        _assert_repeats(module, case, absolute, relative)
    return found


def output_shapes(found: Sequence[Case], names: Sequence[str]) -> dict[str, tuple[int | str, ...]]:
    """Shape of each output: an axis that moves with an input's axis bears its name, any other that
    moves a name of its own."""
    return {name: tuple(_axes(name, [case.want[i].shape for case in found], found)) for i, name in enumerate(names)}


def prove(
    file: Path, found: Sequence[Case], absolute: float, relative: float, libraries: Iterable[Path] = ()
) -> dict[str, float]:
    """Run the file in ONNX Runtime on every case, twice; the largest differences from torch.

    `libraries` hold the custom operators that it was exported to.

    Raises:
        NodeFailed: names the axes whose other size fails, and the ONNX node where it is known.
    """
    session = onnxmodel.open_session(file, libraries=libraries)
    takes = [each.name for each in session.get_inputs()]
    measured = [
        _prove(session, case, {name: case.feeds[name] for name in takes}, absolute, relative)
        for case in found
        for _ in range(2)
    ]
    return {
        "parity_max_abs": max(each["max_abs"] for each in measured),
        "parity_max_rel": max(each["max_rel"] for each in measured),
    }


def unproven(found: Sequence[Case], names: Sequence[str]) -> tuple[str, ...]:
    """Sentences about outputs that are no numbers: equal to torch's, and yet proof of nothing.

    No failure, since a network may ask for inputs (positive ones, say) that random examples are not.
    """
    return tuple(filter(None, (_unproven(name, [case.want[i] for case in found]) for i, name in enumerate(names))))


def _unproven(name: str, wanted: Sequence[Any]) -> str:
    import numpy as np

    if not any(np.isfinite(want).any() for want in wanted):
        return f"output {name!r} is NaN or infinite throughout on the example inputs, so its parity proves nothing"
    lost = sum(int((want != want).sum()) for want in wanted)
    whole = sum(want.size for want in wanted)
    return (
        f"output {name!r} is NaN in {lost} of {whole} values on the example inputs, of which nothing is proven"
        if lost
        else ""
    )


def run_torch(module: Any, feeds: Mapping[str, Any]) -> tuple[Any, ...]:
    """The network's output tensors as arrays, in the order in which exporters flatten them."""
    import torch
    from torch.utils._pytree import tree_leaves

    arguments = [torch.from_numpy(array.copy()) for array in feeds.values()]
    try:
        with torch.no_grad():
            outputs = module(*arguments)
    except Exception as error:
        at = f" at {user_line(error)}" if user_line(error) else ""
        raise NodeFailed(f"the network fails{at}: {words(error)}") from error
    tensors = [each for each in tree_leaves(outputs) if isinstance(each, torch.Tensor)]
    return tuple(_array(i, each) for i, each in enumerate(tensors))


def _array(i: int, tensor: Any) -> Any:
    try:
        return tensor.detach().numpy().copy()  # a parameter among the outputs keeps its gradient, no_grad or not
    except (TypeError, RuntimeError) as error:  # bfloat16, sparse, quantised
        raise NodeFailed(
            f"output {i} of the network is {str(tensor.dtype).removeprefix('torch.')}, {tensor.layout}, which no ONNX "
            f"file can be compared with: {str(error).splitlines()[0]}",
            "answer with plain tensors: .float(), .to_dense()",
        ) from error


def _example(module: Any, inputs: Sequence[Input], fixed: Mapping[str, int]) -> Case:
    refused = NodeFailed("")
    for sizes in onnxmodel.trial_sizes(as_summary(inputs), fixed):
        try:
            return _case(module, inputs, sizes, ())
        except NodeFailed as error:
            refused = error
    _assert_ranges(module, inputs, list(onnxmodel.trial_sizes(as_summary(inputs), fixed)), refused)
    shapes = ", ".join(f"{each.name} {list(each.shape)}" for each in inputs)
    raise NodeFailed(
        f"no example of the inputs {shapes} fits: {refused.message}",
        "check their number, order and types; sizes that the network needs: sizes: {axis: 64}",
    ) from refused


def _second(module: Any, inputs: Sequence[Input], example: Case, axis: str) -> Case:
    refused = NodeFailed("")
    others = [
        {**example.sizes, axis: size}
        for size in onnxmodel.other_sizes(example.sizes[axis])
        if size != example.sizes[axis]
    ]
    for sizes in others:
        try:
            return _case(module, inputs, sizes, (axis,))
        except NodeFailed as error:
            refused = error
    _assert_ranges(module, inputs, others, refused)
    raise NodeFailed(
        f"axis {axis!r} is dynamic, but the network takes no size but {example.sizes[axis]}: {refused.message}",
        f"write {example.sizes[axis]} in place of {axis!r} in `inputs`, or mend the network",
    ) from refused


def _large(module: Any, inputs: Sequence[Input], example: Case) -> list[Case]:
    """The example with every axis enlarged that torch lets grow; nothing where it lets none.

    An axis may have an end (a table of positions), and large inputs would take too long: neither is a fault.
    """
    found: list[Case] = []
    for axis, size in example.sizes.items():
        grown = found[0] if found else example
        sizes = {**grown.sizes, axis: size + _TILE}
        if elements(inputs, sizes) <= _MOST_ELEMENTS:
            with contextlib.suppress(NodeFailed):
                found = [_case(module, inputs, sizes, (*grown.axes, axis))]
    return found


def _assert_ranges(
    module: Any, inputs: Sequence[Input], tried: Sequence[Mapping[str, int]], refused: NodeFailed
) -> None:
    """Blame a range and not the sizes when the network takes those with nothing but the range's lower end."""
    import numpy as np

    for sizes in tried:
        feeds = onnxmodel.feeds(as_summary(inputs), sizes)
        for each in inputs:
            if each.limits and "int" in each.dtype:
                lowest = np.full_like(feeds[each.name], each.limits[0])
                try:
                    run_torch(copy.deepcopy(module), {**feeds, each.name: lowest})
                except NodeFailed:
                    continue
                raise NodeFailed(
                    f"input {each.name!r}: the network does not take every number of its range "
                    f"[{each.limits[0]}, {each.limits[1]}]: {refused.message}",
                    f"a range goes {RANGE_RULE}: an embedding of 50 rows has range: [0, 50]",
                ) from refused


def _case(module: Any, inputs: Sequence[Input], sizes: Mapping[str, int], axes: tuple[str, ...]) -> Case:
    feeds = onnxmodel.feeds(as_summary(inputs), sizes)
    return Case(dict(sizes), axes, feeds, run_torch(copy.deepcopy(module), feeds))


def _assert_repeats(module: Any, case: Case, absolute: float, relative: float) -> None:
    subject = copy.deepcopy(module)
    run_torch(subject, case.feeds)
    try:
        parity.assert_close(_named(run_torch(subject, case.feeds)), _named(case.want), absolute, relative)
    except NodeFailed as error:
        raise NodeFailed(
            f"the network answers differently when asked twice {case.where}: {error.message}",
            "random numbers and state kept between calls have no place in a file; remove them",
        ) from error


def _named(outputs: Sequence[Any]) -> dict[str, Any]:
    return {str(i): each for i, each in enumerate(outputs)}


def _prove(session: Any, case: Case, feeds: Mapping[str, Any], absolute: float, relative: float) -> dict[str, Any]:
    try:
        got = onnxmodel.run(session, feeds)
        want = {name: case.want[i] for i, name in enumerate(got)}
        return parity.assert_close(got, want, absolute, relative, case.where)
    except NodeFailed as error:
        if not case.axes:
            raise NodeFailed(f"the file differs from torch {case.where}: {error}") from error
        raise NodeFailed(
            f"{_subject(case.axes)} dynamic in name only; {case.where}: {error}",
            FREEZES,
        ) from error


def _subject(axes: Sequence[str]) -> str:
    names = ", ".join(map(repr, axes))
    return f"axis {names} is" if len(axes) == 1 else f"axes {names} are"


def _axes(name: str, shapes: Sequence[Sequence[int]], found: Sequence[Case]) -> list[int | str]:
    if len({len(shape) for shape in shapes}) != 1:
        return []
    return [_axis(f"{name}_{i}", [shape[i] for shape in shapes], found) for i in range(len(shapes[0]))]


def _axis(own: str, sizes: Sequence[int], found: Sequence[Case]) -> int | str:
    if len(set(sizes)) == 1:
        return sizes[0]
    same = (axis for axis in found[0].sizes if [case.sizes[axis] for case in found] == list(sizes))
    return next(same, own)
