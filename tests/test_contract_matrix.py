"""Every card of the tables against releases of TensorRT and TensorRT-RTX.

The expected verdicts are written by hand, from NVIDIA's support matrices and release notes, and never computed.
"""

from __future__ import annotations

import pytest

from mobuild.contract.rules import Request, check
from tests.projects import hardware

VERSIONS = ("8.6", "10.4", "10.5", "10.8", "10.16", "11.0", "11.4", "RTX 1.7")

# `ok`; the code of the rule that refuses; `code?` for a warning.
TABLE = """
gtx1070        ok   R1   R1   R1   R1   R1   R1   R13
p40            ok   R1   R1   R1   R1   R1   R1   R13
v100           ok   ok   R1   R1   R1   R1   R1   R13
v100_32        ok   ok   R1   R1   R1   R1   R1   R13
t4             ok   ok   ok   ok   ok   ok   ok   R13?
rtx2080ti      ok   ok   ok   ok   ok   ok   ok   R13?
rtx3060        ok   ok   ok   ok   ok   ok   ok   ok
rtx3090        ok   ok   ok   ok   ok   ok   ok   ok
a10            ok   ok   ok   ok   ok   ok   ok   ok
a10g           ok   ok   ok   ok   ok   ok   ok   ok
a30            ok   ok   ok   ok   ok   ok   ok   ok
a100_40        ok   ok   ok   ok   ok   ok   ok   ok
a100_80        ok   ok   ok   ok   ok   ok   ok   ok
l4             ok   ok   ok   ok   ok   ok   ok   ok
l20            ok   ok   ok   ok   ok   ok   ok   ok
l40s           ok   ok   ok   ok   ok   ok   ok   ok
h20            ok   ok   ok   ok   ok   ok   ok   R13
h100_sxm       ok   ok   ok   ok   ok   ok   ok   R13
h100_pcie      ok   ok   ok   ok   ok   ok   ok   R13
h200           ok   ok   ok   ok   ok   ok   ok   R13
gh200          ok   R17? ok   ok   ok   ok   ok   R13
b200           R2   R2   R2   ok   ok   ok   ok   R13
rtx4060_laptop ok   ok   ok   ok   ok   ok   ok   ok
rtx4060        ok   ok   ok   ok   ok   ok   ok   ok
rtx4090        ok   ok   ok   ok   ok   ok   ok   ok
rtx5090        R2   R2   R2   ok   ok   ok   ok   ok
agx_orin_64    ok   ok   ok   ok   ok   R17? R17? R13
orin_nx_16     ok   ok   ok   ok   ok   R17? R17? R13
orin_nano_8    ok   ok   ok   ok   ok   R17? R17? R13
thor_t5000     R2   R2   R2   R2   ok   R17? R17? R13
mi50           R18  R18  R18  R18  R18  R18  R18  R18
"""
ROWS = [line.split() for line in TABLE.strip().splitlines()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_release_is_answered_right(row: list[str]) -> None:
    name, *expected = row

    assert [verdict(name, version) for version in VERSIONS] == expected


@pytest.mark.parametrize(
    ("name", "version", "words"),
    [
        ("gtx1070", "10.4", "the last TensorRT that fits is 8.6"),
        ("v100", "10.5", "the last TensorRT that fits is 10.4"),
        ("rtx5090", "10.4", "the first TensorRT that fits is 10.8"),
        ("thor_t5000", "10.8", "the first TensorRT that fits is 10.13.2"),
        ("agx_orin_64", "11.3.0", "JetPack is not supported from 11.3.0 to 11.4.0"),
    ],
)
def test_the_nearest_version_that_works_is_named(name: str, version: str, words: str) -> None:
    (found,) = check(Request(hardware(name), "tensorrt", version))

    assert found.severity == "error"
    assert words in found.message


def verdict(name: str, version: str) -> str:
    product, _, number = version.rpartition(" ")
    found = check(Request(hardware(name), "tensorrt_rtx" if product else "tensorrt", number))
    if not found:
        return "ok"
    refusals = [each.code for each in found if each.severity == "error"]
    return "+".join(refusals) or "+".join(f"{each.code}?" for each in found)
