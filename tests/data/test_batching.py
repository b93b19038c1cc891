"""Samples against a model's inputs: what fits is stacked in order, what does not is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mobuild.data import Sample, batches, check_finite, check_fit
from mobuild.errors import NodeFailed


def summary(**inputs: Any) -> dict[str, Any]:
    return {"inputs": [{"name": name, "dtype": dtype, "shape": shape} for name, (dtype, shape) in inputs.items()]}


TEXT = summary(ids=("int64", ["batch", "length"]), mask=("int64", ["batch", "length"]))
SOUND = summary(x=("float32", ["batch", 4]))


def text(index: int, length: int, mask: int | None = None) -> Sample:
    return Sample(index, {"ids": np.arange(length), "mask": np.ones(length if mask is None else mask, np.int64)})


def sound(index: int, *shape: int, dtype: str = "float32") -> Sample:
    return Sample(index, {"x": np.full(shape or (4,), index, dtype)})


def test_neighbours_of_equal_shapes_are_stacked_in_order() -> None:
    found = list(batches([text(i, length) for i, length in enumerate((2, 2, 2, 3, 2))], TEXT, 2))

    assert [[each.index for each in batch.samples] for batch in found] == [[0, 1], [2], [3], [4]]
    assert [batch.feeds["ids"].shape for batch in found] == [(2, 2), (1, 2), (1, 3), (1, 2)]


def test_a_fixed_batch_is_filled_with_the_last_sample() -> None:
    found = list(batches([sound(i) for i in range(3)], summary(x=("float32", [2, 4])), 8))

    assert [len(batch.samples) for batch in found] == [2, 1]
    assert found[1].feeds["x"][:, 0].tolist() == [2, 2]


def test_the_batch_goes_where_the_first_axis_of_the_first_input_stands_in_the_others() -> None:
    model = summary(x=("float32", ["n", 4]), state=("float32", [2, "n", 3]), rate=("int64", []))
    rate = np.array(16000)
    streams = [Sample(i, {"x": np.zeros(4, "f4"), "state": np.zeros((2, 3), "f4"), "rate": rate}) for i in range(2)]

    (found,) = batches(streams, model, 8)

    assert {name: array.shape for name, array in found.feeds.items()} == {"x": (2, 4), "state": (2, 2, 3), "rate": ()}


@pytest.mark.parametrize("batch", ["n", 1])
def test_an_input_of_a_fixed_size_that_is_not_the_batch_is_fed_as_it_is(batch: str | int) -> None:
    model = summary(x=("float32", [batch, 4]), scale=("float32", [2]))
    given = [Sample(i, {"x": np.zeros(4, "f4"), "scale": np.array([1, 2], "f4")}) for i in range(2)]

    found = list(batches(given, model, 8))

    assert [each.feeds["x"].shape for each in found] == ([(2, 4)] if batch == "n" else [(1, 4)] * 2)
    assert {each.feeds["scale"].shape for each in found} == {(2,)}


@pytest.mark.parametrize(
    ("sample", "model", "message"),
    [
        (Sample(3, {"xs": np.zeros(4, "f4")}), SOUND, "sample 3: 'xs' is no input of the model. Did you mean 'x'?"),
        (Sample(3, {"ids": np.arange(2)}), TEXT, "sample 3: expected the inputs ids, mask, found no 'mask'"),
        (sound(3, dtype="float64"), SOUND, "sample 3, input 'x': expected type float32, found float64"),
        (sound(3, 5), SOUND, "sample 3, input 'x': expected shape [4], found [5]"),
        (
            sound(3, 1, 4),
            SOUND,
            "sample 3, input 'x': expected shape [4] without the batch, found [1, 4]; leave the batch axis out",
        ),
        (
            text(3, 5, mask=4),
            TEXT,
            "sample 3, input 'mask': expected shape [length] (length is 5 in another input), found [4]",
        ),
    ],
)
def test_what_does_not_fit_is_named(sample: Sample, model: dict[str, Any], message: str) -> None:
    with pytest.raises(NodeFailed) as error:
        check_fit(sample, model)

    assert error.value.message == message


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_what_is_not_finite_is_named_with_its_place(value: str) -> None:
    sample = Sample(2, {"y": np.zeros(1, "f4"), "x": np.zeros((4, 8), "f4")})
    sample.feeds["x"][1, 3] = float(value)

    with pytest.raises(NodeFailed) as error:
        check_finite(sample)

    assert error.value.message == (
        f"sample 2, input 'x': expected finite numbers, found {value} at [1, 3] (1 of 32 values are NaN or infinite)"
    )
