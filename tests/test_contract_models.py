"""What the rules say of a model: its format, operators, profiles, memory, tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mobuild.contract.rules import Machine, Model, Request, check_model
from mobuild.hardware import Hardware
from mobuild.vocabulary import Vocabulary
from tests.contract_requests import (
    RTX,
    RUNTIME,
    SHAPES,
    SUMMARY,
    TENSORRT,
    on_card,
    said_of,
)

STRING = {"inputs": [{"name": "s", "dtype": "string", "shape": ["batch"]}]}
DOUBLE = {"inputs": [{"name": "x", "dtype": "float64", "shape": ["batch"]}]}
STATIC = {"inputs": [{"name": "x", "dtype": "float32", "shape": [1, 8]}]}
UNNAMED = {"inputs": [{"name": "x", "dtype": "float32", "shape": [None, 8]}]}
SHARED = {"inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 3, "side", "side"]}]}
UNKNOWN = {"inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 3, "?", "?"]}]}
LENGTHS = {"calibration": {"x": {"0": {"8": 90, "12": 10}}}}
IDS = {"inputs": [{"name": "x", "dtype": "int64", "shape": ["batch", "length"]}], "embeddings": {"x": 50}}
BIG = {"initializer_bytes": 3 << 30, "types": {"float32": 3 << 30}}


@pytest.mark.parametrize(
    ("request_", "summary", "expected"),
    [
        (on_card("l4", version="10.0"), {"opsets": {"ai.onnx": 21}}, [("R9", "error")]),
        (on_card("l4", version="10.5"), {"opsets": {"ai.onnx": 21}}, [("R9", "warning")]),  # its range is not sure
        (on_card("l4", version="12.0"), {"opsets": {"ai.onnx": 30}}, [("R9", "warning")]),
        (TENSORRT, {"opsets": {"ai.onnx": 8}}, [("R9", "error")]),
        (TENSORRT, {"opsets": {"ai.onnx": 0}}, [("R9", "error")]),
        (TENSORRT, {"opsets": {"ai.onnx.ml": 3}}, []),
        (RTX, {"opsets": {"ai.onnx": 99}}, [("R9", "warning")]),  # builds where no newer operator is in it
        (replace(RUNTIME, backend_version="1.16.3"), {"opsets": {"ai.onnx": 20}}, [("R9", "error")]),
        (replace(RUNTIME, backend_version="1.31.1"), {"ir_version": 14}, [("R9", "error")]),
        (replace(RUNTIME, machine=Machine(runtime="1.16.3")), {"opsets": {"ai.onnx": 20}}, [("R9", "error")]),
        (replace(RUNTIME, backend_version="1.99"), {"opsets": {"ai.onnx": 20}}, [("R9", "warning")]),
        (RTX, {"outputs": [SUMMARY["outputs"][0]] * 2}, [("F1", "error")]),
        (RTX, {"outputs": SUMMARY["inputs"]}, [("F1", "error")]),
        (RTX, STRING, [("F2", "error")]),
        (RTX, DOUBLE, [("F2", "warning")]),
        (RUNTIME, STRING, []),
        (RTX, BIG, [("F5", "note")]),
        (on_card("l4", version="10.4"), {"named": {"STFT": ["a", "b"]}}, [("R10", "error")]),
        (on_card("l4", version="10.5"), {"named": {"STFT": ["a"]}}, []),
        (TENSORRT, {"named": {"NonZero": ["a"]}}, []),
        (RTX, {"named": {"NonZero": ["a"]}}, [("R10", "error")]),
        (RTX, {"named": {"Frobnicate": ["a"]}}, [("R10", "warning")]),
        (RTX, {"named": {"acme::MyNorm": ["a"]}}, [("R10", "error")]),
        (replace(RTX, machine=Machine(plugins=("MyNorm",))), {"named": {"acme::MyNorm": ["a"]}}, []),
        (on_card("l4", libraries=("engine.plugin_0",)), {"named": {"acme::MyNorm": ["a"]}}, []),
        (RUNTIME, {"named": {"com.microsoft::QGemm": ["a"]}}, []),
        (RUNTIME, {"named": {"acme::MyNorm": ["a"]}}, [("R10", "error")]),
        (replace(RUNTIME, libraries=("ops",)), {"named": {"acme::MyNorm": ["a"]}}, []),
        (RTX, {"signs": {"scatter_reduction": {"a": "reduction add"}}}, [("O1", "error")]),
        (RTX, {"signs": {"random_seed": {"a": "seed 1"}}}, [("O1", "warning")]),
        (TENSORRT, {"signs": {"slice_axes": {"a": "axes 'b'"}}}, []),
        (on_card("l4", version="10.2"), {"signs": {"slice_axes": {"a": "axes 'b'"}}}, [("O1", "error")]),
        (RTX, {"signs": {"recurrent_in_if": {"a": "inside the If 'b'"}}}, [("S1", "error")]),
        (TENSORRT, {"signs": {"recurrent_in_if": {"a": "inside the If 'b'"}}}, [("S1", "warning")]),  # tried with RTX
        (RTX, {"signs": {"if_ranks_input": {"a": "ranks 1 and 2"}}}, [("S1", "error")]),
        (RTX, {"signs": {"if_ranks_shape": {"a": "ranks 1 and 2"}}}, [("S1", "warning")]),
        (RTX, {"signs": {"zero_point": {"a": "has zero point 3, not 0"}}}, [("Q1", "error")]),
        (RUNTIME, {"signs": {"zero_point": {"a": "has zero point 3, not 0"}}}, []),
        (replace(RTX, precision="int8"), {}, [("Q2", "error")]),
        (replace(RTX, precision="int8"), {"quantize_nodes": 2}, []),
        (on_card("l4", version="10.4", precision="int8", options={"typing": "weak"}), {}, []),
        (on_card("t4", backend="tensorrt_rtx", version="1.7.1.116"), {}, [("R3", "error")]),
        (on_card("t4", backend="tensorrt_rtx", version="1.7.1.116"), {"operators": {"Conv": 1}}, []),
        (on_card("t4", backend="tensorrt_rtx", version="1.7.1.116", precision="fp16"), {"types": {"float16": 64}}, []),
        (RTX, SHARED, [("P1", "error"), ("P2", "warning")]),
        (RTX, UNKNOWN, [("P1", "error")]),
        (RTX, {"inputs": [{"name": "x", "dtype": "float32", "shape": ["bacth", 8]}]}, [("P1", "error")]),
        (RTX, {**IDS, "ranges": {"x": [0, 52]}}, [("P1", "error"), ("T1", "error")]),
        (RTX, {**IDS, "ranges": {"x": [-1, 50]}}, [("P1", "error"), ("T1", "warning")]),
    ],
)  # fmt: skip
def test_models_are_judged(request_: Request, summary: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert said_of(request_, summary) == expected


def test_notes_tell_what_an_engine_will_take() -> None:
    assert said_of(RTX, STATIC, shapes={}) == [("F3", "note")]
    assert said_of(RTX, UNNAMED, shapes={"x_0": 4}) == [("F4", "note")]


def test_axes_of_one_name_may_differ_where_sizes_call_them_by_their_place() -> None:
    sizes = {"batch": 1, "side": 64}

    assert said_of(RTX, SHARED, shapes=sizes) == [("P2", "warning")]
    assert said_of(RTX, SHARED, shapes={**sizes, "x_3": 32}) == []
    assert said_of(RTX, UNKNOWN, shapes={"batch": 1, "x_2": 48, "x_3": 192}) == []
    assert said_of(RTX, UNKNOWN, shapes={"batch": 1, "?": 48}) == [("P2", "warning")]


def test_shapes_name_the_axis_and_the_nearest_one() -> None:
    summary = {**SUMMARY, "inputs": [{"name": "image", "dtype": "float32", "shape": ["batch", 8]}]}

    found = check_model(Model(RTX, summary, "sanitized", shapes={"bacth": 4}))

    assert [(each.code, each.message) for each in found] == [
        ("P1", "shapes: axis 'bacth' is no dynamic axis of the model. Did you mean 'batch'?")
    ]


def test_all_nodes_of_an_operator_are_named_at_once_with_the_first_version() -> None:
    request = on_card("l4", version="10.4")

    (found,) = check_model(Model(request, {**SUMMARY, "named": {"STFT": ["a", "b"]}}, "onnx", shapes=SHAPES))

    assert found.where == "nodes 'a', 'b'"
    assert found.message == "operator STFT: STFT is there from TensorRT 10.5 on"
    assert found.hint == "backend.version='\"11.5\"': TensorRT 10.5 is the first that has it"


@pytest.mark.parametrize(
    ("vocabulary", "expected"),
    [
        (Vocabulary(100, {"pad": 0, "eos": 99}), []),
        (Vocabulary(101, {"pad": 0}), [("T2", "warning")]),  # a word that may never come
        (Vocabulary(101, {"pad": 100}), [("T2", "error")]),
        (Vocabulary(100, {"pad": -1}), [("T2", "warning")]),
        (Vocabulary(50), []),
    ],
)
def test_tokenizers_are_compared_with_the_largest_table(vocabulary: Vocabulary, expected: list[Any]) -> None:
    tables = {"embeddings": {"kinds": 2, "words": 100}}

    assert said_of(RTX, tables, vocabularies={"tokenizer": vocabulary}) == expected
    assert said_of(RTX, {}, vocabularies={"tokenizer": vocabulary}) == []


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ({"batch": 4, "length": [1, 8, 12]}, []),
        ({"batch": 4, "length": [1, 8, 10]}, [("P3", "warning")]),
        ({"batch": 4, "length": [9, 10, 12]}, [("P3", "warning")]),
        ({"batch": 4, "length": [1, 8, 512]}, [("P4", "warning")]),
    ],
)
def test_profiles_are_compared_with_the_lengths_of_the_data(
    shapes: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert said_of(RTX, {**IDS, "ranges": {"x": [0, 50]}}, shapes=shapes, samples=LENGTHS) == expected


@pytest.mark.parametrize(("confidence", "severity"), [("M", "error"), ("K", "warning")])
def test_memory_refuses_on_a_measured_card_alone(confidence: str, severity: str) -> None:
    card = Hardware("here", "nvidia", compute_capability="8.9", memory_gib=2, confidence=confidence)

    assert said_of(replace(RTX, hardware=card), BIG) == [("F5", "note"), ("M1", severity)]
    assert said_of(replace(RTX, hardware=card, precision="fp16"), BIG, is_final=False) == [("F5", "note")]


@pytest.mark.parametrize("what", ["weights", "activations"])
@pytest.mark.parametrize(
    ("precision", "fits_gib", "options", "quantize_nodes", "is_final"),
    [
        ("fp32", 3.1, {}, 0, True),
        ("fp16", 3.1, {}, 0, True),
        ("fp16", 1.6, {}, 0, False),
        ("fp16", 1.6, {"typing": "weak"}, 0, True),
        ("int8", 0.8, {}, 0, False),
        ("int8", 0.8, {}, 4, True),
        ("int8", 0.8, {"typing": "weak"}, 0, True),
    ],
)
def test_memory_counts_what_a_precision_leaves(
    what: str, precision: str, fits_gib: float, options: dict[str, Any], quantize_nodes: int, is_final: bool
) -> None:
    made = BIG if what == "weights" else {"activations": [["float32", [3 << 28]]]}
    made = {**made, "quantize_nodes": quantize_nodes}

    for memory_gib, codes in ((fits_gib, []), (fits_gib - 0.2, ["M1"])):
        card = Hardware("here", "nvidia", compute_capability="8.9", memory_gib=memory_gib, confidence="M")
        wanted = replace(on_card("l4", version="10.9"), hardware=card, precision=precision, options=options)
        said = said_of(wanted, made, is_final=is_final)

        assert [code for code, _ in said if code == "M1"] == codes


def test_memory_counts_the_largest_tensors_at_the_largest_sizes() -> None:
    inside = {"activations": [["float32", ["batch", 1 << 20, 64]], ["float32", ["batch", 1 << 20, 64]]]}

    assert said_of(RTX, inside, shapes={"batch": [1, 4, 32]}) == []
    assert said_of(RTX, inside, shapes={"batch": [1, 4, 64]}) == [("M1", "warning")]


def test_records_of_other_kinds_may_know_less() -> None:
    known = {name: SUMMARY[name] for name in list(SUMMARY)[:12]}

    assert check_model(Model(RTX, known, "own", shapes=SHAPES)) == ()
