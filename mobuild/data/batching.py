"""How samples fit a model: names, types, shapes and finite values are checked, and equal shapes stacked.

Models differ in where their batch is: the first axis of the first input names it. An input without that
axis (a scalar such as a sample rate, or two thresholds) is fed as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterable, Iterator, Mapping, Sequence

from mobuild.data.samples import Sample
from mobuild.errors import NodeFailed, did_you_mean
from mobuild.onnxmodel.summary import axes


@dataclass(frozen=True)
class Batch:
    """Samples stacked into the feeds of one run.

    A model with a fixed batch gets the last sample again until it is full: only the first
    `len(samples)` rows of its outputs count.
    """

    samples: Sequence[Sample]
    feeds: Mapping[str, Any]

    @property
    def span(self) -> str:
        """`samples 32 to 47`, for messages."""
        first, last = self.samples[0].index, self.samples[-1].index
        return f"sample {first}" if first == last else f"samples {first} to {last}"


def batches(samples: Iterable[Sample], summary: Mapping[str, Any], size: int) -> Iterator[Batch]:
    """Neighbours of equal shapes as batches of at most `size`, in order; one model's fixed batch goes before.

    `summary` is that of `onnxmodel.summary`.

    Raises:
        NodeFailed: a sample does not fit the model (`check_fit`) or is not finite (`check_finite`).
    """
    layout = _Layout.of(summary)
    size = layout.fixed or size
    group: list[Sample] = []
    for sample in samples:
        check_fit(sample, summary)
        check_finite(sample)
        if group and (len(group) == size or layout.signature(sample) != layout.signature(group[0])):
            yield layout.stacked(group)
            group = []
        group.append(sample)
    if group:
        yield layout.stacked(group)


def check_fit(sample: Sample, summary: Mapping[str, Any]) -> None:
    """Refuse a sample that is none of the model's.

    Raises:
        NodeFailed: an input is unknown or missing, of another type or shape, or two axes of one name
            have different sizes.
    """
    layout = _Layout.of(summary)
    wanted = {each["name"]: each for each in summary["inputs"]}
    where = f"sample {sample.index}"
    for name in sample.feeds:
        if name not in wanted:
            raise NodeFailed(
                f"{where}: {name!r} is no input of the model.{did_you_mean(name, wanted)}",
                f"inputs: {', '.join(wanted)}",
            )
    sizes: dict[str, int] = {}
    for name, each in wanted.items():
        if name not in sample.feeds:
            raise NodeFailed(f"{where}: expected the inputs {', '.join(wanted)}, found no {name!r}")
        _check_array(f"{where}, input {name!r}", sample.feeds[name], each["dtype"], layout.shapes[name], sizes)


def check_finite(sample: Sample) -> None:
    """Refuse NaN and infinities.

    Raises:
        NodeFailed: names sample, input, how many there are and where the first is.
    """
    import numpy as np

    for name, array in sample.feeds.items():
        if array.dtype.kind != "f":
            continue
        bad = ~np.isfinite(array)
        if bad.any():
            place = tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), array.shape))
            raise NodeFailed(
                f"sample {sample.index}, input {name!r}: expected finite numbers, found {array[place]} at "
                f"{list(place)} ({int(bad.sum())} of {array.size} values are NaN or infinite)",
                "mend or leave out the sample; a range that is taken from it makes every output wrong",
            )


@dataclass(frozen=True)
class _Layout:
    """The shapes that samples have, and where their batch axis goes; None where there is none."""

    shapes: Mapping[str, Any]  # without the batch axis
    positions: Mapping[str, Any]
    fixed: int  # 0: any batch

    @classmethod
    def of(cls, summary: Mapping[str, Any]) -> _Layout:
        full = {each["name"]: axes(each) if each["shape"] is not None else None for each in summary["inputs"]}
        batch = next((shape[0] for shape in full.values() if shape), "")
        positions = {name: _position(shape, batch) for name, shape in full.items()}
        shapes = {name: _without(shape, positions[name]) for name, shape in full.items()}
        return cls(shapes, positions, batch if isinstance(batch, int) else 0)

    def signature(self, sample: Sample) -> Any:
        """What samples of one batch have in common."""
        return [
            array.shape if self.positions[name] is not None else (array.shape, array.tobytes())
            for name, array in sample.feeds.items()
        ]

    def stacked(self, group: Sequence[Sample]) -> Batch:
        import numpy as np

        rows = [*group, *[group[-1]] * (self.fixed - len(group))]
        feeds = {}
        for name, position in self.positions.items():
            arrays = [sample.feeds[name] for sample in rows]
            feeds[name] = arrays[0] if position is None else np.stack(arrays, axis=position)
        return Batch(tuple(group), feeds)


def _position(shape: Any, batch: Any) -> Any:
    if shape is None:
        return 0
    if isinstance(batch, str) and batch in shape:
        return shape.index(batch)
    return 0 if shape and (isinstance(shape[0], str) or shape[0] == batch) else None


def _without(shape: Any, position: Any) -> Any:
    return shape if shape is None or position is None else shape[:position] + shape[position + 1 :]


def _check_array(where: str, array: Any, dtype: str, shape: Any, sizes: dict[str, int]) -> None:
    if array.dtype.name != dtype:
        raise NodeFailed(f"{where}: expected type {dtype}, found {array.dtype.name}", f"convert it: .astype({dtype!r})")
    if shape is None:
        return
    wanted = "[" + ", ".join(map(str, shape)) + "]"
    if array.ndim != len(shape):
        more = "; leave the batch axis out" if array.ndim == len(shape) + 1 and array.shape[0] == 1 else ""
        raise NodeFailed(f"{where}: expected shape {wanted} without the batch, found {list(array.shape)}{more}")
    for axis, size in zip(shape, array.shape):
        expected = sizes.setdefault(axis, size) if isinstance(axis, str) else axis
        if expected != size:
            because = f" ({axis} is {expected} in another input)" if isinstance(axis, str) else ""
            raise NodeFailed(f"{where}: expected shape {wanted}{because}, found {list(array.shape)}")
