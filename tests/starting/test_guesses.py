"""What is guessed where a file says nothing."""

from __future__ import annotations

from typing import Any

import pytest

from mobuild.starting.guesses import guessed, sizes
from mobuild.starting.tensors import Input, Tensor

FIRST: dict[str, tuple[dict[str, tuple[int, ...]], tuple[Any, ...], str]] = {
    "a linear layer": ({"fc.weight": (16, 8), "fc.bias": (16,)}, ("batch", 8), "float32"),
    "images": ({"conv.weight": (8, 3, 3, 3)}, ("batch", 3, 224, 224), "float32"),
    "images, normalised": ({"mean": (3, 1, 1), "conv.weight": (8, 3, 3, 3)}, ("batch", 3, 224, 224), "float32"),
    "sound": ({"conv.weight": (8, 2, 5)}, ("batch", 2, "length"), "float32"),
    "words": ({"word_embeddings.weight": (50, 8)}, ("batch", "sequence"), "int64"),
    "a recurrent network": ({"lstm.weight_ih_l0": (32, 8)}, ("batch", "sequence", 8), "float32"),
    "a norm before": ({"norm.weight": (8,), "fc.weight": (16, 8)}, ("batch", 8), "float32"),
    "nothing": ({"scale": (4,)}, ("batch", 8), "float32"),
}


@pytest.mark.parametrize(("tensors", "shape", "dtype"), FIRST.values(), ids=FIRST)
def test_an_input_is_guessed_from_the_first_weights(
    tensors: dict[str, tuple[int, ...]], shape: tuple[Any, ...], dtype: str
) -> None:
    (found,) = guessed(["x"], {name: Tensor("float32", each) for name, each in tensors.items()})

    assert (found.name, found.shape, found.dtype) == ("x", shape, dtype)
    assert found.note


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (("batch", 8), {"batch": [1, 8, 32]}),
        (("N", "seq_len"), {"N": [1, 8, 32], "seq_len": [8, 128, 256]}),
        (("batch", 3, "height", "width"), {"batch": [1, 4, 8], "height": [224, 640, 640], "width": [224, 640, 640]}),
        (("x_0", "x_1"), {"x_0": [1, 8, 32], "x_1": [1, 16, 64]}),
        (("length",), {"length": [8, 128, 256]}),
        ((3, 4), {}),
    ],
)
def test_sizes_rise_and_go_by_the_names_of_axes(shape: tuple[Any, ...], expected: dict[str, list[int]]) -> None:
    assert sizes([Input("x", shape)]) == expected
