"""Compute capabilities, drivers and toolkits; ONNX, ONNX Runtime and PyTorch."""

from __future__ import annotations

import pytest

from mobuild.facts.capabilities import computes, precisions
from mobuild.facts.cuda import compiles, driver_fits, driver_floor, toolkit_driver
from mobuild.facts.frameworks import (
    ir_for_opset,
    onnx_for_opset,
    ort_for_opset,
    ort_loads,
    torch_release,
    torch_wheels,
    torch_wheels_for,
)

# By hand, from support matrices and data sheets. `yes`: tensor cores; `alu`: without them; `?`: not sure enough.
PRECISIONS = ("fp16", "bf16", "tf32", "int8", "fp8", "fp4", "sparse")
TABLE = """
6.1   ?    ?    ?    alu  ?    ?    ?
7.0   yes  no   no   alu  no   no   no
7.5   yes  no   no   yes  no   no   no
8.0   yes  yes  yes  yes  no   no   yes
8.6   yes  yes  yes  yes  no   no   yes
8.7   yes  yes  yes  yes  no   no   yes
8.9   yes  yes  yes  yes  yes  no   yes
9.0   yes  yes  yes  yes  yes  no   yes
10.0  yes  yes  yes  yes  yes  yes  yes
10.3  yes  yes  yes  yes  yes  yes  yes
10.7  ?    ?    ?    ?    ?    ?    ?
11.0  yes  yes  yes  yes  yes  yes  yes
10.1  yes  yes  yes  yes  yes  yes  yes
12.0  yes  yes  yes  yes  yes  yes  yes
12.1  yes  yes  yes  yes  yes  yes  yes
13.0  ?    ?    ?    ?    ?    ?    ?
"""
WORDS = {"yes": "yes", "no": "no", "limited": "alu", "unverified": "?"}


@pytest.mark.parametrize("row", [line.split() for line in TABLE.strip().splitlines()], ids=lambda row: row[0])
def test_precisions_by_compute_capability(row: list[str]) -> None:
    card, *expected = row

    assert [WORDS[computes(card, each).word] for each in PRECISIONS] == expected
    assert computes(card, "fp32").word == "yes"


def test_tensor_cores_of_a_card() -> None:
    assert precisions("7.5") == ("fp16", "int8")
    assert precisions("13.0") == ()


@pytest.mark.parametrize(
    ("driver", "cuda", "word"),
    [
        ("520.61.05", "11.8", "yes"),
        ("450.80.02", "11.8", "limited"),
        ("525.60.12", "12.4", "no"),
        ("550.54.14", "12.4", "yes"),
        ("550.54.14", "12.4.1", "limited"),
        ("580.65.05", "13.2", "no"),
        ("620.10", "12.9", "yes"),
        ("620.10", "13.5", "unverified"),
        ("620.10", "14.0", "unverified"),
    ],
)
def test_drivers_for_a_cuda(driver: str, cuda: str, word: str) -> None:
    assert driver_fits(driver, cuda).word == word


def test_the_drivers_of_a_toolkit() -> None:
    assert (driver_floor("12.4"), toolkit_driver("12.4"), toolkit_driver("12.4.1")) == (
        "525.60.13",
        "550.54.14",
        "550.54.15",
    )
    assert (driver_floor("14.0"), toolkit_driver("14.0")) == ("", "")


@pytest.mark.parametrize(
    ("cuda", "card", "word"),
    [
        ("13.0", "7.0", "no"),
        ("13.0", "7.5", "yes"),
        ("12.4", "6.1", "yes"),
        ("12.4", "8.9", "yes"),
        ("12.4", "12.0", "unverified"),
        ("12.8", "12.0", "yes"),
        ("12.9", "11.0", "unverified"),  # Thor is 10.1 to it
        ("13.0", "11.0", "yes"),
        ("13.4", "10.7", "unverified"),
        ("14.0", "8.9", "unverified"),
    ],
)
def test_what_a_toolkit_compiles_for(cuda: str, card: str, word: str) -> None:
    assert compiles(cuda, card).word == word


def test_onnx_and_onnx_runtime_by_opset() -> None:
    assert (onnx_for_opset(20), ir_for_opset(20), ort_for_opset(20)) == ("1.15", 9, "1.17")
    assert (onnx_for_opset(28), ir_for_opset(28), ort_for_opset(28)) == ("1.23", 13, "1.32")
    assert (onnx_for_opset(99), ir_for_opset(99), ort_for_opset(99)) == ("", None, "")


@pytest.mark.parametrize(
    ("version", "opset", "ir", "word"),
    [
        ("1.20.1", 21, 10, "yes"),
        ("1.20.1", 22, 10, "no"),
        ("1.20.1", 21, 11, "no"),
        ("1.28.0", 26, 13, "yes"),
        ("1.32.0", 28, 14, "yes"),
        ("1.33.0", 28, 14, "unverified"),
        ("1.10.0", 14, 8, "unverified"),
    ],
)
def test_what_an_onnx_runtime_loads(version: str, opset: int, ir: int, word: str) -> None:
    assert ort_loads(version, opset, ir).word == word


def test_pytorch_by_version() -> None:
    torch = torch_release("2.13.0+cpu")

    assert torch and (torch.python, torch.opset) == (("3.10", "3.14"), 20)
    assert torch_release("2.99") is None
    old, new = torch_wheels("12.6"), torch_wheels("13.2")
    assert old and new
    assert old.runs_on("7.0") and not new.runs_on("7.0")
    assert new.runs_on("8.9") and new.runs_on("12.1") and not old.runs_on("12.0")
    assert new.is_of("2.13.0+cu130") and not new.is_of("2.15.0")
    assert torch_wheels("") is None and torch_wheels_for("7.0") == ("12.6",)
