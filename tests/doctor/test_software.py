"""Packages and libraries that do not fit each other or the card."""

from __future__ import annotations

from typing import Any

import pytest

from tests.doctor.machines import findings

SITE = "/home/user/venv/lib/python3.11/site-packages"
PROVIDER = f"{SITE}/onnxruntime/capi/libonnxruntime_providers_tensorrt.so"
LOADER = {"libnvinfer.so.10": "/usr/lib/x86_64-linux-gnu/libnvinfer.so.10.7.0"}


def packages(**versions: str) -> dict[str, Any]:
    """Packages by version; `torch="2.13.0 12.6"` was built for CUDA 12.6."""
    pairs = {name.replace("_", "-"): text.partition(" ") for name, text in versions.items()}
    return {"packages": {name: {"version": version, "cuda": cuda} for name, (version, _, cuda) in pairs.items()}}


FAULTS: list[tuple[str, dict[str, Any], str, str, list[str]]] = [
    (
        "placeholder",
        packages(nvidia_cublas="0.0.1.dev5"),
        "D40",
        "error",
        ["0.0.1.dev5", "placeholder", "pip uninstall nvidia-cublas"],
    ),
    ("stub", packages(tensorrt_cu12="10.9.0.34"), "D40", "error", ["no tensorrt-cu12-libs", "--force-reinstall"]),
    (
        "parts",
        packages(tensorrt="10.9.0", tensorrt_cu12_libs="10.9.0", tensorrt_cu12_bindings="10.7.0"),
        "D41",
        "error",
        ["tensorrt-cu12-bindings 10.7.0", "tensorrt-cu12-libs 10.9.0"],
    ),
    (
        "two TensorRT",
        packages(tensorrt="10.9.0.34", tensorrt_cu12_libs="10.9.0.34")
        | {f"names {SITE}/tensorrt_libs": ["libnvinfer.so.10"], "known_libraries": LOADER}
        | {f"real {LOADER['libnvinfer.so.10']}": LOADER["libnvinfer.so.10"]},
        "D41",
        "error",
        [f"10.9.0.34 in {SITE}/tensorrt_libs/libnvinfer.so.10", f"10.7.0 in {LOADER['libnvinfer.so.10']}"],
    ),
    (
        "CUDA torchvision beside CPU torch",
        packages(torch="2.13.0+cpu", torchvision="0.28.0 12"),
        "D42",
        "error",
        ["built for CUDA 12", "for the CPU", "torchvision::nms", "whl/cpu"],
    ),
    (
        "torchvision of another CUDA",
        packages(torch="2.13.0+cu126 12.6", torchvision="0.28.0+cu118 11.8"),
        "D42",
        "error",
        ["CUDA 11.8", "CUDA 12.6", "whl/cu126"],
    ),
    ("TensorRT too old", packages(tensorrt="10.4.0", tensorrt_libs="10.4.0"), "D44", "error", ["R2"]),
    (
        "a library is missing",
        {f"real {PROVIDER.replace('tensorrt', 'cuda')}": "yes"}
        | {f"run ldd {PROVIDER.replace('tensorrt', 'cuda')}": {"status": 0, "out": "\tlibcudnn.so.9 => not found\n"}},
        "D45",
        "error",
        ["libcudnn.so.9", "nvidia-cudnn-cu13"],
    ),
    (
        "a provider that may not be wanted",
        {f"real {PROVIDER}": "yes", f"run ldd {PROVIDER}": {"status": 0, "out": "\tlibnvinfer.so.10 => not found\n"}},
        "D45",
        "warning",
        ["TensorRT is absent", "tensorrt-cu13==10.*"],
    ),
]


@pytest.mark.parametrize(
    ("also", "code", "severity", "words"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS]
)
def test_a_fault_of_packages_is_found_alone(also: dict[str, Any], code: str, severity: str, words: list[str]) -> None:
    card = {"opened": blackwell()} if words == ["R2"] else {}

    found = findings("healthy", {**also, **card})

    assert {one: found[one].severity for one in found} == {code: severity}
    for word in words:
        assert word in f"{found[code].found} {found[code].why} {found[code].fix}"


def blackwell() -> dict[str, Any]:
    """CUDA on a card that TensorRT knows from 10.8 on."""
    device = {"name": "RTX 5090", "bus": "0000:01:00.0", "uuid": "", "capability": "12.0", "context": 0}
    return {
        "library": "",
        "status": 0,
        "version": 12080,
        "devices": [{**device, "memory_bytes": 1 << 35}],
        "runtimes": [],
    }


FITTING = {
    "whole TensorRT": packages(tensorrt="10.9.0", tensorrt_cu12="10.9.0", tensorrt_cu12_libs="10.9.0"),
    "TensorRT of the distribution": packages(tensorrt="10.7.0")
    | {"known_libraries": LOADER, f"real {LOADER['libnvinfer.so.10']}": LOADER["libnvinfer.so.10"]},
    "TensorRT of the time before it was split": packages(tensorrt="8.5.3.1"),
    "torchvision of the same CUDA": packages(torch="2.13.0+cu126 12.6", torchvision="0.28.0+cu126 12.6"),
    "CPU torchvision": packages(torch="2.13.0+cpu", torchvision="0.28.0+cpu"),
    "a library inside of a package": {
        f"real {PROVIDER.replace('tensorrt', 'cuda')}": "yes",
        f"run ldd {PROVIDER.replace('tensorrt', 'cuda')}": {"status": 0, "out": "\tlibcudnn.so.9 => not found\n"},
        f"names {SITE}/nvidia": ["cudnn"],
        f"names {SITE}/nvidia/cudnn/lib": ["libcudnn.so.9"],
    },
}


@pytest.mark.parametrize("also", FITTING.values(), ids=list(FITTING))
def test_what_fits_is_no_finding(also: dict[str, Any]) -> None:
    assert findings("healthy", also) == {}
