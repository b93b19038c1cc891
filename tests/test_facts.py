"""The tables of facts: their form, and what is read from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from mobuild import facts
from mobuild.facts import load, order, rtx
from mobuild.facts.capabilities import Capability, capability, computes, precisions
from mobuild.facts.cuda import compiles, driver_fits, driver_floor, toolkit_driver
from mobuild.facts.features import Feature, feature, flag, replacement
from mobuild.facts.frameworks import (
    ir_for_opset,
    onnx_for_opset,
    ort_for_opset,
    ort_loads,
    torch_release,
    torch_wheels,
    torch_wheels_for,
)
from mobuild.facts.operators import operator, operator_types
from mobuild.facts.releases import (
    cuda_fits,
    host_fits,
    nearest_release,
    opset_range,
    python_fits,
    release,
    releases,
    supports,
)
from mobuild.onnxmodel import branches, signs

FILES = sorted(path.stem for path in Path(facts.__file__).parent.glob("*.yaml"))
VERSIONS = ("version", "sm_min", "sm_max", "capability", "since", "deprecated", "removed", "until", "driver", "major")


def tables(name: str) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    return ((table, rows) for table, rows in load(name).items() if isinstance(rows, list))


@pytest.mark.parametrize("name", FILES)
def test_every_row_has_a_source_a_confidence_and_quoted_versions(name: str) -> None:
    for table, rows in tables(name):
        for row in rows:
            where = f"{name}.yaml, {table}: {row}"
            assert row["source"], where
            assert row["confidence"] in ("S", "D", "M", "K", "?"), where
            assert set(row.get("uncertain", ())) <= set(row), where
            assert all(isinstance(row.get(key, ""), str) for key in VERSIONS), where


@pytest.mark.parametrize("name", FILES)
def test_versions_run_upwards_in_every_table(name: str) -> None:
    for table, rows in tables(name):
        versions = [order(row["version"]) for row in rows if "version" in row and "capability" not in row]
        assert versions == sorted(set(versions)), f"{name}.yaml, {table}"


def test_every_release_has_a_range_or_a_list_of_capabilities_that_are_known() -> None:
    for each in releases("tensorrt"):
        assert order(each.sm_min) < order(each.sm_max)
        assert each.opset and each.opset[0] <= each.opset[1]
    for each in releases("tensorrt_rtx"):
        assert set(each.runs) <= set(each.builds)
        assert all(capability(one) for one in each.builds)


@pytest.mark.parametrize(("file", "table"), [("trtexec", "flags"), ("tensorrt_api", "features")])
def test_what_goes_away_is_deprecated_first_and_named_once(file: str, table: str) -> None:
    rows = facts.rows(Feature, file, table)
    names = [each.name for each in rows]

    assert len(names) == len(set(names))
    for each in rows:
        stages = [order(stage) for stage in (each.since, each.deprecated, each.removed) if stage]
        assert stages == sorted(stages), each.name
        assert each.instead or not (each.deprecated or each.removed), each.name


def test_every_operator_stands_in_one_place() -> None:
    facts_of = load("operators")
    taken = [name for row in facts_of["since"] for name in row["operators"]]
    typed = [name for row in facts_of["types"] for name in row["operators"]]
    refused = [name for row in facts_of["unsupported"] for name in row["operators"]]
    restricted = {name for row in facts_of["restrictions"] for name in row["operators"]}

    assert len(taken) == len(set(taken))
    assert len(typed) == len(set(typed))
    assert not set(taken) & set(refused)
    assert set(typed) | restricted <= set(taken)


def test_tables_are_read_with_the_fields_of_their_rows() -> None:
    assert {each.capability for each in facts.rows(Capability, "capabilities", "capabilities")} >= {"6.1", "12.1"}


@pytest.mark.parametrize(
    ("version", "row", "unknown"),
    [
        ("10.5", "10.5", ""),
        ("10.13.0.35", "10.13", ""),
        ("10.13.3.9", "10.13.2", ""),
        ("11", "11.0", ""),
        ("11.4.1", "11.4", ""),
        ("", "11.5", ""),
        ("12.0", "11.5", "the table ends at 11.5"),
        ("10.17", "10.16", "the table has no 10.17"),
        ("7.2", "8.5", "the table starts at 8.5"),
    ],
)
def test_a_version_takes_the_newest_row_that_is_not_newer(version: str, row: str, unknown: str) -> None:
    found = release("tensorrt", version)

    assert (found.version, found.unknown) == (row, unknown)


@pytest.mark.parametrize(
    ("version", "card", "word", "why"),
    [
        ("8.6", "6.1", "yes", ""),
        ("9.0", "6.1", "unverified", "may have 6.1"),
        ("10.0", "6.1", "no", "starts at 7.0"),
        ("10.4", "7.0", "yes", ""),
        ("10.5", "7.0", "no", "starts at 7.5"),
        ("11.5", "7.5", "yes", ""),
        ("10.7", "12.0", "no", "ends at 9.0"),
        ("10.8", "12.0", "yes", ""),
        ("10.10", "12.1", "unverified", "may have 12.1"),
        ("10.13", "12.1", "yes", ""),
        ("10.13.0", "11.0", "no", "has 11.0 from 10.13.2 on"),
        ("10.13.2", "11.0", "yes", ""),
        ("11.2", "10.7", "no", "has 10.7 from 11.3 on"),
        ("11.3", "10.7", "yes", ""),
        ("11.5", "13.0", "no", "ends at 12.1"),
        ("12.0", "8.9", "unverified", "the table ends at 11.5"),
        ("12.0", "6.1", "unverified", "starts at 7.5"),
    ],
)
def test_tensorrt_supports_a_range_with_gaps(version: str, card: str, word: str, why: str) -> None:
    found = supports(release("tensorrt", version), card)

    assert (found.word, found.why) == (word, why)
    assert found.source


@pytest.mark.parametrize(
    ("version", "card", "word"),
    [
        ("1.4", "8.9", "yes"),
        ("1.4", "12.1", "no"),
        ("1.5", "12.1", "yes"),
        ("1.6", "8.0", "unverified"),
        ("1.7.1.116", "8.0", "yes"),
        ("1.7", "7.5", "limited"),
        ("1.7", "9.0", "no"),
        ("2.0", "9.0", "unverified"),
    ],
)
def test_tensorrt_rtx_supports_a_list(version: str, card: str, word: str) -> None:
    assert supports(release("tensorrt_rtx", version), card).word == word


@pytest.mark.parametrize(
    ("card", "nearest"),
    [("3.7", "8.5"), ("6.1", "8.6"), ("7.0", "10.4"), ("7.5", "11.5"), ("12.0", "11.5"), ("10.3", ""), ("13.0", "")],
)
def test_the_nearest_release_for_a_card(card: str, nearest: str) -> None:
    assert nearest_release(card) == nearest


def test_the_nearest_release_also_fits_cuda_and_python() -> None:
    assert nearest_release("8.9", cuda="11.8") == "10.13"
    assert nearest_release("8.9", cuda="12.4") == "11.4"
    assert nearest_release("8.9", python="3.14") == "11.4"
    assert nearest_release("7.0", cuda="13.0") == ""
    assert nearest_release("12.1", product="tensorrt_rtx") == "1.7"


@pytest.mark.parametrize(
    ("version", "python", "word"),
    [
        ("10.8", "3.13", "no"),
        ("10.9", "3.13", "yes"),
        ("10.16", "3.14", "no"),
        ("11.1", "3.14", "unverified"),
        ("11.4", "3.14.1", "yes"),
        ("12.0", "3.15", "unverified"),
    ],
)
def test_wheels_are_for_a_range_of_pythons(version: str, python: str, word: str) -> None:
    assert python_fits(release("tensorrt", version), python).word == word


def test_packages_are_for_any_minor_version_of_a_cuda() -> None:
    assert cuda_fits(release("tensorrt", "10.13.0"), "11.4").word == "yes"
    assert cuda_fits(release("tensorrt", "10.14"), "11.8").why == "is made for CUDA 12.9, 13.0, not 11.8"
    assert cuda_fits(release("tensorrt", "11.5"), "12.4").word == "unverified"


@pytest.mark.parametrize(("version", "opsets"), [("8.6", (1, 17)), ("10.3", (9, 20)), ("10.16.1.11", (9, 24))])
def test_opsets_of_the_parser(version: str, opsets: tuple[int, int]) -> None:
    assert opset_range(version) == opsets


@pytest.mark.parametrize(
    ("name", "version", "word", "instead"),
    [
        ("--workspace=4096", "8.6", "limited", "--memPoolSize=workspace:N (MiB, or with K, M, G)"),
        ("--workspace", "10.5", "no", "--memPoolSize=workspace:N (MiB, or with K, M, G)"),
        ("--buildOnly", "10.0", "no", "--skipInference"),
        ("--skipInference", "8.5", "no", "--buildOnly"),
        ("--int4", "10.0", "no", "types in the graph: precision=… writes them, and the network is strongly typed"),
        ("--int4", "10.1", "yes", ""),
        (
            "--fp16",
            "10.16",
            "limited",
            "types in the graph: precision=… writes them, and the network is strongly typed",
        ),
        ("--fp16", "11.0", "no", "types in the graph: precision=… writes them, and the network is strongly typed"),
        ("--calib=x.cache", "11.4", "no", "Q/DQ in the graph: precision=int8 with calibration data"),
        ("--hardwareCompatibilityLevel=ampere+", "10.8", "yes", ""),
        (
            "--hardwareCompatibilityLevel=sameComputeCapability",
            "10.8",
            "no",
            "--hardwareCompatibilityLevel=ampere+, or an engine for each GPU",
        ),
        ("--stripWeights", "9.2", "no", "--weightless"),
        ("--stripWeights", "8.6", "no", ""),
        (
            "--fp16",
            "12.0",
            "unverified",
            "types in the graph: precision=… writes them, and the network is strongly typed",
        ),
        ("--mine", "10.5", "unverified", ""),
    ],
)
def test_flags_of_trtexec_by_version(name: str, version: str, word: str, instead: str) -> None:
    assert (flag(name, version).word, replacement(name, version)) == (word, instead)


def test_features_of_the_api_by_version() -> None:
    assert feature("IInt8Calibrator", "10.0").word == "yes"
    assert feature("IInt8Calibrator", "10.16").why == "IInt8Calibrator is deprecated since 10.1"
    assert feature("IInt8Calibrator", "11.0").word == "no"
    assert replacement("device_memory_size", "11.4") == "device_memory_size_v2"


@pytest.mark.parametrize(
    ("card", "precision", "word"),
    [
        ("6.1", "fp32", "yes"),
        ("6.1", "int8", "limited"),
        ("6.1", "fp16", "unverified"),
        ("7.0", "fp16", "yes"),
        ("7.0", "bf16", "no"),
        ("7.5", "int8", "yes"),
        ("7.5", "bf16", "no"),
        ("8.6", "fp8", "no"),
        ("8.6", "sparse", "yes"),
        ("8.9", "fp8", "yes"),
        ("9.0", "fp4", "no"),
        ("10.0", "fp4", "yes"),
        ("10.1", "fp4", "yes"),
        ("10.7", "fp4", "unverified"),
        ("12.0", "fp4", "yes"),
        ("13.0", "fp16", "unverified"),
    ],
)
def test_precisions_by_compute_capability(card: str, precision: str, word: str) -> None:
    assert computes(card, precision).word == word


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


@pytest.mark.parametrize(
    ("host", "version", "word"),
    [
        ("sbsa", "10.4", "unverified"),
        ("sbsa", "10.5", "yes"),
        ("jetpack", "10.16", "yes"),
        ("jetpack", "11.0", "unverified"),
        ("jetpack", "11.3.0", "no"),
        ("jetpack", "11.4.0", "no"),
        ("jetpack", "11.4", "unverified"),  # 11.4.1 is among them
        ("jetpack", "11.4.1", "yes"),
        ("", "11.3.0", "yes"),
    ],
)
def test_arm_hosts_have_packages_of_some_releases(host: str, version: str, word: str) -> None:
    assert host_fits(release("tensorrt", version), version, host).word == word


def test_every_sign_of_a_restriction_is_one_that_summaries_have() -> None:
    known = Path(signs.__file__).read_text() + Path(branches.__file__).read_text()
    rows = [*load("operators")["restrictions"], *load("tensorrt_rtx")["restrictions"]]

    assert [row["sign"] for row in rows if row.get("sign") and row["sign"].split("_ranks_")[0] not in known] == []
