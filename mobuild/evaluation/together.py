"""Several models as one: the user's function runs them on a sample, and the answer is compared as that of one model.

`predict(models, sample)` gets models by role, each with `run(feeds) → {output: array}` as `mobuild.runtime` opens them,
and what the transform made of a sample. So the function that is validated is the one that ships.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator, Mapping

from mobuild import hooks
from mobuild.data import Data, Sample, samples
from mobuild.data.batching import check_finite
from mobuild.errors import NodeFailed
from mobuild.evaluation.runs import Form

_FORM = "predict(models: role → model with run(feeds), sample: name → array) → {output: array}"


def predictions(
    predict: str, models: Mapping[str, Form], data: Data, inputs: Mapping[str, Path]
) -> Iterator[tuple[Sample, Mapping[str, Any]]]:
    """Each sample with the outputs of all models together.

    Raises:
        NodeFailed: the function raises, returns something else than arrays by name, or other names than before.
    """
    function = hooks.callback("predict", predict, _FORM, 2, inputs)
    names: list[str] = []
    for sample in samples(data, inputs):
        check_finite(sample)
        try:
            found = function(dict(models), dict(sample.feeds))
        except NodeFailed as error:
            raise NodeFailed(f"sample {sample.index}: {error.message}", error.hint) from error
        outputs = _arrays(predict, sample, found)
        names = names or list(outputs)
        if list(outputs) != names:
            where = f"predict {predict!r}, sample {sample.index}"
            raise NodeFailed(f"{where}: expected the outputs {names} as before, found {list(outputs)}")
        yield sample, outputs


def _arrays(predict: str, sample: Sample, found: Any) -> dict[str, Any]:
    import numpy as np

    where = f"predict {predict!r}, sample {sample.index}"
    if not isinstance(found, Mapping) or not found:
        raise NodeFailed(f"{where}: expected arrays by name, found {type(found).__name__}", f"it is called as {_FORM}")
    arrays = {str(name): np.asarray(value) for name, value in found.items()}
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise NodeFailed(
                f"{where}, output {name!r}: expected an array of numbers, found the type {array.dtype}",
                "leave texts to the metric: give it the numbers that they are made of",
            )
    return arrays
