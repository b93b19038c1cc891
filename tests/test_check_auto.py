"""`check` where `backend=auto` finds no builder for the card: findings like all others, and no error of composition."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from tests.onnxmodel.models import matmul
from tests.projects import Finished, Project

CARDS = {
    "gtx1070": ("R1", "the last TensorRT that fits is 8.6", "backend=onnxruntime"),
    "p40": ("R1", "the last TensorRT that fits is 8.6", "backend=onnxruntime"),
    "v100": ("R20", "TensorRT-RTX 1.7 has no compute capability 7.0", "backend=tensorrt backend.version='\"10.4\"'"),
    "h100": ("R20", "TensorRT-RTX 1.7 has no compute capability 9.0", "backend=tensorrt"),
    "b200": ("R20", "TensorRT-RTX 1.7 has no compute capability 10.0", "backend=tensorrt"),
    "agx_orin_64": ("R20", "TensorRT-RTX 1.7 has no compute capability 8.7", "backend=tensorrt"),
    "mi50": ("R18", "found 'amd'", "backend=onnxruntime"),
}


@pytest.fixture
def files(tmp_path: Path) -> Project:
    project = Project(tmp_path / "project", tmp_path / "cache")
    project.root.mkdir()
    onnx.save(matmul(), project.root / "m.onnx")
    return project


def checked(project: Project, hardware: str, form: str) -> Finished:
    words = ("check", "model=m.onnx", f"hardware={hardware}", "shapes.n=4", f"format={form}")
    return project.mobuild(*words, check=False)


@pytest.mark.parametrize("hardware", CARDS)
def test_a_card_that_no_builder_takes_is_a_finding_in_every_format(files: Project, hardware: str) -> None:
    code, why, fix = CARDS[hardware]

    text, data, sarif = (checked(files, hardware, form) for form in ("text", "json", "sarif"))

    assert [each.status for each in (text, data, sarif)] == [1, 1, 1]
    assert text.out.startswith(f"error   {code:4} m/{hardware}: hardware '{hardware}': ")
    assert text.out.endswith("1 error, 0 warnings, 0 notes\n")
    (found,) = json.loads(data.out)["findings"]
    assert (found["code"], found["severity"], found["recipe"], found["variant"]) == (code, "error", "m", hardware)
    assert found["where"] == f"hardware '{hardware}'"
    assert why in found["message"]
    assert fix in found["hint"]
    (result,) = json.loads(sarif.out)["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == (code, "error")
    assert why in result["message"]["text"]
    assert (text.err, data.err, sarif.err) == ("", "", "")


def test_the_other_jobs_of_a_sweep_are_judged_as_well(files: Project) -> None:
    done = files.mobuild("check", "-m", "model=m.onnx", "hardware=l4,gtx1070,h100", "shapes.n=4", check=False)

    assert done.status == 1
    assert [line.split()[:3] for line in done.out.splitlines() if line.startswith("error")] == [
        ["error", "R1", "m/gtx1070:"],
        ["error", "R20", "m/h100:"],
    ]


def test_a_format_that_check_lacks_is_not_understood_then_either(files: Project) -> None:
    assert checked(files, "gtx1070", "dot").status == 2


def test_builders_that_leave_out_what_the_card_has_are_named(files: Project) -> None:
    words = ("check", "model=m.onnx", "hardware=l4", "builders=[onnxruntime]", "shapes.n=4")

    done = files.mobuild(*words, check=False)

    assert done.status == 1
    assert "none of its backends [tensorrt_rtx, tensorrt] is among the builders [onnxruntime]" in done.out
    assert "backend=tensorrt_rtx, or builders=[tensorrt_rtx]" in done.out


def test_a_build_is_refused_with_the_same_code(files: Project) -> None:
    done = files.mobuild("model=m.onnx", "hardware=h100", "shapes.n=4", check=False)

    assert done.status == 1
    assert "R20: " in done.err
    assert "backend=tensorrt" in done.err


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("target=triton", "hardware=l4"), 1, "which no backend of Triton loads"),
        (("target=image", "hardware=h100", "backend=tensorrt"), 2, "no image is made with the runtime 'tensorrt'"),
    ],
)
def test_a_pair_that_makes_no_job_is_a_finding_for_programs(
    files: Project, words: tuple[str, ...], status: int, said: str
) -> None:
    asked = ("check", "model=m.onnx", *words, "shapes.n=4")

    text, data, sarif = (files.mobuild(*asked, f"format={form}", check=False) for form in ("text", "json", "sarif"))

    assert [each.status for each in (text, data, sarif)] == [status] * 3
    assert said in text.err
    assert (data.err, sarif.err) == ("", "")
    (found,) = json.loads(data.out)["findings"]
    assert (found["code"], found["severity"]) == ("N1", "error")
    assert said in found["message"]
    assert found["hint"]
    (result,) = json.loads(sarif.out)["runs"][0]["results"]
    assert said in result["message"]["text"]
