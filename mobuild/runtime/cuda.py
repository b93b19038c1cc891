"""The few calls of the CUDA driver that the runtime needs, through ctypes: no CUDA package is required.

Asking what card is here must never raise: machines without a driver are the usual place to build on.
Names and constants: CUDA Driver API, `cuda.h`.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from .errors import EngineError

_SMS, _MAJOR, _MINOR = 16, 75, 76  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, _COMPUTE_CAPABILITY_MAJOR, _MINOR


@dataclass(frozen=True)
class Card:
    """Device 0, as the driver describes it. `cuda` is the newest CUDA that the driver runs."""

    name: str
    compute_capability: str
    sms: int
    memory_bytes: int
    cuda: str


def probe() -> tuple[str, str]:
    """(compute capability of device 0, why there is none); one of the two is empty. Never raises."""
    found, missing = card()
    return (found.compute_capability if found else ""), missing


def card() -> tuple[Card | None, str]:
    """(device 0, why there is none). Never raises."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None, "no CUDA driver here (libcuda.so.1 is not found)"
    status = driver.cuInit(0)
    if status != 0:
        return None, f"the CUDA driver finds no usable GPU here (cuInit returns {status})"
    device = ctypes.c_int()
    if driver.cuDeviceGet(ctypes.byref(device), 0) != 0:
        return None, "the CUDA driver finds no GPU here"
    name, memory, version = ctypes.create_string_buffer(256), ctypes.c_size_t(), ctypes.c_int()
    driver.cuDeviceGetName(name, len(name), device)
    driver.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    driver.cuDriverGetVersion(ctypes.byref(version))
    major, minor, sms = (_attribute(driver, device, number) for number in (_MAJOR, _MINOR, _SMS))
    cuda = f"{version.value // 1000}.{version.value % 1000 // 10}"
    return Card(name.value.decode(errors="replace"), f"{major}.{minor}", sms, memory.value, cuda), ""


def _attribute(driver: Any, device: ctypes.c_int, number: int) -> int:
    value = ctypes.c_int()
    driver.cuDeviceGetAttribute(ctypes.byref(value), number, device)
    return value.value


class Device:
    """Device 0 with its primary context, made current for the calling thread."""

    def __init__(self) -> None:
        try:
            self._driver = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise EngineError(f"no CUDA driver here: {error}") from error
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuInit", 0)
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)

    def allocate(self, size_bytes: int) -> int:
        """The address of new memory on the device; at least one byte, so that empty arrays have one."""
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(size_bytes, 1)))
        return address.value

    def free(self, address: int) -> None:
        self._call("cuMemFree_v2", ctypes.c_uint64(address))

    def upload(self, address: int, array: Any) -> None:
        """Copy a contiguous array to the device."""
        if array.nbytes:
            pointer = ctypes.c_void_p(array.ctypes.data)
            self._call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), pointer, ctypes.c_size_t(array.nbytes))

    def download(self, array: Any, address: int) -> None:
        """Fill a contiguous array from the device."""
        if array.nbytes:
            pointer = ctypes.c_void_p(array.ctypes.data)
            self._call("cuMemcpyDtoH_v2", pointer, ctypes.c_uint64(address), ctypes.c_size_t(array.nbytes))

    def wait(self) -> None:
        """Return when all work on the device is done."""
        self._call("cuCtxSynchronize")

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._driver, name)(*arguments)
        if status != 0:
            text = ctypes.c_char_p()
            self._driver.cuGetErrorString(status, ctypes.byref(text))
            words = text.value.decode() if text.value else "unknown error"
            raise EngineError(f"CUDA driver: {name} returns {status} ({words})")
