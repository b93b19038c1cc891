"""Every card of the tables against releases of TensorRT and TensorRT-RTX.

The expected verdicts are written by hand, from NVIDIA's support matrices and release notes, and never computed.
"""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from mobuild.contract.rules import Request, check
from tests.onnxmodel.models import matmul
from tests.projects import HARDWARE, Project, hardware

VERSIONS = ("8.6", "10.4", "10.5", "10.8", "10.16", "11.0", "11.4", "RTX 1.7")

# `ok`; the code of the rule that refuses; `code?` for a warning.
TABLE = """
gtx1070        ok   R1   R1   R1   R1   R1   R1   R13
p40            ok   R1   R1   R1   R1   R1   R1   R13
v100           ok   ok   R1   R1   R1   R1   R1   R13
v100_32        ok   ok   R1   R1   R1   R1   R1   R13
v100_16        ok   ok   R1   R1   R1   R1   R1   R13
t4             ok   ok   ok   ok   ok   ok   ok   R13?
rtx2080ti      ok   ok   ok   ok   ok   ok   ok   R13?
rtx3060        ok   ok   ok   ok   ok   ok   ok   ok
rtx3060_8      ok   ok   ok   ok   ok   ok   ok   ok
rtx3090        ok   ok   ok   ok   ok   ok   ok   ok
a10            ok   ok   ok   ok   ok   ok   ok   ok
a10g           ok   ok   ok   ok   ok   ok   ok   ok
a30            ok   ok   ok   ok   ok   ok   ok   ok
a100_40        ok   ok   ok   ok   ok   ok   ok   ok
a100_80        ok   ok   ok   ok   ok   ok   ok   ok
a100           ok   ok   ok   ok   ok   ok   ok   ok
l4             ok   ok   ok   ok   ok   ok   ok   ok
l20            ok   ok   ok   ok   ok   ok   ok   ok
l40s           ok   ok   ok   ok   ok   ok   ok   ok
h20            ok   ok   ok   ok   ok   ok   ok   R13
h100_sxm       ok   ok   ok   ok   ok   ok   ok   R13
h100_pcie      ok   ok   ok   ok   ok   ok   ok   R13
h100           ok   ok   ok   ok   ok   ok   ok   R13
h200           ok   ok   ok   ok   ok   ok   ok   R13
gh200          ok   R17? ok   ok   ok   ok   ok   R13
gh200_96       ok   R17? ok   ok   ok   ok   ok   R13
gh200_144      ok   R17? ok   ok   ok   ok   ok   R13
b200           R2   R2   R2   ok   ok   ok   ok   R13
rtx4060_laptop ok   ok   ok   ok   ok   ok   ok   ok
rtx4060        ok   ok   ok   ok   ok   ok   ok   ok
rtx4090        ok   ok   ok   ok   ok   ok   ok   ok
rtx5090        R2   R2   R2   ok   ok   ok   ok   ok
agx_orin_64    ok   ok   ok   ok   ok   R17? R17? R13
agx_orin_32    ok   ok   ok   ok   ok   R17? R17? R13
orin_nx_16     ok   ok   ok   ok   ok   R17? R17? R13
orin_nano_8    ok   ok   ok   ok   ok   R17? R17? R13
thor_t5000     R2   R2   R2   R2   ok   R17? R17? R13
mi50           R18  R18  R18  R18  R18  R18  R18  R18
mi50_16        R18  R18  R18  R18  R18  R18  R18  R18
mi50_32        R18  R18  R18  R18  R18  R18  R18  R18
"""
KINDS = ("gtx1070", "v100", "t4", "l4", "h100_sxm", "gh200", "b200", "rtx5090", "agx_orin_64", "thor_t5000", "mi50")
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


def test_every_card_that_is_shipped_stands_in_the_table() -> None:
    shipped = {path.stem for path in HARDWARE.glob("*.yaml")} - {"auto", "cpu"}

    assert shipped == {row[0] for row in ROWS}


@pytest.mark.parametrize(("version", "cards"), [*((each, KINDS) for each in VERSIONS), ("11.4", ())])
def test_check_answers_as_the_rules_do(tmp_path: Path, version: str, cards: tuple[str, ...]) -> None:
    """One card of each kind for every release, since composing each takes its time; for one release, all of them."""
    column, some = 1 + VERSIONS.index(version), [row for row in ROWS if row[0] in cards or not cards]
    project = Project(tmp_path / "project", tmp_path / "cache")
    project.root.mkdir()
    onnx.save(matmul(), project.root / "m.onnx")
    product, _, number = version.rpartition(" ")
    backend = ["backend=tensorrt_rtx"] if product else ["backend=tensorrt", f'backend.version="{number}"']
    words = ("model=m.onnx", f"hardware={','.join(row[0] for row in some)}", "shapes.n=4", "format=json")

    done = project.mobuild("check", "-m", *words, *backend, check=False)

    said: dict[str, set[str]] = {row[0]: set() for row in some}
    for found in json.loads(done.out)["findings"]:
        if found["family"] == "hardware":
            for variant in found["variant"].split(","):
                said[variant.partition("+")[0]].add(found["code"] + "?" * (found["severity"] == "warning"))
    assert {name: "+".join(sorted(codes)) or "ok" for name, codes in said.items()} == {
        row[0]: row[column] for row in some
    }
    assert done.status == 1
    assert ('"E3"' in done.out) == (number == "8.6")  # the rules know it, and mobuild does not build with it


def verdict(name: str, version: str) -> str:
    product, _, number = version.rpartition(" ")
    found = check(Request(hardware(name), "tensorrt_rtx" if product else "tensorrt", number))
    if not found:
        return "ok"
    refusals = [each.code for each in found if each.severity == "error"]
    return "+".join(refusals) or "+".join(f"{each.code}?" for each in found)
