"""Runs one form of a model over samples: the graph in ONNX Runtime, or the engine through the runtime.

Batches go in, the outputs of single samples come out. Which forms are compared, and how far they are
apart, is the caller's affair.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, Mapping

from mobuild import onnxmodel
from mobuild.backend import Backend, Profile
from mobuild.data import Batch, Sample
from mobuild.engine_errors import runtime_errors
from mobuild.errors import NodeFailed
from mobuild.evaluation.rounding import rounded
from mobuild.onnxmodel.summary import axes
from mobuild.profiles import profiles
from mobuild.runtime.runner import open_engine

SIZE = 16  # samples of one run: larger ones are hardly faster on a CPU, and their outputs lie in memory

Run = Callable[[Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True)
class Form:
    """A form of the model that can be run. `name` is the stage that made it; `size` samples fit in one run; `word` is
    what messages call it."""

    name: str
    file: Path
    run: Run
    size: int = SIZE
    rounds_to: str = ""
    word: str = "engine"


@dataclass(frozen=True)
class Layout:
    """Which axis of each output is the batch; None where no axis is, so that samples run one by one."""

    axes: Mapping[str, Any]

    @classmethod
    def of(cls, summary: Mapping[str, Any]) -> Layout:
        """The layout of a model by its summary: the first axis of the first input names the batch."""
        batch = next((shape[0] for shape in map(axes, summary["inputs"]) if shape), None)
        return cls({each["name"]: _position(each["shape"], batch) for each in summary["outputs"]})

    def size(self, size: int) -> int:
        return 1 if None in self.axes.values() else size

    def split(self, batch: Batch, outputs: Mapping[str, Any]) -> Iterator[tuple[Sample, dict[str, Any]]]:
        """Each sample of the batch with its own outputs, without the batch axis.

        Raises:
            NodeFailed: an output is missing, is no array of numbers, or has fewer rows than samples went in.
        """
        for name, axis in self.axes.items():
            _check_output(name, outputs.get(name), axis, len(batch.samples))
        for i, sample in enumerate(batch.samples):
            yield sample, {name: _row(outputs[name], i, axis) for name, axis in self.axes.items()}


def open_graph(path: Path, scratch: Path, name: str, operators: Iterable[Path] = ()) -> Form:
    """The ONNX artifact in ONNX Runtime; half precision is rounded as `rounding` says.

    Constants are folded, else the weights of a Q/DQ graph are quantised anew in every run (MiniLM: 15 times
    slower). Fusions, which would change the numbers, are not made; the outputs are equal bit for bit. `operators` are
    libraries of custom ones.

    Raises:
        NodeFailed: ONNX Runtime cannot load the graph.
    """
    file, rounds_to = rounded(onnxmodel.plain_files(path, scratch), scratch)
    with runtime_errors():
        engine = open_engine(file, "onnxruntime", level="basic", operators=operators)

    def run(feeds: Mapping[str, Any]) -> Mapping[str, Any]:
        with runtime_errors():
            return engine.run(feeds)

    return Form(name, file, run, rounds_to=rounds_to, word="graph")


def open_built(path: Path, backend: Backend, summary: Mapping[str, Any], shapes: Any, name: str) -> Form:
    """The engine through the runtime that ships, with the profile that fits each batch.

    Raises:
        ToolchainError, NodeFailed: the engine cannot be opened or run here.
    """
    wanted = profiles(summary, shapes)
    with runtime_errors():
        engine = open_engine(path, backend.runtime, **backend.run_options(wanted))

    def run(feeds: Mapping[str, Any]) -> Mapping[str, Any]:
        fed = _padded(feeds, wanted[_fitting(wanted, feeds)]) if wanted else feeds
        with runtime_errors():
            return engine.run(fed)

    return Form(name, path, run, min([SIZE, *_largest(wanted)]))


def _position(shape: Any, batch: Any) -> Any:
    if not shape or batch is None:
        return None
    if isinstance(batch, str):
        return shape.index(batch) if batch in shape else None
    return 0 if shape[0] == batch else None


def _check_output(name: str, output: Any, axis: Any, count: int) -> None:
    if output is None:
        raise NodeFailed(f"output {name!r}: expected an array, found no such output")
    if getattr(output, "dtype", None) is None or output.dtype.hasobject or output.dtype.kind in "SU":
        raise NodeFailed(
            f"output {name!r}: expected an array of numbers, found {type(output).__name__}",
            "only numbers can be compared; leave texts, sequences and maps to the code after the model",
        )
    found = output.shape[axis] if axis is not None and output.ndim > axis else count if axis is None else 0
    if found < count:
        raise NodeFailed(f"output {name!r}: expected {count} rows for {count} samples, found {found}")


def _row(output: Any, i: int, axis: Any) -> Any:
    return output if axis is None else output.take(i, axis)


def _fitting(wanted: tuple[Profile, ...], feeds: Mapping[str, Any]) -> int:
    """The first profile that takes the feeds once they are padded; 0 when none does, which the engine will say."""
    for number, profile in enumerate(wanted):
        if all(_fits(feeds[name].shape, corners) for name, corners in profile.items() if name in feeds):
            return number
    return 0


def _fits(shape: tuple[int, ...], corners: Any) -> bool:
    low, _, high = corners
    if len(shape) != len(high) or any(size > most for size, most in zip(shape, high)):
        return False
    return all(size >= least for size, least in zip(shape[1:], low[1:]))


def _padded(feeds: Mapping[str, Any], profile: Profile) -> dict[str, Any]:
    """The feeds with their last row again until the profile's smallest batch is full."""
    import numpy as np

    padded = {}
    for name, array in feeds.items():
        low = profile[name][0]
        missing = low[0] - array.shape[0] if low and array.ndim else 0
        padded[name] = np.concatenate([array, array[-1:].repeat(missing, 0)]) if missing > 0 else array
    return padded


def _largest(wanted: tuple[Profile, ...]) -> list[int]:
    """The largest batch that any profile takes."""
    first = [next(iter(profile.values()))[2] for profile in wanted if profile]
    return [max(high[0] for high in first if high)] if any(first) else []
