"""What is installed for CUDA: packages by their metadata, libraries by their files. Nothing is imported."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from mobuild.doctor.machine import Machine, Package
from mobuild.doctor.state import Library, Software

_RUNTIME = re.compile(r"libcudart\.so\.\d+$")
_INFERENCE = re.compile(r"libnvinfer\.so\.(\d+(?:\.\d+)*)$")
_NOT_FOUND = re.compile(r"^\s*(\S+) => not found", re.MULTILINE)
# Folders of packages with libraries in them, below the folders of packages.
_FOLDERS = ("tensorrt_libs", "tensorrt_rtx_libs", "torch/lib")
_CONSUMERS = (  # files whose needs are looked up
    "onnxruntime/capi/libonnxruntime_providers_cuda.so",
    "onnxruntime/capi/libonnxruntime_providers_tensorrt.so",
)


def software(machine: Machine) -> Software:
    """The packages, the libraries that consumers miss, and every TensorRT that a process may find."""
    packages, bundled = machine.packages(), _bundled(machine)
    return Software(
        packages=packages,
        libraries=tuple(_libraries(machine)),
        tensorrt=_tensorrt(machine, packages, bundled),
        bundled=frozenset(path.rpartition("/")[2] for path in bundled),
    )


def runtimes(machine: Machine) -> tuple[str, ...]:
    """Every `libcudart` that a package brings, or that the loader knows."""
    known = [*_bundled(machine), *machine.known_libraries().values()]
    return tuple(dict.fromkeys(path for path in known if _RUNTIME.search(path)))


def _libraries(machine: Machine) -> list[Library]:
    found = []
    for folder in machine.site_folders():
        for name in _CONSUMERS:
            path = f"{folder}/{name}"
            if machine.real(path):
                missing = _NOT_FOUND.findall(machine.run("ldd", path).out)
                found.append(Library(path, tuple(one for one in missing if one != "libcuda.so.1")))
    return found


def _tensorrt(machine: Machine, packages: Mapping[str, Package], bundled: Sequence[str]) -> dict[str, str]:
    """Path → version of each libnvinfer: of packages, of LD_LIBRARY_PATH, of the loader's cache."""
    found: dict[str, str] = {}
    for path in bundled:
        if match := _INFERENCE.search(path):
            found[path] = _wheel(packages) or match[1]
    paths = [f"{folder}/{name}" for folder in _library_path(machine) for name in machine.names(folder)]
    for path in [*paths, *machine.known_libraries().values()]:
        real = machine.real(path) if "libnvinfer.so" in path else ""
        if (match := _INFERENCE.search(real)) and real not in found:
            found[real] = match[1]
    return found


def _wheel(packages: Mapping[str, Package]) -> str:
    """The version of TensorRT's wheel, whose library is named by its major version alone."""
    names = sorted(name for name in packages if re.fullmatch(r"tensorrt(-cu\d+)?(-libs)?", name))
    return packages[names[0]].version if names else ""


def _library_path(machine: Machine) -> list[str]:
    return [folder for folder in (machine.variable("LD_LIBRARY_PATH") or "").split(":") if folder]


def _bundled(machine: Machine) -> list[str]:
    """Library files inside of packages: NVIDIA's own (`nvidia/<name>/lib`) and a few others'."""
    found = []
    for site in machine.site_folders():
        nvidia = [f"nvidia/{name}/lib" for name in machine.names(f"{site}/nvidia")]
        for folder in (*nvidia, *_FOLDERS):
            names = machine.names(f"{site}/{folder}")
            found += [f"{site}/{folder}/{name}" for name in names if ".so" in name]
    return found
