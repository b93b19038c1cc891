"""Operators of the parsers, by version."""

from __future__ import annotations

import pytest

from mobuild.facts import rtx
from mobuild.facts.operators import operator, operator_types


@pytest.mark.parametrize(
    ("name", "version", "word", "why"),
    [
        ("Conv", "10.0", "yes", ""),
        ("Attention", "10.13", "no", "Attention is there from TensorRT 10.14 on"),
        ("STFT", "10.5", "yes", ""),
        ("Unique", "11.5", "no", "no TensorRT takes Unique without a plugin"),
        ("Unique", "12.0", "unverified", "no TensorRT takes Unique without a plugin"),
        ("Slice", "10.2", "limited", "Slice: axes is a constant of the build"),
        ("Slice", "10.3", "yes", ""),
        ("Mine", "10.5", "unverified", "Mine is not in the table"),
    ],
)
def test_operators_of_the_parser(name: str, version: str, word: str, why: str) -> None:
    found = operator(name, version)

    assert (found.word, found.why) == (word, why)


def test_types_of_an_operator() -> None:
    assert operator_types("Conv") == ("fp32", "fp16", "bf16")
    assert operator_types("Attention") == ()


@pytest.mark.parametrize(
    ("name", "version", "word"),
    [
        ("Conv", "1.7.1.116", "yes"),
        ("NonZero", "1.7.1.116", "no"),  # TensorRT has a plugin for it, TensorRT-RTX has not
        ("SequenceAt", "1.7.1.116", "no"),
        ("NonZero", "1.5", "unverified"),
        ("NonZero", "2.0", "unverified"),
        ("Frobnicate", "1.7.1.116", "unverified"),
    ],
)
def test_tensorrt_rtx_is_sure_of_the_version_that_was_tried(name: str, version: str, word: str) -> None:
    assert rtx.operator(name, version).word == word
