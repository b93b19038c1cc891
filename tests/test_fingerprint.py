"""Canonical bytes and keys: golden values and properties."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobuild.errors import ConfigError
from mobuild.fingerprint import Fingerprint, canonical, digest_bytes

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)

GOLDEN = Fingerprint(
    kind="export",
    revision=1,
    params={"opset": 20, "inputs": {"x": ["batch", 8]}, "tolerance": 1e-4, "flag": True, "text": "grün"},
    inputs={"weights": "00" * 16},
    code={"toy": "11" * 16},
    toolchain={"torch": "2.13.0"},
)


def test_a_key_stays_what_it_was() -> None:
    # Whoever changes this number makes every cache cold: raise the revision of a kind instead.
    assert GOLDEN.key == "bc3ff5fc1a795abe34c1d76a9d912acd"
    assert digest_bytes(b"") == "99aa06d3014798d86001c324468d497f"


def test_a_key_with_other_inputs_is_the_key_of_that_fingerprint() -> None:
    other = {"weights": "22" * 16, 'in."inputs":{}': "ä"}

    assert GOLDEN.keys()(other) == dataclasses.replace(GOLDEN, inputs=other).key
    assert GOLDEN.keys()(GOLDEN.inputs) == GOLDEN.key


@given(PLAIN, PLAIN)
def test_different_values_have_different_bytes(one: Any, other: Any) -> None:
    assert (canonical(one) == canonical(other)) == _same(one, other)


@given(st.dictionaries(st.text(), PLAIN, min_size=2, max_size=5))
def test_the_order_of_keys_does_not_matter(value: dict[str, Any]) -> None:
    assert canonical(value) == canonical(dict(reversed(list(value.items()))))


@given(PLAIN)
def test_canonical_bytes_say_the_value_and_nothing_else(value: Any) -> None:
    data = canonical(value)

    assert _same(json.loads(data), value)
    assert canonical(json.loads(data)) == data


@given(st.lists(st.tuples(st.text(), st.text()), min_size=2, max_size=4, unique=True))
def test_no_two_fields_run_into_each_other(pairs: list[tuple[str, str]]) -> None:
    keys = {Fingerprint("k", 1, {"a": one, "b": other}).key for one, other in pairs}

    assert len(keys) == len(pairs)


def test_names_that_are_no_unicode_have_bytes_of_their_own() -> None:
    assert canonical("\udcff") != canonical("\udcfe") != canonical("?")


@pytest.mark.parametrize(("one", "other"), [(1, 1.0), (1, True), (1, "1"), (None, "null"), ([1], [[1]]), ("", [])])
def test_types_are_told_apart(one: Any, other: Any) -> None:
    assert canonical(one) != canonical(other)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1: 2}, {"a": [object()]}, {"a": {None: 1}}])
def test_what_has_no_canonical_form_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError):
        canonical(value)


def test_a_refusal_says_where() -> None:
    with pytest.raises(ConfigError) as caught:
        canonical({"raw": {"scales": [1.0, float("inf")]}})

    assert caught.value.message == "parameter 'raw.scales[1]': inf is not a finite number"


def test_changes_name_the_subject_and_both_values() -> None:
    old = Fingerprint("engine", 1, {"workspace": "1GiB", "raw": {}}, {"model": "aa"}, {}, {"onnx": "1.22.0"})
    new = Fingerprint("engine", 2, {"workspace": "2GiB", "raw": {"level": 5}}, {"model": "bb"}, {}, {"onnx": "1.23.2"})

    assert [str(change) for change in new.changes_since(old)] == [
        "inputs.model: aa → bb",
        "params.raw: {} → -",
        "params.raw.level: - → 5",
        "params.workspace: 1GiB → 2GiB",
        "revision: 1 → 2",
        "toolchain.onnx: 1.22.0 → 1.23.2",
    ]
    assert new.changes_since(new) == ()


def _same(one: Any, other: Any) -> bool:
    """Equal in value and type, all the way down; -0.0 is not 0.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return repr(one) == repr(other)
