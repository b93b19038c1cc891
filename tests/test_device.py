"""`hardware=auto`: the GPU of this machine, with a driver of our own in the place of NVIDIA's."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.projects import Project, recipe_project

# Answers for one GPU. The numbers of the attributes are CUDA's: cuda.h, CUdevice_attribute.
DRIVER = """\
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
int cuInit(unsigned flags) { return atoi(getenv("FAKE_STATUS")); }
int cuDriverGetVersion(int *version) { *version = 12080; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = 0; return 0; }
int cuDeviceGetName(char *name, int size, int device) { strncpy(name, getenv("FAKE_NAME"), size); return 0; }
int cuDeviceTotalMem_v2(size_t *size, int device) { *size = 47ull << 30; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  switch (attribute) {
    case 75: *value = atoi(getenv("FAKE_MAJOR")); return 0;
    case 76: *value = 9; return 0;
    case 16: *value = 92; return 0;
    case 36: *value = 9001000; return 0;
    case 37: *value = 384; return 0;
    case 38: *value = 96 << 20; return 0;
    case 18: *value = 0; return 0;
  }
  return 1;
}
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Environment variables under which there is a GPU."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here")
    folder = tmp_path_factory.mktemp("driver")
    (folder / "driver.c").write_text(DRIVER)
    library = folder / "libcuda.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, folder / "driver.c"], check=True)
    return {"LD_LIBRARY_PATH": str(folder), "FAKE_MAJOR": "8", "FAKE_STATUS": "0", "FAKE_NAME": "NVIDIA L20"}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """One node that holds a fact of the hardware."""
    node = '  file: {kind: command, cmd: "sh tool.sh ${hardware.compute_capability} {out}", out: .txt}\n'
    return recipe_project(tmp_path, node, {"tool.sh": 'echo "$1" > "$2"\n'})


def test_facts_come_from_the_driver(project: Project, driver: Mapping[str, str]) -> None:
    composed = project.mobuild("--cfg", "job", "--resolve", "--package", "hardware", "hardware=auto", env=driver).out

    assert composed.splitlines()[1:] == [
        "name: NVIDIA L20",
        "vendor: nvidia",
        "family: ''",
        "compute_capability: '8.9'",
        "memory_gib: 47.0",
        "bandwidth_gb_s: 864.1",
        "l2_mib: 96.0",
        "sms: 92",
        "unified: false",
        "host: ''",
        "backends:",
        "- tensorrt_rtx",
        "- tensorrt",
        "source: the CUDA driver of this machine",
        "confidence: M",
        "uncertain:",
        "- bandwidth_gb_s",
    ]


def test_a_consumer_card_is_told_from_a_data_centres(project: Project, driver: Mapping[str, str]) -> None:
    words = ("check", "target=engine", "recipe=crepe_tiny", "hardware=auto", "check.compat=true")
    geforce = {**driver, "FAKE_NAME": "NVIDIA GeForce RTX 4090"}

    assert project.mobuild(*words, env=driver).status == 0
    assert "R8 " in project.mobuild(*words, env=geforce, check=False).out


def test_the_driver_here_is_judged_where_the_card_is_the_one_that_is_named(
    project: Project, driver: Mapping[str, str]
) -> None:
    """The fake driver knows CUDA up to 12.8, and the installed wheels of TensorRT-RTX are for 13."""
    words = ("check", "target=engine", "recipe=crepe_tiny", "backend=tensorrt_rtx")

    said = {name: project.mobuild(*words, f"hardware={name}", env=driver).out for name in ("auto", "l20", "l4")}

    assert [name for name, out in said.items() if "R6 " in out] == ["auto", "l20"]
    assert "the driver here runs CUDA up to 12.8" in said["l20"]
    assert "R6 " not in project.mobuild(*words, "hardware=l20").out


def test_an_artifact_has_the_key_of_the_cards_own_file(project: Project, driver: Mapping[str, str]) -> None:
    def key(hardware: str) -> str:
        document = project.mobuild("plan", "target=file", f"hardware={hardware}", "format=json", env=driver).out
        return str(json.loads(document)["steps"][0]["key"])

    assert key("auto") == key("l20") != key("t4")


def test_another_card_in_the_machine_is_noticed(project: Project, driver: Mapping[str, str]) -> None:
    words = ["target=file", "hardware=auto"]
    project.mobuild(*words, env=driver)
    for _ in range(3):  # by then an answer would be kept, were it one to repeat
        project.mobuild(*words, env=driver)

    assert project.built(*words, recipe="small", variant="auto", env={**driver, "FAKE_MAJOR": "9"}) == {"file"}


def test_a_card_that_tensorrt_rtx_lacks_is_refused(tmp_path: Path, driver: Mapping[str, str]) -> None:
    project = Project(tmp_path, tmp_path / "cache")

    done = project.mobuild("plan", "hardware=auto", env={**driver, "FAKE_MAJOR": "7"}, check=False)

    assert done.status == 1
    assert done.errors[0].startswith("hardware 'NVIDIA L20': none of its backends [tensorrt] is among the builders")


def test_no_usable_gpu_is_said_with_the_way_out(project: Project, driver: Mapping[str, str]) -> None:
    done = project.mobuild("plan", "target=file", "hardware=auto", env={**driver, "FAKE_STATUS": "100"}, check=False)

    assert done.status == 1
    assert done.errors == (
        "hardware=auto: the CUDA driver finds no usable GPU here (cuInit returns 100)\n"
        "  hardware=cpu builds for the CPU; hardware=l4 for a card that is not here; mobuild list names all",
    )


def test_other_jobs_of_a_sweep_go_on(project: Project, driver: Mapping[str, str]) -> None:
    words = ["-m", "plan", "target=file", "hardware=auto,l4"]

    done = project.mobuild(*words, env={**driver, "FAKE_STATUS": "100"}, check=False)

    assert done.status == 1
    assert "small/l4 file" in done.out
