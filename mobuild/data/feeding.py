"""Says which samples went into a run that failed, and which integers: one beyond an embedding is the usual cause."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator, Mapping

from mobuild.data.batching import Batch
from mobuild.errors import NodeFailed


@contextmanager
def fed(batch: Batch, ranges: Mapping[str, Any]) -> Iterator[None]:
    """Inside, a NodeFailed gets the numbers of the samples and the least and greatest value of integer inputs.

    `ranges` are those of the model's summary: input → [low, high].
    """
    try:
        yield
    except NodeFailed as error:
        lines = [_values(batch, name, ranges) for name, array in batch.feeds.items() if _is_integer(array)]
        raise NodeFailed(f"{batch.span}: {error.message}", "\n".join([*lines, error.hint]).rstrip()) from error


def _is_integer(array: Any) -> bool:
    return array.dtype.kind in "iu" and array.size > 0


def _values(batch: Batch, name: str, ranges: Mapping[str, Any]) -> str:
    filled = [sample for sample in batch.samples if sample.feeds[name].size]
    least = min(filled, key=lambda sample: sample.feeds[name].min())
    greatest = max(filled, key=lambda sample: sample.feeds[name].max())
    low, high = ranges.get(name, (None, None))
    declared = f"; its range is [{low}, {high}], from {low} up to, but without, {high}" if low is not None else ""
    return (
        f"input {name!r} holds {least.feeds[name].min()} (sample {least.index}) to {greatest.feeds[name].max()} "
        f"(sample {greatest.index}){declared}"
    )
