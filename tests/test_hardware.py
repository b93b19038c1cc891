"""The shipped hardware files: their fields, and their numbers against tables copied by hand from datasheets."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from mobuild.facts.releases import releases
from mobuild.hardware import Hardware
from tests.projects import HARDWARE, Project, hardware, hardware_row

SHIPPED = sorted(file.relative_to(HARDWARE).as_posix().removesuffix(".yaml") for file in HARDWARE.rglob("*.yaml"))
CARDS = [name for name in SHIPPED if name not in ("cpu", "auto")]

# name: compute capability, GiB, GB/s, SMs
TABLE = {
    "gtx1070": ("6.1", 8, 256, 15),
    "p40": ("6.1", 24, 346, 30),
    "v100_16": ("7.0", 16, 900, 80),
    "v100_32": ("7.0", 32, 900, 80),
    "v100": ("7.0", 16, 900, 80),
    "t4": ("7.5", 16, 320, 40),
    "rtx2080ti": ("7.5", 11, 616, 68),
    "rtx3060": ("8.6", 12, 360, 28),
    "rtx3060_8": ("8.6", 8, 240, 28),
    "rtx3090": ("8.6", 24, 936, 82),
    "a10": ("8.6", 24, 600, 72),
    "a10g": ("8.6", 24, 600, 80),
    "a30": ("8.0", 24, 933, 56),
    "a30/1g.6gb": ("8.0", 5.81, 233, 14),
    "a30/2g.12gb": ("8.0", 11.69, 466, 28),
    "a30/4g.24gb": ("8.0", 23.44, 933, 56),
    "a100": ("8.0", 40, 1555, 108),
    "a100_40": ("8.0", 40, 1555, 108),
    "a100_40/1g.5gb": ("8.0", 4.75, 194, 14),
    "a100_40/2g.10gb": ("8.0", 9.62, 388, 28),
    "a100_40/3g.20gb": ("8.0", 19.5, 777, 42),
    "a100_40/4g.20gb": ("8.0", 19.5, 777, 56),
    "a100_40/7g.40gb": ("8.0", 39.25, 1555, 98),
    "a100_80": ("8.0", 80, 2039, 108),
    "a100_80/1g.10gb": ("8.0", 9.5, 254, 14),
    "a100_80/2g.20gb": ("8.0", 19.5, 509, 28),
    "a100_80/3g.40gb": ("8.0", 39.25, 1019, 42),
    "a100_80/4g.40gb": ("8.0", 39.25, 1019, 56),
    "a100_80/7g.80gb": ("8.0", 78.5, 2039, 98),
    "l4": ("8.9", 24, 300, 58),
    "l20": ("8.9", 48, 864, 92),
    "l40s": ("8.9", 48, 864, 142),
    "h20": ("9.0", 96, 4000, 78),
    "h100": ("9.0", 80, 3350, 132),
    "h100_sxm": ("9.0", 80, 3350, 132),
    "h100_sxm/1g.10gb": ("9.0", 9.75, 418, 16),
    "h100_sxm/2g.20gb": ("9.0", 19.62, 837, 32),
    "h100_sxm/3g.40gb": ("9.0", 39.5, 1675, 60),
    "h100_sxm/4g.40gb": ("9.0", 39.5, 1675, 64),
    "h100_sxm/7g.80gb": ("9.0", 79.25, 3350, 132),
    "h100_pcie": ("9.0", 80, 2039, 114),
    "h200": ("9.0", 141, 4800, 132),
    "h200/1g.18gb": ("9.0", 16, 600, 16),
    "h200/2g.35gb": ("9.0", 32.5, 1200, 32),
    "h200/3g.71gb": ("9.0", 69.75, 2400, 60),
    "h200/4g.71gb": ("9.0", 69.75, 2400, 64),
    "h200/7g.141gb": ("9.0", 140, 4800, 132),
    "gh200": ("9.0", 96, 4000, 132),
    "gh200_96": ("9.0", 96, 4000, 132),
    "gh200_144": ("9.0", 144, 4900, 132),
    "b200": ("10.0", 180, 8000, 148),
    "rtx4060_laptop": ("8.9", 8, 256, 24),
    "rtx4060": ("8.9", 8, 272, 24),
    "rtx4090": ("8.9", 24, 1008, 128),
    "rtx5090": ("12.0", 32, 1792, 170),
    "agx_orin_64": ("8.7", 64, 204.8, 16),
    "agx_orin_32": ("8.7", 32, 204.8, 14),
    "orin_nx_16": ("8.7", 16, 102.4, 8),
    "orin_nano_8": ("8.7", 8, 68, 8),
    "thor_t5000": ("11.0", 128, 273, 20),
    "mi50": ("", 16, 1024, 60),
    "mi50_16": ("", 16, 1024, 60),
    "mi50_32": ("", 32, 1024, 60),
}


def test_the_table_has_every_card() -> None:
    assert sorted(TABLE) == CARDS


@pytest.mark.parametrize("name", TABLE)
def test_numbers_are_those_of_the_datasheets(name: str) -> None:
    card = hardware(name)

    assert (card.compute_capability, card.memory_gib, card.bandwidth_gb_s, card.sms) == TABLE[name]


@pytest.mark.parametrize("name", [*CARDS, "cpu"])
def test_file_holds_the_fields_of_hardware_with_a_source(name: str) -> None:
    row = hardware_row(name)

    known = {spec.name for spec in fields(Hardware)}
    assert set(row) <= known
    assert row["name"] == name
    assert isinstance(row["compute_capability"], str)
    assert row["source"]
    assert row["confidence"] in ("S", "D", "M", "K", "?")
    assert set(row.get("uncertain", ())) <= known
    quantities = ("memory_gib", "bandwidth_gb_s", "l2_mib", "sms", "tdp_w", "nvlink_gb_s")
    assert all(type(row.get(key, 0)) in (int, float) for key in quantities)


def test_consumer_cards_are_those_of_the_family_geforce() -> None:
    found = {name for name in CARDS if hardware(name).family == "geforce"}

    assert found == {name for name in CARDS if name.startswith(("gtx", "rtx"))}


def test_hosts_of_arm_are_named() -> None:
    found = {name: hardware(name).host for name in CARDS if hardware(name).host}

    jetsons = ("agx_orin_64", "agx_orin_32", "orin_nx_16", "orin_nano_8", "thor_t5000")
    servers = ("gh200", "gh200_96", "gh200_144")
    assert found == {**dict.fromkeys(jetsons, "jetpack"), **dict.fromkeys(servers, "sbsa")}


@pytest.mark.parametrize("name", [*CARDS, "cpu"])
def test_every_backend_of_a_file_is_shipped(name: str) -> None:
    assert all((HARDWARE.parent / "backend" / f"{each}.yaml").exists() for each in hardware(name).backends)


@pytest.mark.parametrize("name", CARDS)
def test_tensorrt_rtx_is_offered_where_it_builds(name: str) -> None:
    card = hardware(name)

    expected = ("tensorrt_rtx", "tensorrt") if card.compute_capability in releases("tensorrt_rtx")[-1].builds else None
    assert card.backends == (expected or (("tensorrt",) if card.vendor == "nvidia" else ()))


def test_a_slice_is_composed_over_its_card(tmp_path: Path) -> None:
    project = Project(tmp_path, tmp_path / "cache")

    composed = project.mobuild("--cfg", "job", "--package", "hardware", "hardware=a100_40/1g.5gb").out

    assert {"name: a100_40/1g.5gb", "chip: GA100", "memory_gib: 4.75", "sms: 14"} <= set(composed.splitlines())


def test_a_slice_has_a_variant_of_its_own(tmp_path: Path) -> None:
    project = Project(tmp_path, tmp_path / "cache")

    assert "crepe_tiny/a30.1g.6gb weights" in project.mobuild("plan", "target=onnx", "hardware=a30/1g.6gb").out


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("l44", "'l4' or 'l40s'"),
        ("A100-40", "'a100_40'"),
        ("Tesla-T4", "'t4'"),
        ("rtx-5090", "'rtx5090'"),
        ("a30/1g.5gb", "'a30/1g.6gb' or 'a30/4g.24gb' or 'a30/2g.12gb'"),
        ("h100/1g.10gb", "'h100_sxm/1g.10gb' or 'a100_80/1g.10gb' or 'h200/1g.18gb'"),
    ],
)
def test_a_misspelt_card_or_slice_is_answered_with_the_nearest(tmp_path: Path, name: str, near: str) -> None:
    project = Project(tmp_path, tmp_path / "cache")

    done = project.mobuild("plan", f"hardware={name}", check=False)

    assert done.status == 2
    first, cards, slices = done.err.splitlines()
    assert first == f"error: there is no hardware '{name}'. Did you mean {near}?"
    assert cards.startswith("  hardware: a10, a100, ")
    assert slices.startswith("  MIG slices of a100_40, a100_80, a30, h100_sxm, h200: hardware=a100_40/1g.5gb")


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ("{compute_capability: 8.9.1}", "compute_capability: expected the form '8.9', found '8.9.1'"),
        ("{compute_capability: sm_89}", "compute_capability: expected the form '8.9', found 'sm_89'"),
        ('{compute_capability: "12"}', "compute_capability: expected the form '8.9', found '12'"),
        ("{memory_gib: -24}", "memory_gib: expected a number from 0 on, found -24.0"),
        ("{sms: -2}", "sms: expected a number from 0 on, found -2"),
    ],
)
def test_facts_of_a_file_that_are_none_are_named(tmp_path: Path, facts: str, said: str) -> None:
    project = Project(tmp_path, tmp_path / "cache")
    own = {"name": "mine", "vendor": "nvidia", "backends": ["tensorrt"], **yaml.safe_load(facts)}
    project.write("conf/hardware/mine.yaml", yaml.safe_dump(own))

    done = project.mobuild("check", "model=m.onnx", "hardware=mine", "backend=tensorrt", check=False)

    assert (done.status, done.err.splitlines()[0]) == (2, f"error: conf/hardware/mine.yaml: {said}")


def test_a_misspelt_backend_of_a_file_is_answered_with_the_nearest(tmp_path: Path) -> None:
    project = Project(tmp_path, tmp_path / "cache")
    project.write("conf/hardware/mine.yaml", "name: mine\nvendor: nvidia\nbackends: [tensort]\n")

    done = project.mobuild("check", "model=m.onnx", "hardware=mine", check=False)

    assert (done.status, done.err.splitlines()[0]) == (
        2,
        "error: conf/hardware/mine.yaml, field 'backends': there is no backend 'tensort'. Did you mean 'tensorrt'?",
    )


def test_an_amd_card_is_refused_with_what_is_left(tmp_path: Path) -> None:
    project = Project(tmp_path, tmp_path / "cache")

    done = project.mobuild("plan", "hardware=mi50", check=False)

    assert done.status == 1
    assert done.errors == (
        "hardware 'mi50': none of its backends [] is among the builders [tensorrt_rtx, onnxruntime]\n"
        "  R18: TensorRT-RTX needs a GPU of vendor 'nvidia', found 'amd'\n"
        "  backend=onnxruntime, which runs on the CPU",
    )
