"""Flags of trtexec and features of the API, by version."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mobuild.facts import rows
from mobuild.facts.features import Feature, feature, flag, replacement

_UNLISTED = {"-h", "--plugins", "--streams", "--consistency", "--distributiveIndependence"}  # and taken all the same


@pytest.mark.parametrize("version", ["10.6", "11.0"])
def test_flags_of_trtexec_are_those_of_its_own_help(version: str) -> None:
    """tests/trtexec_help.json has every flag that `trtexec --help` of the release lists; a few more are taken."""
    listed = json.loads((Path(__file__).parent / "trtexec_help.json").read_text())[version]
    known = [each for each in rows(Feature, "trtexec", "flags") if "=" not in each.name]

    taken = {each.name for each in known if flag(each.name, version).word in ("yes", "limited")}
    assert taken - _UNLISTED == {each.name for each in known if each.name in listed} - _UNLISTED


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
