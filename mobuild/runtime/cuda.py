"""The few calls of the CUDA driver that the runtime needs, through ctypes: no CUDA package is required.

Asking what card is here must never raise: machines without a driver are the usual place to build on.
Names and constants: CUDA Driver API, `cuda.h`.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from .errors import EngineError

_SMS, _INTEGRATED, _CLOCK_KHZ, _BUS_BITS, _L2_BYTES, _MAJOR, _MINOR = 16, 18, 36, 37, 38, 75, 76  # CUdevice_attribute
_OUT_OF_MEMORY = 2  # CUresult


class DeviceError(EngineError):
    """A call of the driver failed; what the process has on the device is lost, save when memory ran out."""


@dataclass(frozen=True)
class Card:
    """Device 0, as the driver describes it. `cuda` is the newest CUDA that the driver runs; 0: it does not tell."""

    name: str
    compute_capability: str
    sms: int
    memory_bytes: int
    cuda: str
    memory_clock_khz: int = 0
    memory_bus_bits: int = 0
    l2_bytes: int = 0
    is_integrated: bool = False


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
    status = driver.cuDeviceGet(ctypes.byref(device), 0)
    if status != 0:
        return None, f"the CUDA driver finds no GPU here (cuDeviceGet returns {status})"
    name, memory, version = ctypes.create_string_buffer(256), ctypes.c_size_t(), ctypes.c_int()
    driver.cuDeviceGetName(name, len(name), device)
    driver.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    driver.cuDriverGetVersion(ctypes.byref(version))
    found = Card(
        name=name.value.decode(errors="replace"),
        compute_capability=f"{_attribute(driver, device, _MAJOR)}.{_attribute(driver, device, _MINOR)}",
        sms=_attribute(driver, device, _SMS),
        memory_bytes=memory.value,
        cuda=f"{version.value // 1000}.{version.value % 1000 // 10}",
        memory_clock_khz=_attribute(driver, device, _CLOCK_KHZ),
        memory_bus_bits=_attribute(driver, device, _BUS_BITS),
        l2_bytes=_attribute(driver, device, _L2_BYTES),
        is_integrated=bool(_attribute(driver, device, _INTEGRATED)),
    )
    return found, ""


def _attribute(driver: Any, device: ctypes.c_int, number: int) -> int:
    """A property of the device; 0 where the driver does not tell it."""
    value = ctypes.c_int()
    driver.cuDeviceGetAttribute(ctypes.byref(value), number, device)
    return value.value


class Device:
    """Device 0 with its primary context, made current for the thread that creates it."""

    def __init__(self) -> None:
        try:
            self._driver = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise EngineError(f"no CUDA driver here: {error}") from error
        device, self._context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuInit", 0)
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)
        self.enter()

    def enter(self) -> None:
        """Make the context current for the calling thread; needed once in each thread that uses the device."""
        self._call("cuCtxSetCurrent", self._context)

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
            kind = EngineError if status == _OUT_OF_MEMORY else DeviceError
            raise kind(f"CUDA driver: {name} returns {status} ({words})")
