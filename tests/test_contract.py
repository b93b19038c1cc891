"""Rules on configuration, with the shipped hardware files and the shipped facts."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mobuild.contract.rules import Request, check
from mobuild.hardware import Hardware
from tests.projects import hardware


def card(capability: str) -> Hardware:
    return Hardware("card", "nvidia", compute_capability=capability, backends=("tensorrt_rtx", "tensorrt"))


def verdicts(request: Request) -> list[tuple[str, str, str, str]]:
    return [(each.code, each.severity, each.message, each.hint) for each in check(request)]


@pytest.mark.parametrize(("name", "backend"), [("l20", "tensorrt_rtx"), ("l4", "tensorrt"), ("cpu", "onnxruntime")])
def test_fitting_backend_has_no_finding(name: str, backend: str) -> None:
    assert verdicts(Request(hardware(name), backend)) == []


def test_r1_names_the_last_tensorrt_for_pascal() -> None:
    found = verdicts(Request(hardware("gtx1070"), "tensorrt"))

    message = "compute capability 6.1: TensorRT from 10.0 starts at 7.0; the last TensorRT that fits is 8.6"
    hint = "choose another card (hardware=l4), or backend=onnxruntime, which runs on the CPU"
    assert found == [("R1", "error", message, hint)]


@pytest.mark.parametrize(
    ("capability", "version", "message"),
    [
        ("6.1", "10.4", "TensorRT 10.4 starts at 7.0; the last TensorRT that fits is 8.6"),
        ("7.0", "11.4.1", "TensorRT 11.4.1 starts at 7.5; the last TensorRT that fits is 10.4"),
        ("3.7", "10.0", "TensorRT 10.0 starts at 7.0; the last TensorRT that fits is 8.5"),
        ("12.0", "10.7", "TensorRT 10.7 ends at 9.0; the first TensorRT that fits is 10.8"),
    ],
)
def test_card_outside_the_release_is_refused(capability: str, version: str, message: str) -> None:
    found = verdicts(Request(card(capability), "tensorrt", version))

    assert [(each[1], each[2]) for each in found] == [("error", f"compute capability {capability}: {message}")]


@pytest.mark.parametrize("version", ["10.0", "10.16.1.11", "11.5"])
def test_turing_fits_every_driven_tensorrt(version: str) -> None:
    assert verdicts(Request(hardware("t4"), "tensorrt", version)) == []


def test_card_that_only_older_releases_take_is_a_warning_without_version() -> None:
    found = verdicts(Request(card("7.0"), "tensorrt"))

    message = "compute capability 7.0: TensorRT 10.4 is the last that fits"
    assert found == [("R1", "warning", message, "backend.version='\"10.4\"'")]


@pytest.mark.parametrize("capability", ["6.1", "8.7", "9.0", "10.0"])
def test_r13_refuses_what_tensorrt_rtx_does_not_build(capability: str) -> None:
    found = check(Request(card(capability), "tensorrt_rtx", "1.7.1.116"))

    message = f"TensorRT-RTX 1.7 has no compute capability {capability}, only 7.5, 8.0, 8.6, 8.9, 12.0, 12.1"
    assert [(each.code, each.severity, each.message) for each in found] == [("R13", "error", message)]


@pytest.mark.parametrize(
    ("capability", "version", "severity", "message"),
    [
        (
            "11.0",
            "10.13.0",
            "error",
            "TensorRT 10.13.0 has 11.0 from 10.13.2 on; the first TensorRT that fits is 10.13.2",
        ),
        ("10.7", "11.2", "error", "TensorRT 11.2 has 10.7 from 11.3 on; the first TensorRT that fits is 11.3"),
        ("12.1", "10.10", "warning", "TensorRT 10.10 may have 12.1; the first TensorRT that fits is 10.13"),
        ("10.3", "11.5", "warning", "TensorRT 11.5 may have 10.3"),
        ("6.1", "9.2", "warning", "TensorRT 9.2 may have 6.1; the last TensorRT that fits is 8.6"),
    ],
)
def test_r2_knows_the_gaps_and_warns_where_the_table_is_not_sure(
    capability: str, version: str, severity: str, message: str
) -> None:
    found = verdicts(Request(card(capability), "tensorrt", version))

    assert [each[1:3] for each in found] == [(severity, f"compute capability {capability}: {message}")]


def test_r13_names_a_backend_that_fits() -> None:
    assert check(Request(card("9.0"), "tensorrt_rtx"))[0].hint == "backend=tensorrt"


def test_r13_knows_what_older_releases_lacked() -> None:
    (found,) = check(Request(card("12.1"), "tensorrt_rtx", "1.4"))

    assert found.message == (
        "TensorRT-RTX 1.4 has no compute capability 12.1, only 7.5, 8.6, 8.9, 12.0; the first TensorRT-RTX "
        "that fits is 1.5"
    )
    assert check(Request(card("12.1"), "tensorrt_rtx", "1.5")) == ()


def test_r13_warns_about_turing() -> None:
    found = check(Request(hardware("t4"), "tensorrt_rtx", "1.7.1.116"))

    message = (
        "TensorRT-RTX 1.7 and compute capability 7.5: fp32 matrix products are refused, float16 ones build; "
        "its runtime lists only 8.0, 8.6, 8.9, 12.0, 12.1"
    )
    assert [(each.code, each.severity, each.message) for each in found] == [("R13", "warning", message)]


@pytest.mark.parametrize(("backend", "product"), [("tensorrt", "TensorRT"), ("tensorrt_rtx", "TensorRT-RTX")])
def test_r18_refuses_other_vendors(backend: str, product: str) -> None:
    mi50 = Hardware("mi50", "amd", chip="gfx906")

    found = verdicts(Request(mi50, backend))

    message = f"{product} needs a GPU of vendor 'nvidia', found 'amd'"
    assert found == [("R18", "error", message, "backend=onnxruntime, which runs on the CPU")]


def test_version_newer_than_the_table_warns_and_refuses_nothing() -> None:
    found = check(Request(hardware("gtx1070"), "tensorrt_rtx", "2.0.0"))

    assert [(each.code, each.severity) for each in found] == [("R13", "warning"), ("R19", "warning")]
    assert found[1].message == "TensorRT-RTX 2.0.0 is unverified: the table ends at 1.7"


def test_minor_version_without_a_row_is_unverified_too() -> None:
    found = check(Request(hardware("l4"), "tensorrt", "10.17"))

    assert [each.message for each in found] == ["TensorRT 10.17 is unverified: the table has no 10.17"]


def test_rules_import_no_builder() -> None:
    code = "import sys, mobuild.contract.rules; print({'onnx', 'torch', 'tensorrt_rtx'} & set(sys.modules))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "set()\n"
