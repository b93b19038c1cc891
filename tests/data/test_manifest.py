"""What a manifest says of a set, and what follows from it for calibration."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from mobuild.data import Sample, fitness
from mobuild.data.manifest import Manifest, distance, overlap
from mobuild.errors import NodeFailed

RANDOM = np.random.default_rng(0)


def manifest(arrays: Iterable[Any], name: str = "x") -> dict[str, Any]:
    found = Manifest()
    for index, array in enumerate(arrays):
        found.add(Sample(index, {name: np.asarray(array)}))
    return json.loads(json.dumps(found.document()))


def tones(count: int, size: int = 256, scale: float = 1.0) -> list[Any]:
    at = np.arange(size)
    return [(scale * np.sin(at * (0.02 + 0.004 * i))).astype("f4") for i in range(count)]


def test_a_manifest_counts_samples_lengths_values_and_duplicates() -> None:
    found = manifest([np.arange(n, dtype="f4") for n in (3, 5, 3)])

    assert (found["count"], found["duplicates"], len(found["digests"])) == (3, 1, 3)
    assert found["digests"] == sorted(found["digests"])
    assert found["inputs"]["x"]["lengths"] == {"0": {"3": 2, "5": 1}}
    assert found["inputs"]["x"]["range"] == [0.0, 4.0]
    assert found["inputs"]["x"]["largest"] == {"value": 4.0, "sample": 1}


def test_text_is_counted_and_has_no_range() -> None:
    found = manifest([np.asarray(text) for text in ("one", "two", "two")], "path")

    assert (found["count"], found["duplicates"]) == (3, 1)
    assert found["inputs"]["path"]["range"] == [0.0, 0.0]


def test_quantiles_are_right_to_a_hundredth_whatever_the_scale_and_order() -> None:
    values = (RANDOM.standard_normal(5000) * 10 ** RANDOM.uniform(-6, 6, 5000)).astype("f4")

    one, other = manifest(values.reshape(50, 100)), manifest(np.sort(values).reshape(10, 500))

    for share, value in one["inputs"]["x"]["quantiles"].items():
        exact = np.quantile(values, float(share) / 100, method="inverted_cdf")
        assert value == pytest.approx(exact, rel=0.01), share
    assert one["inputs"]["x"]["quantiles"] == other["inputs"]["x"]["quantiles"]


def test_a_fine_set_raises_nothing() -> None:
    found = manifest(tones(120))

    fitness.check_fitness(found)

    assert fitness.warnings(found) == []


@pytest.mark.parametrize("shape", [(256,), (3, 48, 48), (48, 48, 3)])
def test_random_numbers_look_like_noise_and_smooth_ones_do_not(shape: tuple[int, ...]) -> None:
    noise = RANDOM.random((110, *shape)).astype("f4")
    smooth = np.cumsum(RANDOM.standard_normal((110, *shape)), axis=2 if shape[0] == 3 else 1).astype("f4")

    warned = fitness.warnings(manifest(noise))

    assert len(warned) == 1
    assert warned[0].startswith("input 'x': the data looks like noise: neighbouring values correlate by 0.0")
    assert fitness.warnings(manifest(smooth)) == []


def test_token_ids_and_short_vectors_have_no_neighbours_to_judge() -> None:
    assert fitness.warnings(manifest(RANDOM.integers(0, 30000, (110, 64)))) == []
    assert fitness.warnings(manifest(RANDOM.random((110, 16)).astype("f4"))) == []


def test_an_outlier_is_named_with_its_sample_and_the_quantile() -> None:
    arrays = tones(120)
    arrays[7][9] = 1e6

    assert fitness.warnings(manifest(arrays)) == [
        "input 'x': an outlier of 1e+06 in sample 7, while 99 % of the values lie within ±0.998; a range that "
        "reaches so far leaves no steps for the others"
    ]


def test_few_samples_are_warned_of() -> None:
    assert fitness.warnings(manifest(tones(99))) == [
        "calibration data: 99 samples; fewer than 100 give ranges of little worth"
    ]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([], "calibration data: expected at least 2 samples, 100 or more for good ranges, found 0"),
        (tones(1), "calibration data: expected at least 2 samples, 100 or more for good ranges, found 1"),
        (tones(2) * 3, "calibration data: 4 of 6 samples equal an earlier one"),
        (
            [np.full(8, i, "f4") for i in range(3)] + tones(1),
            "calibration data: 3 of 4 samples are constant, one value all over",
        ),
    ],
)
def test_a_set_that_shows_nothing_is_refused(arrays: list[Any], message: str) -> None:
    with pytest.raises(NodeFailed) as error:
        fitness.check_fitness(manifest(arrays))

    assert error.value.message == message


def test_a_constant_mask_beside_real_inputs_is_no_fault() -> None:
    found = Manifest()
    for i in range(120):
        found.add(Sample(i, {"ids": np.arange(i, i + 5), "mask": np.ones(5, np.int64)}))

    fitness.check_fitness(found.document())

    assert fitness.warnings(found.document()) == []


def test_shared_samples_are_counted() -> None:
    assert overlap(manifest(tones(10)), manifest(tones(14)[8:])) == 2
    assert overlap(manifest(tones(4)), manifest(tones(8)[4:])) == 0


def test_sets_of_one_kind_are_near() -> None:
    assert distance(manifest(tones(120)), manifest(tones(200)[120:])) == []


def test_other_values_and_lengths_are_far() -> None:
    found = distance(manifest(tones(50)), manifest(tones(50, size=1024, scale=255)))

    assert found == [
        "input 'x': 99 % of the calibration values lie within ±0.998, of the evaluation values within ±254.5",
        "input 'x', axis 0: the median length of the calibration samples is 256, of the evaluation samples 1024",
    ]
