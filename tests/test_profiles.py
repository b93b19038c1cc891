from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobuild.errors import ConfigError, Refused
from mobuild.profiles import check_shapes, profiles, refuse_falling

TEXT = {
    "inputs": [
        {"name": "ids", "dtype": "int64", "shape": ["batch", "seq"]},
        {"name": "mask", "dtype": "int64", "shape": ["batch", "seq"]},
        {"name": "scale", "dtype": "float32", "shape": [1, 4]},
    ]
}
STATIC = {"inputs": [{"name": "x", "dtype": "float32", "shape": [1, 3]}]}
UNNAMED = {"inputs": [{"name": "x", "dtype": "float32", "shape": [None, 3]}]}
RESIZED = {
    "inputs": [{"name": "x", "dtype": "float32", "shape": ["n", 3]}, {"name": "size", "dtype": "int64", "shape": [2]}]
}
NO_SHAPE = {"inputs": [{"name": "x", "dtype": "float32", "shape": None}]}


def test_axis_name_gives_its_sizes_to_every_input() -> None:
    found = profiles(TEXT, {"batch": [1, 2, 4], "seq": 8})

    assert found == (
        {
            "ids": ((1, 8), (2, 8), (4, 8)),
            "mask": ((1, 8), (2, 8), (4, 8)),
            "scale": ((1, 4), (1, 4), (1, 4)),
        },
    )


def test_list_of_maps_gives_several_profiles() -> None:
    found = profiles(TEXT, [{"batch": 1, "seq": 8}, {"batch": [2, 4, 8], "seq": 8}])

    assert [profile["ids"] for profile in found] == [((1, 8),) * 3, ((2, 8), (4, 8), (8, 8))]


def test_the_place_of_an_axis_goes_before_its_name() -> None:
    (found,) = profiles(TEXT, {"batch": [1, 2, 4], "seq": 8, "mask_0": 1})

    assert found["ids"] == ((1, 8), (2, 8), (4, 8))
    assert found["mask"] == ((1, 8),) * 3


def test_two_axes_of_one_name_can_have_sizes_of_their_own() -> None:
    square = {"inputs": [{"name": "x", "dtype": "float32", "shape": ["b", 3, "?", "?"]}]}

    (found,) = profiles(square, {"b": 1, "x_2": 48, "x_3": [48, 192, 640]})

    assert found["x"] == ((1, 3, 48, 48), (1, 3, 48, 192), (1, 3, 48, 640))


@pytest.mark.parametrize(
    ("given", "contents"),
    [
        ([8, 16, 32], ((8, 8), (16, 16), (32, 32))),
        ([[1, 8], [1, 16], [1, 32]], ((1, 8), (1, 16), (1, 32))),
        ([[1, 8]], ((1, 8),) * 3),
        (8, ((8, 8),) * 3),
    ],
)
def test_an_integer_input_may_hold_sizes(given: Any, contents: Any) -> None:
    (found,) = profiles(RESIZED, {"n": [1, 2, 4], "size": given})

    assert found == {"x": ((1, 3), (2, 3), (4, 3)), "size": ((2,),) * 3}
    assert found.contents == {"size": contents}


def test_static_model_has_no_profile() -> None:
    assert profiles(STATIC, {}) == ()


def test_unnamed_axis_goes_by_input_and_place() -> None:
    assert profiles(UNNAMED, {"x_0": 2}) == ({"x": ((2, 3),) * 3},)


