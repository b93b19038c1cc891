"""Asking a real machine, recording it, and the process that opens CUDA."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mobuild.doctor.live import answer, this_machine
from mobuild.doctor.recording import record, recorded
from mobuild.doctor.survey import survey
from tests.doctor.machines import NAMES, machine, state

CHECKOUT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_of_a_machine_stands_for_it(name: str) -> None:
    document = record(machine(name).answer)

    again = recorded(json.dumps(document))

    assert again is not None
    assert survey(again) == state(name)


def test_what_is_no_recording_is_none() -> None:
    assert [recorded(text) for text in ("", "no JSON", "[1]", '{"recording": 2}')] == [None] * 4


def test_this_machine_answers_whatever_it_is() -> None:
    found = survey(this_machine())

    assert found.place.processors >= found.place.allowed >= 1
    assert found.place.memory_total > 0


def test_a_checkout_records_with_nothing_installed(tmp_path: Path) -> None:
    out = tmp_path / "machine.json"

    subprocess.run([sys.executable, "-S", "-m", "mobuild.doctor.recording", out], cwd=CHECKOUT, check=True)

    assert recorded(out.read_text()) is not None


DRIVER = """\
#include <string.h>
int cuInit(unsigned flags) { return STATUS; }
int cuDriverGetVersion(int *out) { *out = 12080; return 0; }
int cuDeviceGetCount(int *out) { *out = 1; return 0; }
int cuDeviceGet(int *out, int number) { *out = number; return 0; }
int cuDeviceGetName(char *out, int length, int device) { strcpy(out, "Card"); return 0; }
int cuDeviceGetPCIBusId(char *out, int length, int device) { strcpy(out, "0000:01:00.0"); return 0; }
int cuDeviceGetUuid(unsigned char *out, int device) { memset(out, 0xab, 16); return 0; }
int cuDeviceTotalMem_v2(size_t *out, int device) { *out = 1ul << 34; return 0; }
int cuDeviceGetAttribute(int *out, int which, int device) { *out = which == 75 ? 8 : 9; return 0; }
int cuDevicePrimaryCtxRetain(void **out, int device) { return 2; }
"""
RUNTIME = (
    "int cudaRuntimeGetVersion(int *out) { *out = 13000; return 0; } int cudaGetDeviceCount(int *out) { return 35; }"
)


def library(folder: Path, name: str, code: str) -> str:
    """A shared library that stands for NVIDIA's."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    (folder / "code.c").write_text(f"#include <stddef.h>\n{code}")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / name, folder / "code.c"], check=True)
    return str(folder / name)


def test_what_the_driver_says_comes_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = library(tmp_path, "libcuda.so.1", DRIVER.replace("STATUS", "0"))
    runtime = library(tmp_path, "libcudart.so.13", RUNTIME)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))

    found = answer("opened", (runtime,))

    assert (found["status"], found["version"], found["library"]) == (0, 12080, path)
    assert found["devices"] == [
        {
            "name": "Card",
            "bus": "0000:01:00.0",
            "uuid": "ab" * 16,
            "capability": "8.9",
            "memory_bytes": 1 << 34,
            "context": 2,
        }
    ]
    assert found["runtimes"] == [{"path": runtime, "version": 13000, "status": 35}]


def test_a_driver_that_refuses_says_its_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library(tmp_path, "libcuda.so.1", DRIVER.replace("STATUS", "804"))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))

    assert answer("opened", ())["status"] == 804


def test_a_driver_that_ends_the_process_is_survived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library(tmp_path, "libcuda.so.1", "#include <stdlib.h>\nint cuInit(unsigned flags) { abort(); }")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))

    assert "ended with status -6" in answer("opened", ())["crash"]


def test_wheels_tell_their_cuda_without_being_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site-packages"
    wheels = {
        "torch-2.13.0": ("METADATA", "Requires-Dist: cuda-toolkit[cublas]==13.0.2; platform_system == 'Linux'\n"),
        "torchvision-0.28.0": ("RECORD", "torchvision.libs/libcudart-c3a75b33.so.12,sha256=x,1\n"),
        "torchaudio-2.13.0+cu126": ("RECORD", ""),
        "tensorrt_cu12-10.9.0.34": ("RECORD", ""),
        "requests-2.0": ("RECORD", ""),
    }
    for name, (file, text) in wheels.items():
        (site / f"{name}.dist-info").mkdir(parents=True)
        (site / f"{name}.dist-info" / file).write_text(text)
    monkeypatch.setattr(sys, "path", [str(site)])

    found = {name: one.cuda for name, one in this_machine().packages().items()}

    assert found == {"torch": "13.0", "torchvision": "12", "torchaudio": "12.6", "tensorrt-cu12": "12"}
