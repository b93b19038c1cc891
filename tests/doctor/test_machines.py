"""What is found on recorded machines: every fault by its code, and nothing on healthy ones."""

from __future__ import annotations

from typing import Any

import pytest

from tests.doctor.machines import NAMES, findings, state

FOUND = {
    "healthy": {},
    "h200": {},
    "no_gpu": {},
    "two_gpus": {},
    "mismatch": {"D01": "error"},
    "no_module": {"D02": "error"},
    "fabric": {"D05": "error"},
    "forward_compatibility": {"D06": "error", "D11": "warning", "D20": "warning", "D22": "warning", "D23": "warning"},
    "throttled": {"D11": "warning", "D20": "warning", "D22": "warning", "D23": "warning"},
    "mig": {"D24": "warning"},
    "container": {"D30": "warning", "D31": "warning", "D32": "warning", "D35": "warning"},
    "container_v1": {"D30": "warning", "D32": "warning"},
}
WRITTEN = [name for name in NAMES if name in FOUND]


@pytest.mark.parametrize("name", WRITTEN)
def test_a_machine_has_its_faults_and_no_others(name: str) -> None:
    assert {code: one.severity for code, one in findings(name).items()} == FOUND[name]


@pytest.mark.parametrize("name", NAMES)
def test_every_finding_says_what_why_and_how_to_fix(name: str) -> None:
    for one in findings(name).values():
        assert one.subject and one.found and one.why and one.fix


SAID = [
    ("mismatch", "D01", ["570.124.06", "570.133.20", "reboot", "apt-mark hold"]),
    ("no_module", "D02", ["0000:01:00.0", "no kernel module", "dkms", "modprobe nvidia"]),
    ("fabric", "D05", ["802", "560.35.03", "570.124.06", "still lists 2 GPUs"]),
    ("forward_compatibility", "D06", ["804", "/usr/local/cuda-12.8/compat", "535.54.03", "GeForce", "RTX 3090"]),
    ("throttled", "D11", ["525.60.13", "CUDA 12.6", "560.28.03", "PTX", "triton"]),
    ("throttled", "D20", ["3.0 x4", "4.0 x16", "3.9 instead of 31.5 GB/s", "8.0 times"]),
    ("throttled", "D22", ["hw_thermal_slowdown", "sw_power_cap"]),
    ("throttled", "D23", ["220 W", "350 W", "nvidia-smi -i 0 -pl 350"]),
    ("mig", "D24", ["2 MIG devices", "CUDA_VISIBLE_DEVICES=MIG-"]),
    ("container", "D30", ["1.0 GiB", "8.0 GiB", "62.8 GiB", "executor.slots=1"]),
    ("container", "D31", ["64 MiB free of 64 MiB", "--shm-size"]),
    ("container", "D32", ["4 processors' worth", "intra_op_num_threads=4"]),
    ("container", "D35", ["2 processes"]),
    ("container_v1", "D30", ["1.0 GiB", "3.0 GiB"]),
    ("container_v1", "D32", ["3 of 64", "intra_op_num_threads=3"]),
]


@pytest.mark.parametrize(("name", "code", "words"), SAID, ids=lambda value: value if isinstance(value, str) else "")
def test_a_finding_has_the_numbers(name: str, code: str, words: list[str]) -> None:
    one = findings(name)[code]

    for word in words:
        assert word in f"{one.found} {one.why} {one.fix}"


LIBRARY = "/usr/lib/x86_64-linux-gnu/libcuda.so.570.124.06"
VARIANTS: list[tuple[str, dict[str, Any], str, str, list[str]]] = [
    ("no device", {"opened": {"status": 100}}, "D04", "error", ["100", "1 in nvidia-smi"]),
    ("unknown error", {"opened": {"status": 999}}, "D07", "error", ["999", "nvidia_uvm"]),
    ("hung", {"opened": {"crash": "no answer within 60 s"}}, "D07", "error", ["no answer within 60 s"]),
    (
        "files missing",
        {"opened": {"status": 999}, "access /dev/nvidia-uvm": None},
        "D03",
        "error",
        ["nvidia-uvm missing"],
    ),
    ("files denied", {"opened": {"status": 100}, "access /dev/nvidia0": "denied"}, "D03", "error", ["not accessible"]),
    ("no library", {"opened": {"error": "libcuda.so.1: cannot open"}}, "D08", "error", ["libcuda.so.1", "570.124.06"]),
    (
        "nouveau",
        {"opened": {"error": "libcuda.so.1: …"}, "text /proc/driver/nvidia/version": None}
        | {"names /sys/module/nouveau": ["refcnt"], "run nvidia-smi -q -x": {"status": 127}},
        "D02",
        "error",
        ["nouveau"],
    ),
    ("hidden", {"opened": {"status": 100}, "variable CUDA_VISIBLE_DEVICES": ""}, "D12", "error", ["hides every GPU"]),
    (
        "no such",
        {"opened": {"status": 100}, "variable CUDA_VISIBLE_DEVICES": "3"},
        "D12",
        "error",
        ["names 3", "0 = GPU-"],
    ),
    ("no nvidia-smi", {"run nvidia-smi -q -x": {"status": 127}}, "D13", "warning", ["not installed"]),
    (
        "JIT cache full",
        {"size /home/user/.nv/ComputeCache": 1 << 30},
        "D33",
        "warning",
        ["1.0 GiB", "CUDA_CACHE_MAXSIZE"],
    ),
    ("JIT cache off", {"variable CUDA_CACHE_DISABLE": "1"}, "D33", "warning", ["CUDA_CACHE_DISABLE=1"]),
    ("docker", {"which docker": "/usr/bin/docker"}, "D34", "warning", ["toolkit is absent", "not a GPU fault"]),
    ("snap", {"which docker": "/snap/bin/docker"}, "D34", "warning", ["snap package"]),
]


