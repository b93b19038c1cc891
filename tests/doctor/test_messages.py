"""Messages that people met: each is explained on a machine that shows nothing, and with numbers on one that does.

Met in (one row each): lyulyul/shine-cluster#30 · NVIDIA/nvidia-docker#1352 · NVIDIA/TensorRT#1786 ·
NVIDIA/TensorRT#1160 · gpustack/gpustack#4154 · pytorch/pytorch#167244 · NVIDIA/TensorRT#4317 ·
microsoft/onnxruntime#8313 · FocoosAI/focoos#143 · jhj0517/Whisper-WebUI#294 · pytorch/pytorch#5040.
"""

from __future__ import annotations

from typing import Any

import pytest

from mobuild.doctor.findings import status
from tests.doctor.machines import findings

MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"
ENGINE = 'could not select device driver "" with capabilities: [[gpu]]'
INSUFFICIENT = "CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version"
COMPATIBILITY = "compatibility mode is UNAVAILABLE (cuInit(0) returned 804)"
FABRIC = "Error 802: system not yet initialized"
KERNELS = "no kernel image is available for execution on the device"
TARGET = "Target GPU SM 120 is not supported by this TensorRT release"
AFFINITY = (
    "pthread_setaffinity_np failed for thread: 140, index: 2, mask: {3, }, error code: 22 error msg: Invalid argument"
)
CUDNN = "Could not load library libcudnn_ops.so.9. Error: libcudnn_ops.so.9: cannot open shared object file"
BUS = (
    "RuntimeError: DataLoader worker (pid 13) is killed by signal: Bus error. It is possible that dataloader's workers"
)
LIBRARY = "libnvinfer.so.10: cannot open shared object file: No such file or directory"

ROWS = [
    (
        MISMATCH,
        1,
        [
            "kernel module (/proc/driver/nvidia/version)",
            "user library",
            "reboot",
            "reload the module",
            "unattended upgrades",
        ],
    ),
    (ENGINE, 1, ["container toolkit is absent", "snap package", "not a GPU fault"]),
    (INSUFFICIENT, 1, ["driver's version", "525.60.13 for CUDA 12", "580.65.06 for CUDA 13", "no GPU is visible"]),
    (COMPATIBILITY, 1, ["newer driver branch", "not eligible for forward compatibility", "GeForce"]),
    (FABRIC, 1, ["NVSwitch", "fabric manager is absent", "nvidia-smi still lists the GPUs"]),
    (KERNELS, 1, ["compute capability", "compiled for"]),
    (TARGET, 1, ["R2", "12.0 is 10.8"]),
    (AFFINITY, 0, ["CPU set", "thread count", "control group"]),
    (CUDNN, 1, ["libcudnn_ops.so.9", "nvidia-cudnn-cu13==9.*", "nvidia-cudnn-cu12"]),
    (BUS, 1, ["/dev/shm", "--shm-size=1g"]),
    (LIBRARY, 1, ["provider library", "TensorRT is absent", "tensorrt-cu", "apt install libnvinfer10"]),
]


@pytest.mark.parametrize(("message", "ends", "words"), ROWS, ids=[row[0][:20] for row in ROWS])
def test_a_message_is_explained_where_the_machine_shows_nothing(message: str, ends: int, words: list[str]) -> None:
    found = list(findings("no_gpu", message=message).values())

    assert (len(found), status(found)) == (1, ends)
    for word in words:
        assert word in f"{found[0].found} {found[0].why} {found[0].fix}"


