"""Parity: measured per output, judged element by element."""

from __future__ import annotations

import numpy as np
import pytest

from mobuild.errors import NodeFailed
from mobuild.parity import assert_close, assert_close_in_the_mean, compare


def test_differences_are_measured_per_output() -> None:
    want = {"a": np.array([1.0, 2.0]), "b": np.array([0.0])}
    got = {"a": np.array([1.0, 2.5]), "b": np.array([1e-6])}

    found = compare(got, want)

    assert found["max_abs"] == 0.5
    assert found["outputs"]["a"] == {"max_abs": 0.5, "max_rel": 0.25}
    assert found["outputs"]["b"]["max_rel"] == pytest.approx(1e-3)


def test_difference_over_tolerance_names_output_and_numbers() -> None:
    want, got = {"y": np.array([[1.0, 2.0]])}, {"y": np.array([[1.0, 2.5]])}

    with pytest.raises(NodeFailed) as caught:
        assert_close(got, want, 1e-4, 1e-3, "at batch=1")

    assert caught.value.message == (
        "output 'y' at batch=1: expected 2 at [0, 1], found 2.5; largest difference 0.5 absolute, 0.25 relative"
    )
    assert caught.value.hint == "allowed: 0.0001 + 0.001 * |expected|"


@pytest.mark.parametrize(
    ("got", "want", "message"),
    [
        (np.zeros(3), np.zeros((3, 1)), "output 'y': expected shape [3, 1], found [3]"),
        (
            np.zeros(3, np.float32),
            np.zeros(3, np.float64),
            "output 'y': expected type float64, found float32",
        ),
        (np.array([np.nan, 1.0]), np.ones(2), "output 'y': expected 0 values of NaN, found 1 of 2"),
        (np.array([-np.inf]), np.array([np.inf]), "output 'y': expected 1 values of +infinity, found 0 of 1"),
    ],
)
def test_other_structure_is_a_failure(got: object, want: object, message: str) -> None:
    with pytest.raises(NodeFailed) as caught:
        compare({"y": got}, {"y": want})

    assert caught.value.message == message


def test_other_names_are_a_failure() -> None:
    with pytest.raises(NodeFailed, match=r"expected the outputs \['y'\], found \['z'\]"):
        compare({"z": np.ones(1)}, {"y": np.ones(1)})


def test_equal_infinities_and_scalars_are_close() -> None:
    want = {"y": np.array([np.inf, np.nan, 1.0]), "scalar": np.float32(3), "empty": np.zeros((0, 3))}

    assert assert_close(want, want)["max_abs"] == 0.0


def test_integers_must_be_equal() -> None:
    with pytest.raises(NodeFailed, match="expected 7 at"):
        assert_close({"y": np.array([8])}, {"y": np.array([7])}, 1e-4, 1e-3)


def test_in_the_mean_single_values_may_be_off_but_not_all() -> None:
    want = {"y": np.linspace(-1, 1, 100, dtype=np.float32)}
    one_off = {"y": want["y"] + np.eye(1, 100, 50, dtype=np.float32)[0]}

    measured = assert_close_in_the_mean(one_off, want, 0.2, "")
    with pytest.raises(NodeFailed) as caught:
        assert_close_in_the_mean({"y": want["y"] * 0.7}, want, 0.2, "at batch=2")

    assert measured["max_abs"] == pytest.approx(1)
    assert caught.value.message == (
        "output 'y' at batch=2: its values differ by 0.175 in the root mean square, which is 0.3 of their own 0.583; "
        "largest difference 0.3"
    )
    assert caught.value.hint == "allowed: 0.2 of it"


def test_texts_that_differ_are_named_with_their_place() -> None:
    with pytest.raises(NodeFailed) as caught:
        assert_close({"label": np.array([["cat", "cow"]], object)}, {"label": np.array([["cat", "dog"]], object)})

    assert caught.value.message == "output 'label': expected 'dog' at [0, 1], found 'cow'"
