"""Releases of TensorRT and TensorRT-RTX: cards, CUDAs, Pythons, hosts, opsets."""

from __future__ import annotations

import pytest

from mobuild.facts.releases import (
    cuda_fits,
    host_fits,
    nearest_release,
    opset_range,
    python_fits,
    release,
    supports,
)


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
