"""The TensorRT backend with doubles of its bindings (tests/backends/doubles), which have the names of real releases."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import engine_nets
import fake_gpu
import pytest

from mobuild import libraries
from mobuild.backends.tensorrt import TensorRT
from mobuild.errors import ConfigError
from mobuild.node import encode

TEN, ELEVEN = "10.16.1.11", "11.4.0.106"
PROFILE = {"x": [[1, 16], [4, 16], [8, 16]]}
DOUBLES = Path(__file__).parent / "doubles"
_CHILD = """
import json, sys
from pathlib import Path
from mobuild import scratch
from mobuild.errors import MobuildError
from mobuild.node import decode
request = json.loads(sys.argv[1])
scratch.folder = Path(request["scratch"])
node = decode(request["node"])
inputs = {role: Path(path) for role, path in request["inputs"].items()}
profiles = [{name: tuple(map(tuple, corners)) for name, corners in each.items()} for each in request["profiles"]]
try:
    built = node.placed(inputs).build(inputs["model"], profiles, request["precision"], Path(request["out"]))
    print("ANSWER" + json.dumps({"measurements": dict(built.measurements), "warnings": list(built.warnings)}))
except MobuildError as error:
    print("ANSWER" + json.dumps({"error": type(error).__name__, "message": error.message, "hint": error.hint}))
"""


_OPENING = """
import json, sys
from pathlib import Path
from mobuild.engine_errors import runtime_errors
from mobuild.errors import NodeFailed
from mobuild.runtime.runner import open_engine
try:
    with runtime_errors():
        open_engine(Path("out"), "tensorrt", **json.loads(sys.argv[1]))
except NodeFailed as error:
    print(error)
