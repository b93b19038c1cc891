"""Options of the TensorRT backend: what reaches the builder, weak typing, plugins, contradictions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from double_machine import ELEVEN, PROFILE, TEN, Machine, l4

from mobuild.backends.tensorrt import TensorRT
from mobuild.errors import ConfigError


@pytest.mark.parametrize("version", [TEN, ELEVEN])
def test_options_reach_the_builder(machine: Machine, version: str) -> None:
    backend = l4(
        hardware_compatibility="ampere_plus",
        version_compatible=True,
        exclude_lean_runtime=True,
        builder_optimization_level=5,
        workspace="1GiB",
    )

    plan = machine.build(backend, version)["plan"]

    assert plan["flags"] == ["EXCLUDE_LEAN_RUNTIME", "VERSION_COMPATIBLE"]
    assert (plan["level"], plan["compatibility"], plan["pools"]) == (5, "AMPERE_PLUS", {"WORKSPACE": 1 << 30})


def test_same_compute_capability_before_it_was_there_is_refused(machine: Machine) -> None:
    done = machine.build(l4(hardware_compatibility="same_compute_capability"), "10.8.0.43")

    assert done["error"] == "NodeFailed"
    assert done["message"] == (
        "TensorRT 10.8.0.43 has no hardware_compatibility 'same_compute_capability': from 10.9 on"
    )


def test_plugins_are_loaded_from_where_they_lie(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.so").write_text("my plugins")

    done = machine.build(l4(plugins=("lib/plugins.so",)), inputs={"plugin_0": tmp_path / "elsewhere.so"})

    assert done["plan"]["plugins"] == ["my plugins"]


def test_a_hook_has_the_last_word_on_the_configuration(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "quick.py").write_text(
        "def quick(builder, network, config):\n    config.builder_optimization_level = 0\n"
    )

    done = machine.build(l4(hook=f"{tmp_path}/quick.py:quick"))

    assert done["plan"]["level"] == 0


def test_a_plugin_library_that_does_not_load_is_named(machine: Machine) -> None:
    done = machine.build(l4(plugins=("lib/none.so",)), inputs={"plugin_0": Path("lib/none.so")})

    assert "cannot load the plugins of 'lib/none.so': IPluginRegistry::loadLibrary" in done["message"]
    assert "ldd tells what is missing" in done["hint"]


@pytest.mark.parametrize(
    ("precision", "flags"), [("fp32", []), ("fp16", ["FP16"]), ("bf16", ["BF16"]), ("int8", ["FP16", "INT8"])]
)
def test_weak_typing_allows_precisions_by_flags(
    machine: Machine, tmp_path: Path, precision: str, flags: list[str]
) -> None:
    (tmp_path / "ranges.json").write_text(json.dumps({"ranges": {"x": [-1.0, 2.54], "m": [-127.0, 5.0]}}))

    done = machine.build(l4(typing="weak"), precision=precision, inputs={"calibration": tmp_path})

    assert (done["plan"]["network_flags"], done["plan"]["flags"]) == (0, flags)
    is_int8 = precision == "int8"
    assert done["plan"]["table"] == ("TRT-101601-EntropyCalibration2\nm: 3f800000\nx: 3ca3d70a\n" if is_int8 else "")
    assert done["plan"]["calibrated"] == (PROFILE if is_int8 else [])
    assert done["warnings"] == ["backend.typing=weak is deprecated since TensorRT 10.12 and gone in 11: use strong"]


def test_weak_int8_without_scales_is_refused(machine: Machine) -> None:
    done = machine.build(l4(typing="weak"), precision="int8")

    assert done["message"] == (
        "backend.typing=weak, precision=int8: expected scales, found none; TensorRT would make them up"
    )


@pytest.mark.parametrize("version", ["11.0.0.114", ELEVEN])
def test_weak_typing_with_tensorrt_11_is_refused_with_its_replacement(machine: Machine, version: str) -> None:
    done = machine.build(l4(typing="weak"), version, precision="fp16")

    assert done["error"] == "Refused"
    assert done["message"] == (
        f"backend.typing=weak: TensorRT {version} has no precision flags and no calibration cache, since 11.0"
    )
    assert "int8 puts Q/DQ into it" in done["hint"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"typing": "week"}, "backend.typing: expected one of strong, weak, found 'week'. Did you mean 'weak'?"),
        (
            {"hardware_compatibility": "ampere"},
            "backend.hardware_compatibility: expected one of none, same_compute_capability, ampere_plus, "
            "found 'ampere'. Did you mean 'ampere_plus'?",
        ),
        (
            {"exclude_lean_runtime": True},
            "backend.exclude_lean_runtime: only a version-compatible plan holds a lean runtime",
        ),
        (
            {"calibration_cache": "table.cache"},
            "backend.calibration_cache: with typing=strong, int8 is Q/DQ in the graph and no cache is read",
        ),
    ],
)
def test_options_that_contradict_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        l4(**options)

    assert caught.value.message == message


def test_names_of_one_card_are_one_product() -> None:
    assert TensorRT("8.9", "NVIDIA L4", 58) == TensorRT("8.9", "l4", 58)
    assert TensorRT("8.9", "NVIDIA GeForce RTX 4060 Laptop GPU").product == TensorRT("8.9", "rtx4060_laptop").product


def test_an_engine_for_a_family_forgets_the_product() -> None:
    one, two = (TensorRT("8.9", *card, hardware_compatibility="ampere_plus") for card in (("l4", 58), ("l20", 92)))

    assert one == two
