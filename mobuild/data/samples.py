"""Samples as a model takes them: streamed, numbered, with a label where there is one.

The same functions of the user's serve calibration and evaluation. What is said about many samples at once
is left to `manifest`, and how they fit a model to `batching`.
"""

from __future__ import annotations

import itertools
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping

from mobuild import usercode
from mobuild.data.readers import LABELS, READERS, Raw
from mobuild.data.spec import Data
from mobuild.errors import MobuildError, NodeFailed
from mobuild.firstparty import is_first_party

_RETURNS = "return {input: array without batch}, or ({...}, label)"


@dataclass(frozen=True)
class Sample:
    """What the model gets for one sample: an array for each input, without the batch axis."""

    index: int
    feeds: Mapping[str, Any]
    label: Any = None


def samples(data: Data, inputs: Mapping[str, Path]) -> Iterator[Sample]:
    """The samples of `data`, in order, at most `data.limit`.

    `inputs` are those of the node: the role `data` is the file, the others serve the user's functions,
    which get those that they name as parameters.

    Raises:
        NodeFailed: a file cannot be read, or a function of the user's raises or returns something else.
    """
    raws = _raws(data, inputs)
    transform = _transform(data, inputs)
    for index, (raw, label) in enumerate(itertools.islice(raws, data.limit or None)):
        yield transform(index, raw, label)


def sample_digest(sample: Sample) -> str:
    """SHA-256 of the inputs: names, types, shapes and values; the label does not count."""
    import hashlib

    import numpy as np

    state = hashlib.sha256()
    for name in sorted(sample.feeds):
        array = np.ascontiguousarray(sample.feeds[name])
        state.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        state.update(array.tobytes())
    return state.hexdigest()


def _raws(data: Data, inputs: Mapping[str, Path]) -> Iterator[Raw]:
    if not data.iterator:
        return READERS[data.format](inputs["data"], data.limit)
    function = usercode.resolve(data.iterator)
    if data.path and not usercode.takes(function, "data", positional=0) and not _transform_takes_data(data):
        raise NodeFailed(
            f"data: {data.file_format} {data.path!r} beside iterator {data.iterator!r}, which does not read it: it has "
            "no parameter 'data'",
            f"drop one of the two, or write `def {data.iterator.rpartition(':')[2]}(data)`, which gets the path",
        )
    return _iterated(data.iterator, usercode.bound(function, inputs, positional=0))


def _transform_takes_data(data: Data) -> bool:
    return bool(data.transform) and usercode.takes(usercode.resolve(data.transform), "data")


def _iterated(reference: str, function: Callable[[], Any]) -> Iterator[Raw]:
    """What the user's iterator yields, as (inputs, label)."""
    what, index = f"iterator {reference!r}", 0
    values = _called(f"{what}, sample 0", lambda: iter(function()))
    while True:
        value = _called(f"{what}, sample {index}", lambda: next(values, _END))
        if value is _END:
            return
        yield value if isinstance(value, tuple) and len(value) == 2 else (value, None)
        index += 1


_END = object()


def _transform(data: Data, inputs: Mapping[str, Path]) -> Callable[[int, Any, Any], Sample]:
    if not data.transform:
        what = f"iterator {data.iterator!r}" if data.iterator else f"{data.format} file '{inputs['data']}'"
        return lambda index, raw, label: Sample(index, _feeds(what, index, _without_label(raw)), label)
    function = usercode.bound(usercode.resolve(data.transform), inputs, positional=1)
    what = f"transform {data.transform!r}"

    def transform(index: int, raw: Any, label: Any) -> Sample:
        made = _called(f"{what}, sample {index}{_file(raw)}", lambda: function(raw))
        if isinstance(made, tuple) and len(made) == 2:
            made, label = made
        return Sample(index, _feeds(what, index, made), label)

    return transform


def _without_label(raw: Any) -> Any:
    return {name: value for name, value in raw.items() if name not in LABELS} if isinstance(raw, Mapping) else raw


def _feeds(what: str, index: int, made: Any) -> dict[str, Any]:
    if not isinstance(made, Mapping):
        raise NodeFailed(
            f"{what}, sample {index}: expected a mapping of input names to arrays, found {type(made).__name__}",
            _RETURNS if what.startswith(("transform", "iterator")) else f"write a transform; {_RETURNS}",
        )
    return {str(name): _array(what, index, name, value) for name, value in made.items()}


def _array(what: str, index: int, name: str, value: Any) -> Any:
    """`value` as a NumPy array; plain numbers get the types that models use."""
    import numpy as np

    is_plain = isinstance(value, (bool, int, float, list, tuple))
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise NodeFailed(f"{what}, sample {index}, input {name!r}: expected an array, found {error}") from error
    if array.dtype.hasobject:
        found = type(value).__name__
        raise NodeFailed(f"{what}, sample {index}, input {name!r}: expected an array of numbers, found a {found}")
    return array.astype(np.float32) if is_plain and array.dtype == np.float64 else array


def _file(raw: Any) -> str:
    """Which file a sample is, as its folder has it, where it is one."""
    return f" ('{raw.name}')" if isinstance(raw, Path) else ""


def _called(what: str, call: Callable[[], Any]) -> Any:
    """What `call` returns.

    Raises:
        NodeFailed: it raised; `what` names the sample, and the user's line is told.
    """
    try:
        return call()
    except (MobuildError, ModuleNotFoundError):
        raise
    except Exception as error:
        raise NodeFailed(f"{what}: {_words(error)}") from error


def _words(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__ or sys.exc_info()[2])
    own = [frame for frame in frames if is_first_party(frame.filename)]
    at = f" at {Path(own[-1].filename).name}:{own[-1].lineno}" if own else ""
    return f"{type(error).__name__}{at}: {error}"
