"""Rules by family, on requests and on summaries: what each refuses, what it warns of, and what it leaves alone."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from mobuild.contract import codes
from mobuild.contract.options import command_is_known
from mobuild.contract.rules import Machine, Model, Request, check, check_model
from mobuild.hardware import Hardware
from tests import check_codes
from tests.contract_requests import (
    COMPATIBLE,
    RTX,
    RUNTIME,
    SAME,
    SAME_CC,
    SHAPES,
    SUMMARY,
    TENSORRT,
    on_card,
    said,
    said_of,
)
from tests.projects import hardware

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