"""


@dataclass(frozen=True)
class Machine:
    """A machine with one card and one TensorRT, and what it remembers."""

    folder: Path
    driver: Path

    def build(
        self,
        backend: TensorRT,
        version: str = TEN,
        gpu: Mapping[str, str] | None = None,
        precision: str = "fp32",
        inputs: Mapping[str, Path] | None = None,
        **environment: str,
    ) -> dict[str, Any]:
        """The plan that was built beside what was measured, or the error."""
        model = self.folder / "m.onnx"
        if not model.exists():
            engine_nets.linear(model)
        request = {
            "node": encode(backend),
            "inputs": {"model": str(model), **{role: str(path) for role, path in (inputs or {}).items()}},
            "profiles": [PROFILE],
            "precision": precision,
            "out": str(self.folder / "out"),
            "scratch": str(self.folder / "scratch"),
        }
        card = fake_gpu.L4 if gpu is None else gpu
        variables = {**self.variables(version, card), **environment}
        command = [sys.executable, "-c", _CHILD, json.dumps(request)]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout.rpartition("ANSWER")[2])
        plan = {} if "error" in answer else json.loads((self.folder / "out").read_text())
        return {"log": done.stderr, "plan": plan, **answer}

    def python(self, code: str, version: str, *words: str) -> str:
        """What a Python program prints on the machine."""
        command = [sys.executable, "-c", code, *words]
        variables = self.variables(version, fake_gpu.L4)
        done = subprocess.run(command, env=variables, cwd=self.folder, capture_output=True, text=True, check=True)
        return done.stdout

    def variables(self, version: str, card: Mapping[str, str]) -> dict[str, str]:
        own = {"LD_LIBRARY_PATH": str(self.driver), **card} if card else {}
        path = os.pathsep.join([str(DOUBLES), *sys.path])
        return {**os.environ, "PYTHONPATH": path, "DOUBLE_TENSORRT": version, **own}

    def slots(self) -> list[Path]:
        return sorted(path for path in (self.folder / "scratch").iterdir() if not path.name.endswith(".lock"))


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_gpu.compiled(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def machine(tmp_path: Path, driver: Path) -> Machine:
    return Machine(tmp_path, driver)


def l4(**options: Any) -> TensorRT:
    return TensorRT("8.9", "l4", 58, 24, **options)


@pytest.mark.parametrize("version", ["10.0.1", "10.9.0.34", TEN, "11.0.0.114", ELEVEN])
def test_one_recipe_builds_with_every_release(machine: Machine, version: str) -> None:
    done = machine.build(l4(raw={"TF32": False, "TACTIC_DRAM": "1GiB"}), version)

    strongly_typed = {"10": 2, "11": 1}[version[:2]]
    assert done["plan"] == {
        "version": version,
        "network_flags": strongly_typed,
        "flags": [],
        "pools": {"WORKSPACE": 4 << 30, "TACTIC_DRAM": 1 << 30},
        "profiles": [PROFILE],
        "calibrated": [],
        "level": 3,
        "compatibility": "NONE",
        "plugins": [],
        "table": "",
    }
    assert done["measurements"]["builder"] == f"TensorRT {version}"


def test_what_the_log_tells_is_measured(machine: Machine) -> None:
    done = machine.build(l4())

    measured = done["measurements"]
    assert (measured["host_persistent_bytes"], measured["scratch_bytes"]) == (19024, 512)
    assert (measured["target"], measured["driver_cuda"]) == ("NVIDIA L4, 8.9", "13.0")
    assert "[PROGRESS] Building engine: 1 of 1" in done["log"]


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


def test_another_card_is_refused_and_both_are_named(machine: Machine) -> None:
    done = machine.build(l4(), gpu=fake_gpu.L20)

    assert done["error"] == "Refused"
    assert done["message"] == (
        "backend 'tensorrt': the GPU here is 'NVIDIA L20' (8.9, 92 SMs, 45 GiB), the engine is for 'l4' "
        "(8.9, 58 SMs, 24 GiB); kernels are chosen by timing them on the card"
    )
    assert "hardware=auto builds for the one that is here" in done["hint"]


@pytest.mark.parametrize(
    ("level", "gpu", "reason"),
    [
        ("same_compute_capability", fake_gpu.L20, ""),
        ("same_compute_capability", fake_gpu.T4, "the engine is for any card of compute capability 8.9"),
        ("ampere_plus", fake_gpu.L20, ""),
        ("ampere_plus", fake_gpu.T4, "ampere_plus is built on one of 8.0 or newer"),
    ],
)
def test_an_engine_for_a_family_is_built_on_any_card_of_it(
    machine: Machine, level: str, gpu: Mapping[str, str], reason: str
) -> None:
    done = machine.build(l4(hardware_compatibility=level), gpu=gpu)

    assert reason in done.get("message", "")
    assert done.get("error", "") == ("Refused" if reason else "")


@pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="a GPU is here")
def test_without_a_gpu_it_says_what_builds_here(machine: Machine) -> None:
    done = machine.build(l4(), gpu={})

    assert done["error"] == "ToolchainError"
    assert done["message"] == "backend 'tensorrt': no CUDA driver here (libcuda.so.1 is not found)"
    assert "backend=tensorrt_rtx builds here, with no GPU" in done["hint"]


def test_another_release_than_asked_for_is_refused(machine: Machine) -> None:
    done = machine.build(l4(version="10.16"), ELEVEN)

    assert done["message"] == "backend 'tensorrt': expected TensorRT 10.16, found 11.4.0.106"
    assert done["hint"].startswith("pip install 'tensorrt==10.16.*'")


def test_plugins_are_loaded_from_where_they_lie(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.so").write_text("my plugins")

    done = machine.build(l4(plugins=("lib/plugins.so",)), inputs={"plugin_0": tmp_path / "elsewhere.so"})

    assert done["plan"]["plugins"] == ["my plugins"]


def test_a_plugin_library_that_does_not_load_is_named(machine: Machine) -> None:
    done = machine.build(l4(plugins=("lib/none.so",)), inputs={"plugin_0": Path("lib/none.so")})

    assert "cannot load the plugins of 'lib/none.so': IPluginRegistry::loadLibrary" in done["message"]
    assert "ldd tells what is missing" in done["hint"]


def test_a_timing_cache_grows_from_build_to_build(machine: Machine) -> None:
    first = machine.build(l4(), DOUBLE_TIMING="kernel 1")
    second = machine.build(l4(), DOUBLE_TIMING="kernel 2")

    (slot,) = machine.slots()
    assert slot.read_text().splitlines() == [TEN, "kernel 1", "kernel 2"]
    assert slot.name == "timing_10.16.1.11_13.0_8.9_NVIDIA_L4_58_22500"
    caches = [done["measurements"]["timing_cache"] for done in (first, second)]
    assert caches[0]["before"] == "new"
    assert caches[1]["before"] == caches[0]["after"] != caches[1]["after"]


def test_cards_and_releases_have_timing_caches_of_their_own(machine: Machine) -> None:
    machine.build(l4())
    machine.build(l4(), ELEVEN)
    machine.build(l4(hardware_compatibility="ampere_plus"), gpu=fake_gpu.L20)

    assert len(machine.slots()) == 3


def test_a_damaged_timing_cache_is_begun_anew(machine: Machine) -> None:
    machine.build(l4())
    machine.slots()[0].write_text("rubbish")

    done = machine.build(l4())

    assert done["measurements"]["timing_cache"]["before"] == "new"
    assert machine.slots()[0].read_text().splitlines() == [TEN, "kernel 1"]


def test_without_a_timing_cache_nothing_is_remembered(machine: Machine, tmp_path: Path) -> None:
    done = machine.build(l4(timing_cache="none"))

    assert done["measurements"]["timing_cache"] == {"before": "none"}
    assert not (tmp_path / "scratch").exists()


def test_a_pinned_timing_cache_is_read_and_never_written(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "pinned").write_text(f"{TEN}\nkernel 0")

    done = machine.build(l4(timing_cache="timing/l4.cache"), inputs={"timing_cache": tmp_path / "pinned"})

    assert list(done["measurements"]["timing_cache"]) == ["before"]
    assert (tmp_path / "pinned").read_text() == f"{TEN}\nkernel 0"
    assert not (tmp_path / "scratch").exists()


def test_a_pinned_timing_cache_of_another_release_is_refused(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "pinned").write_text("10.9.0.34\nkernel 0")

    done = machine.build(l4(timing_cache="l4.cache"), inputs={"timing_cache": tmp_path / "pinned"})

    assert done["error"] == "NodeFailed"
    assert f"refuses the timing cache '{tmp_path / 'pinned'}'" in done["message"]


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


def test_a_graph_that_would_fail_is_no_engine(machine: Machine) -> None:
    warning = "Profile kMAX values are not self-consistent. IShuffleLayer Reshape_12: reshape would change volume"

    done = machine.build(l4(), DOUBLE_FAULT=warning)

    assert done["message"] == f"TensorRT {TEN} built an engine that would fail: {warning}"
    assert "export again with that axis dynamic" in done["hint"]


def test_a_warning_whose_cause_is_known_is_told(machine: Machine) -> None:
    done = machine.build(l4(), DOUBLE_FAULT="Detected finite FP32 values which would overflow in FP16: conv.weight")

    assert len(done["warnings"]) == 1
    assert "weights lie beyond 65504" in done["warnings"][0]


def test_a_plan_of_another_release_is_refused_and_both_are_named(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "plugins.so").write_text("my plugins")
    backend = l4(version_compatible=True)
    machine.build(backend, "10.9.0.34")
    libraries.carry(tmp_path / "out", ".plan", {"plugin_0": tmp_path / "plugins.so"})

    done = machine.python(_OPENING, TEN, json.dumps(backend.run_options(0)))

    assert (
        "TensorRT 10.16.1.11 refuses the plan: Version tag does not match. Note: Current Version: 10.16.1.11, "
        "Serialized Engine Version: 10.9.0.34; host code True; ['my plugins']"
    ) in done
    assert "another TensorRT built this engine than the one that opens it" in done


def test_a_plan_whose_plugins_do_not_load_is_refused(machine: Machine, tmp_path: Path) -> None:
    machine.build(l4())
    (tmp_path / "empty.so").write_text("")
    libraries.carry(tmp_path / "out", ".plan", {"plugin_0": tmp_path / "empty.so"})

    done = machine.python(_OPENING, TEN, json.dumps(l4().run_options(0)))

    assert "TensorRT cannot load the plugins of 'out/libraries/plugin_0.so': IPluginRegistry::loadLibrary" in done


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
