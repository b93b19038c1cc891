"""The bill of materials of an image."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mobuild.image.sbom import Engine, Part, write

cyclonedx = pytest.importorskip("cyclonedx")

PARTS = (
    Part("deb", "libc6", "2.36-9+deb12u10", "a" * 64),
    Part("deb", "libstdc++6", "12.2.0-14+deb12u1", "b" * 64),
    Part("wheel", "numpy", "2.4.6", "c" * 64, "BSD-3-Clause AND MIT"),
)
ENGINE = Engine("det", "1", {"engine.onnx": "d" * 64}, {"precision": "int8", "verdict": "passed"})
DEB = {"arch": "amd64", "distro": "bookworm"}


def document(path: Path, *parts: Part, engine: Engine = ENGINE, epoch: int = 0) -> dict[str, Any]:
    write(path, "team/det", parts or PARTS, engine, epoch, DEB)
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_the_document_is_valid(tmp_path: Path) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    write(tmp_path / "sbom.cdx.json", "team/det", PARTS, ENGINE, 1700000000, DEB)

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str((tmp_path / "sbom.cdx.json").read_text()) is None


def test_equal_parts_give_equal_bytes(tmp_path: Path) -> None:
    document(tmp_path / "one", *PARTS)
    document(tmp_path / "two", *reversed(PARTS), PARTS[0])
    document(tmp_path / "other", *PARTS, engine=Engine("det", "1", {"engine.onnx": "e" * 64}, ENGINE.properties))

    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    serials = [json.loads((tmp_path / name).read_text())["serialNumber"] for name in ("one", "other")]
    assert serials[0] != serials[1]


def test_each_package_and_the_engine_stand_there_with_their_digests(tmp_path: Path) -> None:
    found = document(tmp_path / "sbom.cdx.json", epoch=1700000000)

    listed = {each["bom-ref"]: (each["type"], each["hashes"][0]["content"]) for each in found["components"]}
    assert listed == {
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u10?arch=amd64&distro=bookworm": ("library", "a" * 64),
        "pkg:deb/debian/libstdc%2B%2B6@12.2.0-14%2Bdeb12u1?arch=amd64&distro=bookworm": ("library", "b" * 64),
        "pkg:pypi/numpy@2.4.6": ("library", "c" * 64),
        "engine": ("machine-learning-model", "d" * 64),
    }
    assert found["metadata"]["timestamp"] == "2023-11-14T22:13:20+00:00"
    assert found["metadata"]["component"]["name"] == "team/det"


def test_an_engine_of_several_files_lists_them(tmp_path: Path) -> None:
    engine = Engine("det", "1", {"engine.onnx": "d" * 64, "weights.bin": "e" * 64}, {})

    (model,) = (each for each in document(tmp_path / "s", engine=engine)["components"] if each["name"] == "det")

    assert {each["name"]: each["hashes"][0]["content"] for each in model["components"]} == engine.sha256


@pytest.mark.parametrize(
    ("licence", "found"),
    [
        ("MIT", [{"license": {"id": "MIT"}}]),
        ("MIT AND Zlib", [{"expression": "MIT AND Zlib"}]),
        ("as you like", [{"license": {"name": "as you like"}}]),
        ("", None),
    ],
)
def test_a_licence_stands_there_as_it_was_told(tmp_path: Path, licence: str, found: Any) -> None:
    (numpy, _) = document(tmp_path / "s", Part("wheel", "numpy", "2", "c" * 64, licence))["components"]

    assert numpy.get("licenses") == found
