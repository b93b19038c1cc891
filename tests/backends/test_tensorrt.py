"""The TensorRT backend with doubles of its bindings (tests/backends/doubles), which have the names of real releases."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import fake_gpu
import pytest
from double_machine import ELEVEN, PROFILE, TEN, Machine, l4

from mobuild import libraries

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

_RUNNING = """
import json, sys
from pathlib import Path
import numpy
from mobuild.runtime.errors import EngineError
from mobuild.runtime.runner import open_engine
engine = open_engine(Path("out"), "tensorrt")
for batch, profile in json.loads(sys.argv[1]):
    try:
        print(float(engine.run({"x": numpy.zeros((batch, 16), "float32")}, profile)["y"].max()))
    except EngineError as error:
        print(error)
"""


_LOADING = """
import json, sys
import numpy, mobuild
from mobuild.runtime.errors import EngineError
runner = mobuild.load("out", runtime="tensorrt")
try:
    for batch in json.loads(sys.argv[1]):
        print(len(runner(x=numpy.zeros((batch, 16), "float32"))["y"]))
except EngineError as error:
    print(error.message)
"""


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


@pytest.mark.parametrize(
    "warning",
    [
        "Profile kMAX values are not self-consistent. IShuffleLayer Reshape_12: reshape would change volume",
        "Profile kMIN values are not self-consistent. IShuffleLayer Reshape_12: reshaping failed for tensor: x",
        "kOPT values for profile 0 violate shape constraints: IShuffleLayer Reshape_12: reshape would change volume 2",
    ],
)
def test_a_graph_that_would_fail_is_no_engine(machine: Machine, warning: str) -> None:
    """trt-batch-const, on recorded logs: the warning is a finding, and names the Reshape."""
    done = machine.build(l4(), DOUBLE_FAULT=warning)

    assert done["message"] == f"TensorRT {TEN} built an engine that would fail: {warning}"
    assert "export again with that axis dynamic" in done["hint"]


def test_a_warning_whose_cause_is_known_is_told(machine: Machine) -> None:
    done = machine.build(l4(), DOUBLE_FAULT="Detected finite FP32 values which would overflow in FP16: conv.weight")

    assert len(done["warnings"]) == 1
    assert "weights lie beyond 65504" in done["warnings"][0]


def test_a_plan_of_another_release_is_refused_and_both_are_named(machine: Machine, tmp_path: Path) -> None:
    """trt-version-mismatch: where a process opens it all the same."""
    (tmp_path / "plugins.so").write_text("my plugins")
    backend = l4(version_compatible=True)
    machine.build(backend, "10.9.0.34")
    libraries.carry(tmp_path / "out", ".plan", {"plugin_0": tmp_path / "plugins.so"})

    done = machine.python(_OPENING, TEN, json.dumps(backend.run_options(())))

    assert (
        "TensorRT 10.16.1.11 refuses the plan: Version tag does not match. Note: Current Version: 10.16.1.11, "
        "Serialized Engine Version: 10.9.0.34; host code True; ['my plugins']"
    ) in done
    assert "another TensorRT built this engine than the one that opens it" in done


def test_the_runtime_takes_the_first_profile_that_fits(machine: Machine) -> None:
    machine.build(l4(), profiles=[PROFILE, {"x": [[4, 16], [16, 16], [32, 16]]}])

    done = machine.python(_RUNNING, TEN, json.dumps([[1, None], [8, None], [9, None], [8, 1], [2, None]]))

    assert done.splitlines() == ["0.0", "0.0", "1.0", "1.0", "0.0"]


def test_sizes_that_no_profile_takes_are_refused_with_the_limits(machine: Machine) -> None:
    machine.build(l4(), profiles=[PROFILE, {"x": [[16, 16], [16, 16], [32, 16]]}])

    done = machine.python(_RUNNING, TEN, json.dumps([[9, None]]))

    assert done.splitlines() == [
        "no profile of the engine takes x 9×16",
        "  profiles: 0: x 1×16 to 8×16; 1: x 16×16 to 32×16",
        "  build it for these sizes, too: shapes",
    ]


def test_a_run_that_fails_tells_its_own_reasons_alone(machine: Machine) -> None:
    machine.build(l4(), profiles=[PROFILE, {"x": [[16, 16], [16, 16], [32, 16]]}])

    done = machine.python(_RUNNING, TEN, json.dumps([[9, 0], [10, 0]]))

    assert done.splitlines() == [
        "input 'x': profile 0 takes no (9, 16): setInputShape: x: 9 is beyond profile 0",
        "input 'x': profile 0 takes no (10, 16): setInputShape: x: 10 is beyond profile 0",
    ]


def test_a_plan_is_loaded_and_runs_by_the_profile_that_fits(machine: Machine) -> None:
    machine.build(l4(), profiles=[PROFILE, {"x": [[16, 16], [16, 16], [32, 16]]}])

    done = machine.python(_LOADING, TEN, json.dumps([2, 32, 9]))

    assert done.splitlines() == ["2", "32", "no profile of the engine takes x 9×16"]


def test_what_an_integer_input_holds_reaches_the_profile(machine: Machine) -> None:
    done = machine.build(l4(), contents={"size": [[1, 8], [1, 16], [1, 32]]})

    assert done["plan"]["profiles"] == [{**PROFILE, "size holds": [[1, 8], [1, 16], [1, 32]]}]


def test_a_plan_whose_plugins_do_not_load_is_refused(machine: Machine, tmp_path: Path) -> None:
    machine.build(l4())
    (tmp_path / "empty.so").write_text("")
    libraries.carry(tmp_path / "out", ".plan", {"plugin_0": tmp_path / "empty.so"})

    done = machine.python(_OPENING, TEN, json.dumps(l4().run_options(())))

    assert "TensorRT cannot load the plugins of 'out/libraries/plugin_0.so': IPluginRegistry::loadLibrary" in done
