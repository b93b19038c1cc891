"""Rules by family, on requests and on summaries: what each refuses, what it warns of, and what it leaves alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mobuild.contract import codes
from mobuild.contract.options import command_is_known
from mobuild.contract.rules import Machine, Model, Request, check, check_model
from mobuild.hardware import Hardware
from mobuild.vocabulary import Vocabulary
from tests import check_codes
from tests.projects import hardware

RTX = Request(hardware("l4"), "tensorrt_rtx", "1.7.1.116")
TENSORRT = Request(hardware("l4"), "tensorrt", "10.16")
SAME_CC = {"hardware_compatibility": "same_compute_capability"}
SAME = {"raw": {"hardware_compatibility_level": "SAME_COMPUTE_CAPABILITY"}}
COMPATIBLE = {"raw": {"VERSION_COMPATIBLE": True}}
RUNTIME = Request(hardware("cpu"), "onnxruntime", "1.32.0")
SUMMARY: Mapping[str, Any] = {
    "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 8]}],
    "outputs": [{"name": "y", "dtype": "float32", "shape": ["batch", 4]}],
    "opsets": {"ai.onnx": 18},
    "ir_version": 10,
    "nodes": 1,
    "operators": {"MatMul": 1},
    "initializer_bytes": 128,
    "dynamic_axes": ["batch"],
    "quantize_nodes": 0,
    "external_data": False,
    "ranges": {},
    "functions": 0,
    "named": {},
    "signs": {},
    "types": {"float32": 128},
    "embeddings": {},
    "activations": [],
}
SHAPES = {"batch": [1, 4, 16]}


def on_card(name: str, **fields: Any) -> Request:
    return Request(hardware(name), fields.pop("backend", "tensorrt"), fields.pop("version", "10.16"), **fields)


def said(request: Request) -> list[tuple[str, str]]:
    return [(each.code, each.severity) for each in check(request)]


def said_of(request: Request, summary: Mapping[str, Any] | None = None, **fields: Any) -> list[tuple[str, str]]:
    model = Model(request, {**SUMMARY, **(summary or {})}, "quantized", shapes=fields.pop("shapes", SHAPES), **fields)
    return [(each.code, each.severity) for each in check_model(model)]


CU13 = {"tensorrt": "10.16", "tensorrt-cu13": "10.16", "tensorrt-cu13-libs": "10.16"}


@pytest.mark.parametrize("request_", [RTX, TENSORRT, RUNTIME])
def test_a_plain_model_has_no_finding(request_: Request) -> None:
    assert said_of(request_) == []


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (on_card("t4", precision="bf16"), [("R3", "error")]),
        (on_card("v100", version="10.4", precision="int8"), [("R3", "warning")]),  # instructions, no tensor cores
        (on_card("gtx1070", version="8.6", precision="fp16"), [("R3", "warning")]),  # known from datasheets alone
        (on_card("l4", precision="fp16"), []),
        (on_card("l4", version="11.0", options={"typing": "weak"}), [("R4", "error")]),
        (on_card("l4", version="10.12", options={"typing": "weak"}), [("R4", "warning")]),
        (on_card("l4", version="10.4", options={"typing": "weak"}), []),
        (on_card("l4", version="11.0", options={"raw": {"FP16": True}}), [("R4", "error")]),
        (replace(RTX, options={"raw": {"INT8": True}}), [("R4", "error")]),
        (on_card("l4", options={"raw": {"max_workspace_size": 1}}), [("R5", "error")]),
        (on_card("l4", options={"raw": {"STRICT_NANS": True}}), []),
        (replace(RTX, options=COMPATIBLE), [("R13", "error")]),
        (replace(RTX, options={"raw": {"VERSION_COMPATIBLE": True, "EXCLUDE_LEAN_RUNTIME": True}}), []),
        (replace(RTX, options={"raw": {"REFIT": True}}), [("R13", "warning")]),
        (replace(RTX, options={"raw": {"EDITABLE_TIMING_CACHE": True}}), [("R13", "warning")]),
        (on_card("t4", options={"raw": {"hardware_compatibility_level": "AMPERE_PLUS"}}), [("R11", "error")]),
        (on_card("l4", version="10.8", options=SAME), [("R11", "error")]),
        (on_card("l4", version="10.9", options=SAME), []),
        (on_card("t4", options={"hardware_compatibility": "ampere_plus"}), [("R11", "error")]),
        (on_card("l4", version="10.8", options=SAME_CC), [("R11", "error")]),
        (on_card("l4", version="10.8", options={"hardware_compatibility": "none"}), []),
        (on_card("l4", machine=Machine(cuda="13.0", driver="535.54.03")), [("R6", "error")]),
        (on_card("l4", machine=Machine(cuda="12.9", driver="535.54.03")), [("R6", "warning")]),
        (replace(RTX, machine=Machine(cuda="13.2", driver="580.65.06")), [("R6", "error")]),  # compiles on the card
        (on_card("l4", machine=Machine(cuda="12.9", driver="620.10")), []),
        (on_card("l4", version="10.16", distributions=CU13, machine=Machine(driver="535.54.03")), [("R6", "warning")]),
        (on_card("l4", version="10.16", distributions=CU13, machine=Machine(driver_cuda="12.8")), [("R6", "warning")]),
        (on_card("l4", version="10.16", distributions=CU13, machine=Machine(driver_cuda="13.0")), []),
        (on_card("l4", version="10.16", distributions=CU13), []),
        (on_card("l4", version="10.8", distributions=CU13, machine=Machine(driver_cuda="12.8")), []),  # another version
        (on_card("l4", machine=Machine(cuda="13.1", driver_cuda="13.0")), [("R6", "warning")]),
        (on_card("l4", machine=Machine(cuda="12.9", driver_cuda="13.0")), []),
        (on_card("v100", version="10.4", machine=Machine(cuda="13.0")), [("R7", "error"), ("R7", "error")]),
        (on_card("l4", version="10.13.2", machine=Machine(cuda="11.8")), [("R7", "error")]),
        (on_card("rtx4090", machine=Machine(compat=True)), [("R8", "error")]),
        (on_card("l4", machine=Machine(compat=True, cuda="12.9", driver="470.10")), []),
        (on_card("l4", version="10.16", machine=Machine(runtime="10.16")), []),
        (on_card("l4", version="10.16", machine=Machine(runtime="11.0")), [("R12", "error")]),
        (on_card("l4", machine=Machine(runtime="11.0"), options=COMPATIBLE), []),
        (on_card("l4", machine=Machine(runtime="11.0"), options={"version_compatible": True}), []),
        (on_card("l4", version="8.6", machine=Machine(runtime="11.0"), options=COMPATIBLE), [("R12", "error")]),
        (on_card("l4", version="10.8", python="3.13.1"), [("R14", "error")]),
        (on_card("l4", version="10.9", python="3.13.1"), []),
        (on_card("l4", version="11.0", python="3.14.0"), [("R14", "error")]),
        (replace(RTX, python="3.11.7"), []),
        (on_card("l4", version="12.0", options={"typing": "weak"}), [("R19", "warning"), ("R4", "warning")]),
        (on_card("l4", options={"workspace": "32GiB"}), [("M2", "warning")]),
        (on_card("l4", distributions={"tensorrt": "10.16", "tensorrt-cu12-bindings": "10.16"}), [("E1", "warning")]),
        (on_card("l4", distributions={"tensorrt": "10.16", "tensorrt-cu12-libs": "10.16"}), []),
        (replace(RUNTIME, distributions={"torch": "2.13.0+cpu", "torchvision": "0.28.0+cu126"}), [("E2", "warning")]),
        (replace(RUNTIME, distributions={"torch": "2.13.0+cpu", "torchvision": "0.28.0"}), []),
    ],
)  # fmt: skip
def test_configurations_are_judged(request_: Request, expected: list[tuple[str, str]]) -> None:
    assert said(request_) == expected


@pytest.mark.parametrize(
    ("runtime", "tensorrt", "expected"),
    [("1.26.0", "11.4", [("R16", "error")]), ("1.27.0", "11.4", []), ("1.26.0", "10.16", [])],
)
def test_r16_pairs_onnx_runtime_with_tensorrt(runtime: str, tensorrt: str, expected: list[tuple[str, str]]) -> None:
    card = Hardware("l4", "nvidia", compute_capability="8.9")
    installed = {"onnxruntime-gpu": runtime, "tensorrt": tensorrt}

    request = Request(
        card, "onnxruntime", runtime, options={"provider": "TensorrtExecutionProvider"}, distributions=installed
    )

    assert said(request) == expected


@pytest.mark.parametrize(
    ("words", "version", "expected"),
    [
        ("trtexec --onnx={in.model} --workspace=4096 --saveEngine={out}", "8.6", [("R5", "warning")]),
        ("trtexec --onnx={in.model} --workspace=4096 --saveEngine={out}", "10.4", [("R5", "error")]),
        ("/opt/bin/trtexec --buildOnly --fp16", "11.0", [("R5", "error"), ("R5", "error")]),
        ("trtexec --fp16", "", [("R5", "warning")]),
        ("trtexec --int8 --onnx=m.onnx", "8.6", [("R15", "warning")]),
        ("trtexec --int8 --calib=c.cache", "8.6", []),
        ("trtexec --onnx=m.onnx --mystery", "10.4", []),
        ("python -m modelopt.onnx.quantization --onnx_path m.onnx", "", [("R15", "error")]),
        ("python -m modelopt.onnx.quantization --calibration_data_path c.npz", "", []),
        ("python export.py --workspace=4", "11.0", []),
    ],
)
def test_commands_are_judged(words: str, version: str, expected: list[tuple[str, str]]) -> None:
    assert [(each.code, each.severity) for each in command_is_known(words, version, "engine")] == expected


def test_r6_names_the_driver_that_is_here_and_what_is_newer() -> None:
    (here,) = check(on_card("l4", version="10.16", distributions=CU13, machine=Machine(driver_cuda="12.8")))
    (told,) = check(on_card("rtx4090", machine=Machine(cuda="13.1", driver_cuda="13.0")))

    assert here.message == (
        "the driver here runs CUDA up to 12.8, the installed wheels of TensorRT 10.16 are for CUDA 13"
    )
    assert here.hint == "a driver from 580.65.06 on, or the package cuda-compat of that CUDA"
    assert told.message == (
        "the driver here runs CUDA up to 13.0, check.cuda is 13.1: code that is compiled at run time may not load"
    )
    assert told.hint == "a driver from 580.65.06 on"


@pytest.mark.parametrize(
    ("export", "first"),
    [
        ("", "export the file with opset 20"),
        ("enc.onnx", "nodes.enc.onnx.opset=20"),
    ],
)
def test_r9_names_the_opset_and_a_release_that_takes_the_other(export: str, first: str) -> None:
    summary = {**SUMMARY, "opsets": {"ai.onnx": 22}}
    model = Model(on_card("l4", version="10.0"), summary, "onnx", shapes=SHAPES, export=export)

    (found,) = [each for each in check_model(model) if each.code == "R9"]

    assert found.hint == f"{first}, or backend.version='\"11.5\"'"


def test_r9_names_the_exporter_that_meets_an_old_opset() -> None:
    request = on_card("gtx1070", version="8.6")
    model = Model(request, {**SUMMARY, "opsets": {"ai.onnx": 20}}, "onnx", shapes=SHAPES, export="onnx")

    (found,) = [each for each in check_model(model) if each.code == "R9"]

    assert found.hint == "nodes.onnx.opset=17 nodes.onnx.exporter=torchscript"


@pytest.mark.parametrize(
    ("export", "hint"),
    [
        ("", "export the file with a dynamic axis 0"),
        ("onnx", "name the axis: nodes.onnx.inputs: {x: [batch, …]}"),
    ],
)
def test_f3_names_inputs_of_a_recipe_where_there_is_one(export: str, hint: str) -> None:
    summary = {**SUMMARY, "inputs": [{"name": "x", "dtype": "float32", "shape": [1, 8]}]}

    (found,) = check_model(Model(TENSORRT, summary, "onnx", shapes={}, export=export))

    assert (found.code, found.hint) == ("F3", hint)


@pytest.mark.parametrize(
    ("name", "version", "hint"),
    [("agx_orin_64", "11.0", "11.4.1"), ("agx_orin_64", "11.3.0", "11.4.1"), ("gh200", "10.4", "10.5")],
)
def test_r17_names_the_next_release_with_packages_for_the_host(name: str, version: str, hint: str) -> None:
    (found,) = check(on_card(name, version=version))

    assert (found.code, found.hint) == (
        "R17",
        f"backend.version='\"11.5\"', or TensorRT {hint} is the next that has them",
    )


def test_r5_names_the_replacement() -> None:
    (found,) = command_is_known("trtexec --workspace=4096", "10.4", "engine")

    assert (found.where, found.hint) == ("node 'engine'", "--memPoolSize=workspace:N (MiB, or with K, M, G)")


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


def test_memory_counts_the_largest_tensors_at_the_largest_sizes() -> None:
    inside = {"activations": [["float32", ["batch", 1 << 20, 64]], ["float32", ["batch", 1 << 20, 64]]]}

    assert said_of(RTX, inside, shapes={"batch": [1, 4, 32]}) == []
    assert said_of(RTX, inside, shapes={"batch": [1, 4, 64]}) == [("M1", "warning")]


def test_records_of_other_kinds_may_know_less() -> None:
    known = {name: SUMMARY[name] for name in list(SUMMARY)[:12]}

    assert check_model(Model(RTX, known, "own", shapes=SHAPES)) == ()


def test_every_code_has_one_family_and_says_what_it_is_about() -> None:
    listed = [code for each in codes.FAMILIES.values() for code in each]

    assert len(listed) == len(set(listed))
    assert set(listed) == set(codes.SAYS)


def test_every_code_of_the_rules_is_listed() -> None:
    sources = [path.read_text() for path in Path(codes.__file__).parent.glob("*.py")]

    used = {
        code
        for text in sources
        for code in re.findall(r'(?:Finding|found|_finding|_signed)\(\s*(?:model, )?"([A-Z]\d+)"', text)
    }

    assert used <= set(codes.SAYS)


def test_the_readme_lists_the_rules() -> None:
    assert check_codes.written() == check_codes.table(), "python -m tests.check_codes"


def hints_of(request: Request) -> dict[str, str]:
    return {each.code: each.hint for each in check(request)}


def test_another_backend_is_named_with_the_option_that_it_does_not_have() -> None:
    asked = on_card("v100", version="11.0", options={"version": "11.0"})

    assert "backend=onnxruntime without backend.version" in hints_of(asked)["R1"]
    assert "without" not in hints_of(replace(asked, options={}))["R1"]


@pytest.mark.parametrize("backend", ["tensorrt", "tensorrt_rtx"])
@pytest.mark.parametrize("card", ["t4", "v100"])
def test_half_stands_in_for_bfloat16_with_every_builder(card: str, backend: str) -> None:
    request = Request(hardware(card), backend, precision="bf16")

    assert hints_of(request)["R3"].startswith("precision=fp16, or ")


@pytest.mark.parametrize(("card", "provider", "codes"), [
    ("l4", "CPUExecutionProvider", [("R21", "note")]),
    ("l4", "CUDAExecutionProvider", []),
    ("cpu", "CPUExecutionProvider", []),
])  # fmt: skip
def test_onnx_runtime_on_the_cpu_of_a_card_is_told(card: str, provider: str, codes: list[tuple[str, str]]) -> None:
    request = Request(hardware(card), "onnxruntime", options={"provider": provider})

    assert [(each.code, each.severity) for each in check(request)] == codes


def test_the_names_of_outputs_are_changed_where_they_come_from() -> None:
    summary = {**SUMMARY, "outputs": SUMMARY["outputs"] * 2}
    of_file, of_export = (
        next(
            each
            for each in check_model(Model(RTX, summary, "sanitized", shapes=SHAPES, export=export))
            if each.code == "F1"
        )
        for export in ("", "onnx")
    )

    assert of_file.hint == "give every output a name of its own: export the file again, or rename them in it"
    assert of_export.hint == "give every output a name of its own: nodes.onnx.outputs"
