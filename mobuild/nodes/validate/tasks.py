"""The user's metric, on the reference's outputs and on those of the form to prove.

It sees arrays over all samples, or lists of arrays where shapes differ; they lie on disk until it uses them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mobuild import usercode
from mobuild.data import Data
from mobuild.errors import NodeFailed
from mobuild.evaluation.reference import Reference
from mobuild.metrics import Score, scores
from mobuild.nodes.validate.measure import Measured

_LABELS_OF = {
    "npz": "an array 'label' or 'labels' in the .npz, one row a sample",
    "jsonl": "the key 'label' or 'labels' of each line",
    "arrays": "'label' or 'labels' in each .npz, or the name of the file's sub-folder",
    "images": "the name of the file's sub-folder",
    "iterator": "the iterator: yield ({input: array}, label)",
}


def add_scores(
    metric: str,
    inputs: Mapping[str, Path],
    reference: Reference,
    found: Measured,
    before: dict[str, Score],
    after: dict[str, Score],
) -> None:
    """Add the scores of `metric` for the reference to `before`, and for the measured form to `after`.

    Raises:
        NodeFailed: it returned no finite numbers, or a name that the evaluation script uses as well.
    """
    if not found.spool:
        return
    function = usercode.bound(usercode.resolve(metric), inputs, positional=2)
    labels = _labels(found.labels)
    both = [
        scores(metric, function(dict(outputs), labels), where)
        for outputs, where in (
            (reference.outputs, "the reference"),
            (found.spool.arrays(), f"the {found.word}"),
        )
    ]
    if shared := both[0].keys() & before.keys():
        raise NodeFailed(
            f"metric {sorted(shared)[0]!r}: measured by {metric!r} and by the evaluation script", "rename one of them"
        )
    before.update(both[0])
    after.update(both[1])


def unlabelled(metric: str, data: Data, labels: Sequence[Any]) -> list[str]:
    """A sentence where `metric` judges by labels that no sample has. Some metrics need none, so it is no error."""
    if not metric or any(label is not None for label in labels):
        return []
    places = [_LABELS_OF[data.format]]
    if data.transform:
        places.append("the transform: return ({input: array}, label)")
    return [
        f"metric {metric!r}: none of {len(labels)} samples has a label, so it proves nothing unless it needs none; "
        f"labels come from {', or '.join(places)}"
    ]


def _labels(labels: Sequence[Any]) -> Any:
    """An array where all labels are numbers or arrays of one shape; else the list."""
    import numpy as np

    if not all(isinstance(label, (int, float, np.number, np.ndarray)) for label in labels):
        return list(labels)
    shapes = {np.shape(label) for label in labels}
    return np.asarray(labels) if len(shapes) == 1 else list(labels)