TORCH = {"packages": {"torch": {"version": "2.13.0+cu130", "cuda": "13.0"}}}
V100 = {
    "opened": {
        "library": "",
        "status": 0,
        "version": 13000,
        "runtimes": [],
        "devices": [
            {
                "name": "V100",
                "bus": "0000:01:00.0",
                "uuid": "",
                "capability": "7.0",
                "memory_bytes": 1 << 34,
                "context": 0,
            }
        ],
    }
}
NUMBERS: list[tuple[str, str, dict[str, Any], str, list[str]]] = [
    (MISMATCH, "mismatch", {}, "D01", ["570.124.06", "570.133.20"]),
    (ENGINE, "healthy", {"which docker": "/snap/docker/3377/bin/docker"}, "D34", ["docker is a snap package"]),
    (INSUFFICIENT, "healthy", TORCH, "D10", ["570.124.06", "580.65.06", "here CUDA sees 1 GPU"]),
    (COMPATIBILITY, "forward_compatibility", {}, "D06", ["535.54.03", "RTX 3090"]),
    (FABRIC, "fabric", {}, "D05", ["560.35.03", "570.124.06", "still lists 2 GPUs"]),
    (KERNELS, "healthy", {**TORCH, **V100}, "D43", ["7.0 is not", "7.5, 8.0, 8.6, 9.0, 10.0, 12.0", "CUDA 12.6"]),
    (TARGET, "healthy", {"packages": {"tensorrt": {"version": "10.7.0"}}}, "D44", ["10.8", "tensorrt 10.7.0"]),
    (AFFINITY, "container_v1", {}, "D32", ["3 of 64"]),
    (BUS, "healthy", {"room /dev/shm": [64 << 20, 1 << 20]}, "D31", ["1 MiB free of 64 MiB"]),
]


@pytest.mark.parametrize(("message", "name", "also", "code", "words"), NUMBERS, ids=[row[0][:20] for row in NUMBERS])
def test_a_message_is_explained_with_what_the_machine_shows(
    message: str, name: str, also: dict[str, Any], code: str, words: list[str]
) -> None:
    one = findings(name, also, message=message)[code]

    for word in words:
        assert word in f"{one.found} {one.why} {one.fix}"


def test_the_library_of_another_major_is_named() -> None:
    site = "/home/user/venv/lib/python3.11/site-packages"
    also = {
        f"names {site}/tensorrt_libs": ["libnvinfer.so.11"],
        "packages": {"tensorrt-cu13-libs": {"version": "11.4.1"}},
    }

    one = findings("healthy", also, message=LIBRARY)["D45"]

    assert f"TensorRT of another major is here: 11.4.1 in {site}/tensorrt_libs/libnvinfer.so.11" in one.found


def test_a_log_may_hold_several_messages() -> None:
    text = f"step 1 ok\nRuntimeError: {KERNELS}\nwarning: {AFFINITY}\n"

    assert set(findings("no_gpu", message=text)) == {"D43", "D32"}


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            "The engine plan file is not compatible with this version of TensorRT, expecting library version 10.3.0.26 "
            "got 8.6.1.6, please rebuild.",
            ["another TensorRT built this engine", "triton-inference-server/server#317"],
        ),
        ("Version tag does not match. Note: Current Version: 237", ["another TensorRT", "NVIDIA/TensorRT#3898"]),
        (
            "The engine plan file is generated on an incompatible device, expecting compute 8.9 got compute 8.6",
            ["another GPU", "backend.hardware_compatibility"],
        ),
        ("bash: trtexec: command not found", ["pip packages have no trtexec", "libnvinfer-bin"]),
    ],
)
def test_what_builders_and_runtimes_say_has_its_cause_and_remedy(message: str, words: list[str]) -> None:
    one = findings("no_gpu", message=f"step 1 ok\n[TRT] [E] 6: {message}\n{AFFINITY}")

    assert set(one) == {"D91", "D32"}
    assert one["D91"].severity == "error"
    assert message[:40] in one["D91"].found
    for word in words:
        assert word in f"{one['D91'].why} {one['D91'].fix}"


@pytest.mark.parametrize("message", ["The timing cache will not be used!", "Detected invalid timing cache"])
def test_what_costs_time_alone_is_a_warning(message: str) -> None:
    found = findings("no_gpu", message=message)

    assert status(list(found.values())) == 0
    assert found["D91"].fix == "nothing is lost but time; a new one is begun"


def test_what_nobody_knows_is_a_warning() -> None:
    assert findings("no_gpu", message="segmentation fault")["D90"].severity == "warning"


@pytest.mark.parametrize("text", ["epoch 804 of 999", "35 images, 802 boxes", "loss 803.5"])
def test_numbers_alone_are_no_messages(text: str) -> None:
    assert list(findings("no_gpu", message=text)) == ["D90"]
