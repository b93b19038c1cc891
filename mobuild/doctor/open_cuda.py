"""Opens CUDA and prints what it says, as one line of JSON; runs as a process of its own.

`python open_cuda.py [LIBCUDART…]`. Names and constants: CUDA Driver API (`cuda.h`) and CUDA Runtime API.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR


def opened(runtimes: list[str]) -> dict[str, Any]:
    """`library`, `version`, `status` of cuInit and `devices`; or `error` when there is no driver library."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return {"error": str(error)}
    found: dict[str, Any] = {"library": _mapped("libcuda.so"), "status": driver.cuInit(0)}
    found["version"] = _number(driver.cuDriverGetVersion)
    found["devices"] = _devices(driver) if found["status"] == 0 else []
    found["runtimes"] = [_runtime(path) for path in runtimes]
    return found


def _devices(driver: Any) -> list[dict[str, Any]]:
    return [_device(driver, number) for number in range(_number(driver.cuDeviceGetCount))]


def _device(driver: Any, number: int) -> dict[str, Any]:
    device, size = ctypes.c_int(), ctypes.c_size_t()
    name, bus, uuid = (ctypes.create_string_buffer(length) for length in (256, 64, 16))
    driver.cuDeviceGet(ctypes.byref(device), number)
    driver.cuDeviceGetName(name, len(name), device)
    driver.cuDeviceGetPCIBusId(bus, len(bus), device)
    # The second version tells a MIG slice's own identifier, the first its card's.
    getattr(driver, "cuDeviceGetUuid_v2", driver.cuDeviceGetUuid)(uuid, device)
    driver.cuDeviceTotalMem_v2(ctypes.byref(size), device)
    capability = [_number(driver.cuDeviceGetAttribute, which, device) for which in (_MAJOR, _MINOR)]
    return {
        "name": name.value.decode(errors="replace"),
        "bus": bus.value.decode(errors="replace"),
        "uuid": uuid.raw.hex(),
        "capability": "{}.{}".format(*capability),
        "memory_bytes": size.value,
        "context": _context(driver, device),
    }


def _context(driver: Any, device: ctypes.c_int) -> int:
    """The status of opening the device's context, which is closed again."""
    context = ctypes.c_void_p()
    status: int = driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    if status == 0:
        driver.cuDevicePrimaryCtxRelease_v2(device)
    return status


def _runtime(path: str) -> dict[str, Any]:
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        return {"path": path, "error": str(error)}
    count = ctypes.c_int()
    status = library.cudaGetDeviceCount(ctypes.byref(count))
    return {"path": path, "version": _number(library.cudaRuntimeGetVersion), "status": status}


def _number(function: Any, *arguments: Any) -> int:
    """What a function of the CUDA API writes into its first argument, an int."""
    number = ctypes.c_int()
    function(ctypes.byref(number), *arguments)
    return number.value


def _mapped(name: str) -> str:
    """The file of a loaded library: which of several was found (a compatibility package, WSL's)."""
    lines = Path("/proc/self/maps").read_text(errors="replace").splitlines()
    paths = [line.split(maxsplit=5)[5] for line in lines if name in line and len(line.split(maxsplit=5)) == 6]
    return paths[0] if paths else ""


if __name__ == "__main__":
    print(json.dumps(opened(sys.argv[1:])))