@pytest.mark.parametrize(
    ("summary", "shapes", "message", "hint"),
    [
        (
            TEXT,
            {"bach": 1, "seq": 8},
            "shapes: axis 'bach' is no dynamic axis of the model. Did you mean 'batch'?",
            "dynamic axes: batch, seq of 'ids', 'mask'",
        ),
        (
            TEXT,
            {"mask": [[1, 8], [2, 8], [4, 8]]},
            "shapes: axis 'mask' is no dynamic axis of the model. 'mask' is an input: sizes are given by axis",
            "dynamic axes: batch, seq of 'ids', 'mask'",
        ),
        (
            TEXT,
            {"masks": 4},
            "shapes: axis 'masks' is no dynamic axis of the model. Did you mean 'mask'? That is an input: sizes are "
            "given by axis",
            "dynamic axes: batch, seq of 'ids', 'mask'",
        ),
        (
            TEXT,
            [{"batch": 1, "seq": 8}, {"batch": 1}],
            "profile 1: input 'ids', axis 1: 'seq' has no size in shapes",
            "add shapes.seq=[min,opt,max], or one number\nshapes names 'batch'",
        ),
        (
            TEXT,
            [{"batch": 1, "seq": 8}, {"batch": 1, "seq": 8, "w": 3}],
            "shapes: profile 1: axis 'w' is no dynamic axis of the model.",
            "dynamic axes: batch, seq of 'ids', 'mask'",
        ),
        (
            TEXT,
            {"batch": 1},
            "input 'ids', axis 1: 'seq' has no size in shapes",
            "add shapes.seq=[min,opt,max], or one number\nshapes names 'batch'",
        ),
        (
            TEXT,
            {},
            "input 'ids', axis 0: 'batch' has no size in shapes",
            "add shapes.batch=[min,opt,max] shapes.seq=[min,opt,max], or one number each",
        ),
        (
            STATIC,
            {"batch": 1},
            "shapes: axis 'batch' is no dynamic axis of the model.",
            "the model has no dynamic axis; remove 'batch'",
        ),
        (
            UNNAMED,
            {},
            "input 'x', axis 0: has no name in the model, and no size in shapes",
            "add shapes.x_0=[min,opt,max], or one number",
        ),
        (
            RESIZED,
            {"n": 1, "size": [[8], [9], [10]]},
            "shapes: 'size' is an input of 2 numbers, found 1",
            "shapes.size=[min,opt,max], each one number or a list of 2",
        ),
        (
            RESIZED,
            {"n": [[1], [2], [3]]},
            "shapes: axis 'n': expected numbers, found lists",
            "only integer inputs hold lists of them",
        ),
        (
            NO_SHAPE,
            {},
            "input 'x': the model declares no shape, so no size can be given",
            "export the model with a shape for every input",
        ),
        (
            {"inputs": [{"name": "s", "dtype": "sequence", "shape": None}]},
            {},
            "input 's': expected a tensor, found the type sequence",
            "engines take tensors alone: export the model with one in its place",
        ),
    ],
)
def test_shapes_that_do_not_fit_the_model_are_refused(summary: Any, shapes: Any, message: str, hint: str) -> None:
    with pytest.raises((ConfigError, Refused)) as caught:
        profiles(summary, shapes)

    assert (caught.value.message, caught.value.hint) == (message, hint)
    is_misspelt = message.startswith("shapes: ")
    assert caught.value.status == (2 if is_misspelt else 1)  # what is only missing was understood


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (
            {"batch": [4, 2, 8], "seq": [1, 9, 8]},
            "axis 'batch': min 4 is larger than opt 2; axis 'seq': opt 9 is larger than max 8",
        ),
        ([{"batch": 1}, {"batch": [8, 4, 16]}], "profile 1: axis 'batch': min 8 is larger than opt 4"),
    ],
)
def test_falling_sizes_are_understood_and_refused(shapes: Any, message: str) -> None:
    with pytest.raises(Refused) as caught:
        refuse_falling(check_shapes(shapes))

    assert caught.value.message == f"shapes: {message}"


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (
            {"batch": [1, 8]},
            "shapes: axis 'batch': expected one size or [min, opt, max], found 2 numbers: [1, 8]",
        ),
        ({"batch": 0}, "shapes: axis 'batch': expected whole numbers from 1, found 0"),
        ({"batch": [1, 2.0, 3]}, "shapes: axis 'batch': expected whole numbers from 1, found 2.0"),
        ({"batch": True}, "shapes: axis 'batch': expected whole numbers from 1, found True"),
        ({"batch": "1,8,32"}, "shapes: axis 'batch': expected numbers, found '1,8,32'"),
        ({"batch": None}, "shapes: axis 'batch': expected whole numbers from 1, found None"),
        (
            [{"batch": 1}, {"batch": 0}],
            "shapes: profile 1: axis 'batch': expected whole numbers from 1, found 0",
        ),
        (
            {"size": [[1, 2], [3]]},
            "shapes: axis 'size': expected one list of whole numbers or [min, opt, max] of such, found [[1, 2], [3]]",
        ),
        ("1,3,32,32", "shapes: expected sizes by axis name, found '1,3,32,32'"),
        ([1, 3, 32, 32], "shapes: profile 0: expected sizes by axis name, found 1"),
    ],
)
def test_malformed_shapes_are_refused_without_a_model(shapes: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_shapes(shapes)

    assert caught.value.message == message


@given(st.dictionaries(st.text(min_size=1), st.lists(st.integers(1, 999), min_size=3, max_size=3).map(sorted)))
def test_checked_shapes_stay_as_they_are(shapes: dict[str, list[int]]) -> None:
    checked = check_shapes(shapes)

    assert check_shapes(checked) == checked