@pytest.mark.parametrize(
    ("also", "code", "severity", "words"), [one[1:] for one in VARIANTS], ids=[v[0] for v in VARIANTS]
)
def test_one_thing_wrong_on_a_healthy_machine_is_found_alone(
    also: dict[str, Any], code: str, severity: str, words: list[str]
) -> None:
    if "status" in also.get("opened", {}):
        also = {
            **also,
            "opened": {"library": LIBRARY, "version": 12080, "devices": [], "runtimes": [], **also["opened"]},
        }

    found = findings("healthy", also)

    assert {one: found[one].severity for one in found} == {code: severity}
    for word in words:
        assert word in f"{found[code].found} {found[code].why} {found[code].fix}"


def test_a_context_that_does_not_open_names_its_device() -> None:
    devices = [{**state("healthy").cuda.devices[0].__dict__, "memory_bytes": 1 << 34, "context": 2}]
    del devices[0]["memory_mib"]
    also = {"opened": {"library": LIBRARY, "status": 0, "version": 12080, "devices": devices, "runtimes": []}}

    found = findings("healthy", also)["D07"]

    assert (found.subject, found.severity) == ("CUDA device 0", "error")
    assert "other programs have its memory" in found.why


def test_numbers_of_different_cards_are_told_apart() -> None:
    found = findings("two_gpus", {"variable CUDA_VISIBLE_DEVICES": "0,1"})

    assert state("two_gpus").numbers == {0: 1, 1: 0}
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in found["D12"].fix
    assert (
        findings("two_gpus", {"variable CUDA_VISIBLE_DEVICES": "0,1", "variable CUDA_DEVICE_ORDER": "PCI_BUS_ID"}) == {}
    )


def test_a_card_on_the_machine_of_a_container_that_was_given_none_is_no_error() -> None:
    also = {"real /.dockerenv": "/.dockerenv", "text /proc/driver/nvidia/version": None, "names /dev": ["shm"]}
    also |= {"opened": {"error": "libcuda.so.1: cannot open"}, "run nvidia-smi -q -x": {"status": 127}}

    found = findings("healthy", also)

    assert {code: one.severity for code, one in found.items()} == {"D02": "warning"}
    assert "--gpus all" in found["D02"].fix


def test_a_driver_library_without_a_card_is_no_error() -> None:
    cuda = {"library": LIBRARY, "status": 100, "version": 12080, "devices": [], "runtimes": []}

    assert {code: one.severity for code, one in findings("no_gpu", {"opened": cuda}).items()} == {"D04": "warning"}


def test_a_driver_below_the_floor_is_an_error_with_both_numbers() -> None:
    packages = {"torch": {"version": "2.13.0+cu130", "cuda": "13.0"}, "cupy-cuda13x": {"version": "13.6", "cuda": "13"}}

    found = findings("healthy", {"packages": packages})

    assert found["D10"].severity == "error"
    for word in ("570.124.06", "CUDA up to 12.8", "580.65.06", "cupy-cuda13x 13.6, torch 2.13.0+cu130", "35"):
        assert word in f"{found['D10'].found} {found['D10'].why}"


@pytest.mark.parametrize(
    ("name", "hardware", "code", "words"),
    [
        ("healthy", "l4", None, []),
        ("healthy", "l20", "D51", ["22.0 GiB", "48 GiB"]),
        ("healthy", "t4", "D50", ["NVIDIA L4 (8.9", "compute capability 7.5"]),
        ("no_gpu", "l4", "D52", ["no usable GPU"]),
        ("no_gpu", "cpu", None, []),
        ("mig", "l4", "D50", ["8.0", "19.5 GiB"]),
    ],
)
def test_the_card_is_held_against_the_hardware_that_is_asked_for(
    name: str, hardware: str, code: str | None, words: list[str]
) -> None:
    found = {code: one for code, one in findings(name, hardware=hardware).items() if code.startswith("D5")}

    assert list(found) == ([code] if code else [])
    for word in words:
        assert code and word in f"{found[code].found} {found[code].why}"


@pytest.mark.parametrize(
    ("hardware", "fix"),
    [
        ("l4", "a TensorRT-RTX plan can be built without the card; run and measure it on a machine that has it"),
        ("h100", "on a machine that has the card, with backend=tensorrt"),
        ("v100", "on a machine that has the card, with backend=tensorrt backend.version='\"10.4\"'"),
        ("gtx1070", "no engine can be built for it: compute capability 6.1: TensorRT from 10.0 starts at 7.0"),
    ],
)
def test_what_is_advised_for_an_absent_card_is_possible_for_it(hardware: str, fix: str) -> None:
    found = findings("no_gpu", hardware=hardware)["D52"]

    assert fix in found.fix
    assert ("TensorRT-RTX plan can be built" in found.fix) == (hardware == "l4")


def test_a_broken_driver_does_not_matter_for_the_cpu() -> None:
    assert [one.severity for one in findings("mismatch", hardware="cpu").values()] == ["warning"]
