"""Figures of outputs, scores of tasks, and their comparison in pairs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from mobuild.errors import ConfigError, NodeFailed
from mobuild.metrics import Comparison, Score, check_better, compared, paired, refuse_nonfinite, scores, sign_test


def figures(got: Any, want: Any) -> dict[str, Any]:
    comparison = Comparison()
    for i, (left, right) in enumerate(zip(np.asarray(got), np.asarray(want), strict=True)):
        comparison.add(i, left, right)
    return comparison.figures()


@pytest.mark.parametrize(
    ("lost", "gained", "p_value"), [(11, 8, 0.648), (7, 3, 0.344), (11, 4, 0.118), (55, 33, 0.0246), (0, 0, 1.0)]
)
def test_sign_test_is_exact_and_two_sided(lost: int, gained: int, p_value: float) -> None:
    assert sign_test(lost, gained) == pytest.approx(p_value, rel=0.01)
    assert sign_test(lost, gained) == sign_test(gained, lost)


def test_sign_test_of_many_pairs_neither_overflows_nor_vanishes() -> None:
    assert sign_test(5000, 5000) == 1.0
    assert 0 < sign_test(4800, 5200) < 1e-3


def test_pairs_are_counted_and_the_interval_holds_the_drop() -> None:
    before = [1.0] * 55 + [0.0] * 33 + [1.0] * 160 + [0.0] * 152
    after = [0.0] * 55 + [1.0] * 33 + [1.0] * 160 + [0.0] * 152

    found = paired(before, after)

    assert (found["samples"], found["lost"], found["gained"]) == (400, 55, 33)
    low, high = found["interval"]
    assert 0 < low < (55 - 33) / 400 < high < 0.11


def test_nothing_lost_is_no_proof_of_equality() -> None:
    few, many = paired([1.0] * 10, [1.0] * 10), paired([1.0] * 2000, [1.0] * 2000)

    assert few["interval"][1] > 0.1
    assert many["interval"][1] < 0.002


def test_scores_that_are_not_0_or_1_get_the_interval_of_their_mean() -> None:
    before, after = [0.5, 0.7, 0.9, 0.4], [0.4, 0.6, 0.7, 0.4]

    found = paired(before, after)

    half = 1.96 * float(np.std([0.1, 0.1, 0.2, 0.0], ddof=1)) / 2
    assert found["interval"] == pytest.approx([0.1 - half, 0.1 + half], abs=1e-4)
    assert paired([0.5], [0.4])["interval"] is None


def test_a_lower_loss_is_a_gain() -> None:
    reference, value = {"loss": Score(0.5, (0.4, 0.6))}, {"loss": Score(0.6, (0.3, 0.9))}

    found = compared(reference, value, "lower")["loss"]

    assert found["drop"] == pytest.approx(0.1)
    assert found["drop_relative"] == pytest.approx(0.2)
    assert (found["paired"]["lost"], found["paired"]["gained"]) == (1, 1)


def test_errors_of_0_and_1_have_the_interval_of_hits() -> None:
    """No error more is no proof that there is none: the interval of a low metric is no point either."""
    errors = {"wrong": Score(0.1, (1.0, *[0.0] * 9))}
    hits = {"right": Score(0.9, (0.0, *[1.0] * 9))}

    low, high = (compared(one, one, better) for one, better in ((errors, "lower"), (hits, "higher")))

    assert low["wrong"]["paired"]["interval"] == high["right"]["paired"]["interval"]


def test_a_reference_of_zero_has_no_relative_drop() -> None:
    assert compared({"a": Score(0.0)}, {"a": Score(0.1)}, "higher")["a"]["drop_relative"] is None


def test_direction_by_name_leaves_the_others_higher() -> None:
    both = {"accuracy": Score(1.0), "loss": Score(1.0)}

    found = compared(both, both, {"loss": "lower"})

    assert {name: each["better"] for name, each in found.items()} == {"accuracy": "higher", "loss": "lower"}


def test_direction_of_an_unknown_metric_is_named() -> None:
    with pytest.raises(NodeFailed) as caught:
        compared({"loss": Score(1.0)}, {"loss": Score(1.0)}, {"los": "lower"})

    assert str(caught.value) == "better: 'los' is no metric. Did you mean 'loss'?\n  metrics: loss"


def test_other_names_than_for_the_reference_are_refused() -> None:
    with pytest.raises(NodeFailed) as caught:
        compared({"a": Score(1.0), "b": Score(1.0)}, {"a": Score(1.0)}, "higher")

    assert caught.value.message == "metric: expected the names of the reference, 'a', 'b', found 'a'"


def test_scores_of_another_number_of_samples_are_refused() -> None:
    with pytest.raises(NodeFailed, match=r"metric 'a': expected 2 scores, as for the reference, found 1"):
        compared({"a": Score(1.0, (1, 1))}, {"a": Score(1.0, (1,))}, "higher")


def test_a_single_number_is_called_after_its_function() -> None:
    assert scores("det.py:Metrics.map50", np.float32(0.5), "the engine") == {"map50": Score(0.5)}


def test_an_array_is_one_score_per_sample() -> None:
    assert scores("a.py:f", {"hit": np.array([True, False])}, "x") == {"hit": Score(0.5, (1.0, 0.0))}


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (float("nan"), "metric 'a.py:f', on the engine: expected a finite number, found NaN"),
        ({"x": math.inf}, "metric 'a.py:f', on the engine, 'x': expected a finite number, found infinity"),
        (
            np.array([1.0, np.nan]),
            "metric 'a.py:f', on the engine: expected a finite number, found NaN as score 1, one of 1 such among 2",
        ),
        (None, "metric 'a.py:f', on the engine: expected a number, found the NoneType None"),
        ("0.9", "metric 'a.py:f', on the engine: expected a number, found the str '0.9'"),
        (True, "metric 'a.py:f', on the engine: expected a number, found the bool True"),
        (
            np.zeros((2, 3)),
            "metric 'a.py:f', on the engine: expected a number or a row of scores, found the shape [2, 3]",
        ),
        (np.zeros(0), "metric 'a.py:f', on the engine: expected at least one score, found none"),
        ({}, "metric 'a.py:f', on the engine: expected numbers by name, found an empty mapping"),
        ({1: 0.5}, "metric 'a.py:f', on the engine: expected texts as names, found 1"),
    ],
)
def test_a_metric_that_returns_no_finite_number_is_refused(returned: Any, message: str) -> None:
    with pytest.raises(NodeFailed) as caught:
        scores("a.py:f", returned, "the engine")

    assert caught.value.message == message


def test_unknown_direction_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"better: expected 'higher' or 'lower', found 'hihger'. Did you mean"):
        check_better("hihger")


def test_equal_outputs_have_no_noise() -> None:
    values = np.random.default_rng(0).normal(size=(4, 10))

    found = figures(values, values)

    assert found["cosine_mean"] == pytest.approx(1.0) and found["max_abs"] == 0
    assert found["snr_db"] is None
    assert (found["top1_agreement"], found["top5_agreement"]) == (1.0, 1.0)


def test_of_equal_values_the_first_is_the_greater() -> None:
    tied = np.zeros((1, 10))

    assert figures(tied, tied)["top5_agreement"] == 1.0
    assert figures(tied, np.eye(10)[[4]])["top5_agreement"] == 1.0
    assert figures(tied, np.eye(10)[[5]])["top5_agreement"] == 0.0


def test_figures_are_those_of_the_formulas() -> None:
    want = np.array([[3.0, 4.0], [1.0, 0.0]])
    got = np.array([[3.0, 4.5], [0.0, 1.0]])

    found = figures(got, want)

    first = (9 + 18) / (5 * math.sqrt(9 + 4.5**2))
    assert found["cosine_mean"] == pytest.approx(first / 2)
    assert (found["cosine_min"], found["worst_sample"]) == (0.0, 1)
    assert found["max_abs"] == 1.0
    assert found["mean_abs"] == pytest.approx(2.5 / 4)
    assert found["max_rel"] == pytest.approx(1000.0)
    assert found["snr_db"] == pytest.approx(10 * math.log10(26 / 2.25))
    assert found["top1_agreement"] == 0.5
    assert "top5_agreement" not in found


def test_one_number_per_sample_is_compared_over_all_samples() -> None:
    found = figures([[1.0], [2.0], [30.0]], [[1.0], [2.0], [3.0]])

    assert found["cosine_mean"] == pytest.approx(95 / math.sqrt(905 * 14))
    assert "top1_agreement" not in found


def test_infinities_that_the_reference_has_do_not_count() -> None:
    values = np.array([[-np.inf, 1.0, 2.0]])

    assert figures(values, values)["cosine_mean"] == pytest.approx(1.0)
    refuse_nonfinite("stage 'engine'", "y", 0, values, values)


def test_nan_names_stage_output_and_sample() -> None:
    got = np.array([[0.0, np.nan], [np.nan, 0.0]], np.float32)

    with pytest.raises(NodeFailed) as caught:
        refuse_nonfinite("stage 'engine'", "y", 7, got, np.zeros_like(got))

    assert caught.value.message == (
        "stage 'engine', output 'y', sample 7: expected finite numbers, found NaN at [0, 1] (2 of 4 values)"
    )
