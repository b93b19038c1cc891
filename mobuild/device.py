"""The GPU of this machine as a row of hardware, asked of the CUDA driver through ctypes.

What the driver says beats every table. Names and numbers: CUDA Driver API, `cuda.h`.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from mobuild.errors import ToolchainError
from mobuild.facts.releases import releases
from mobuild.hardware import Hardware

_SMS, _INTEGRATED, _CLOCK_KHZ, _BUS_BITS, _L2_BYTES, _MAJOR, _MINOR = 16, 18, 36, 37, 38, 75, 76
_REMEDY = "hardware=cpu builds for the CPU; hardware=l4 for a card that is not here; mobuild list names all"


@cache
def here() -> Hardware:
    """The first GPU that CUDA shows to this process.

    Raises:
        ToolchainError: there is none, or no driver.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise _none("there is no CUDA driver here (libcuda.so.1 is not found)") from error
    device, memory, name = ctypes.c_int(), ctypes.c_size_t(), ctypes.create_string_buffer(256)
    if status := driver.cuInit(0):
        raise _none(f"the CUDA driver finds no usable GPU here (cuInit returns {status})")
    if status := driver.cuDeviceGet(ctypes.byref(device), 0):
        raise _none(f"the CUDA driver finds no GPU here (cuDeviceGet returns {status})")
    driver.cuDeviceGetName(name, len(name), device)
    driver.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    capability = f"{_attribute(driver, device, _MAJOR)}.{_attribute(driver, device, _MINOR)}"
    # twice the clock, since memory transfers on both edges; kHz × bits / 8 = kB/s
    bandwidth_gb_s = 2 * _attribute(driver, device, _CLOCK_KHZ) * _attribute(driver, device, _BUS_BITS) / 8e6
    return Hardware(
        name=name.value.decode(errors="replace"),
        vendor="nvidia",
        compute_capability=capability,
        memory_gib=round(memory.value / 2**30, 2),
        bandwidth_gb_s=round(bandwidth_gb_s, 1),
        l2_mib=_attribute(driver, device, _L2_BYTES) / 2**20,
        sms=_attribute(driver, device, _SMS),
        unified=bool(_attribute(driver, device, _INTEGRATED)),
        backends=("tensorrt_rtx", "tensorrt") if _is_rtx(capability) else ("tensorrt",),
        source="the CUDA driver of this machine",
        confidence="M",
        uncertain=("bandwidth_gb_s",),
    )


def _is_rtx(capability: str) -> bool:
    return capability in releases("tensorrt_rtx")[-1].builds


def _attribute(driver: Any, device: ctypes.c_int, number: int) -> int:
    """A property of the device; 0 where the driver does not tell it."""
    value = ctypes.c_int()
    driver.cuDeviceGetAttribute(ctypes.byref(value), number, device)
    return value.value


def _none(why: str) -> ToolchainError:
    return ToolchainError(f"hardware=auto: {why}", _REMEDY)
