"""Rules on what is installed: CUDA, driver, Python, host, packages (R6 to R8, R14, R16, R17, E1, E2)."""

from __future__ import annotations

import re

from mobuild.contract.findings import Finding, found
from mobuild.contract.request import Request
from mobuild.facts import Support, minor, order
from mobuild.facts.cuda import compiles, driver_fits, driver_floor
from mobuild.facts.releases import cuda_fits, host_fits, nearest_release, next_for_host, python_fits, release

_TENSORRT_PROVIDER = "TensorrtExecutionProvider"


def driver_is_new_enough(request: Request) -> tuple[Finding, ...]:
    """R6, R8: the driver runs the CUDA toolkit; forward compatibility is not for GeForce."""
    machine, is_geforce = request.machine, request.hardware.family == "geforce"
    if not request.hardware.compute_capability:
        return ()
    if machine.compat and is_geforce:
        message = (
            "CUDA's forward compatibility (cuda-compat, part of NVIDIA's images) is for data-centre cards; on a "
            "GeForce it ends in error 804"
        )
        return (Finding("R8", "error", request.where, message, "an image of a CUDA that the driver has, without it"),)
    wheels = _wheels_cuda(request)
    if machine.compat or not (machine.cuda or wheels):
        return ()
    if not machine.driver:
        return _driver_here(request, wheels)
    answer = driver_fits(machine.driver, machine.cuda or wheels)
    if not machine.cuda and answer.word == "no":  # the wheels are this machine's, the driver that of another
        answer = Support("unverified", answer.why, answer.source)
    if answer.word == "limited" and request.backend == "tensorrt_rtx":
        answer = Support("no", f"{answer.why}, and TensorRT-RTX compiles on the card", answer.source)
    return found("R6", answer, request.where, answer.why, _newer_driver(machine.cuda or wheels, is_geforce))


def _driver_here(request: Request, wheels: str) -> tuple[Finding, ...]:
    """R6, of the driver of this machine, where the card is here; it may be another's that the engine is for."""
    newest, cuda = request.machine.driver_cuda, request.machine.cuda or wheels
    if not newest or minor(cuda) <= minor(newest) or cuda == newest.split(".")[0]:
        return ()
    user = "check.cuda is" if request.machine.cuda else f"the installed wheels of {request.product} are for CUDA"
    message = f"the driver here runs CUDA up to {newest}, {user} {cuda}"
    if cuda.split(".")[0] == newest.split(".")[0]:
        message += ": code that is compiled at run time may not load"
    hint = _newer_driver(cuda, request.hardware.family == "geforce")
    return (Finding("R6", "warning", request.where, message, hint),)


def _newer_driver(cuda: str, is_geforce: bool) -> str:
    floor = driver_floor(cuda)
    remedies = [f"a driver from {floor} on" if floor else "a newer driver"]
    remedies += [] if is_geforce else ["the package cuda-compat of that CUDA"]
    return ", or ".join(remedies)


def _wheels_cuda(request: Request) -> str:
    """The major version of CUDA that the installed wheels of the builder are for; empty where that is not known."""
    prefix = request.backend.replace("_", "-")
    found = {
        match[1]
        for name, version in request.distributions.items()
        if (match := re.fullmatch(prefix + r"-cu(\d\d)(-libs|-bindings)?", name))
        and all(one == other for one, other in zip(order(request.backend_version), order(version), strict=False))
    }
    return found.pop() if request.is_tensorrt and len(found) == 1 else ""


def cuda_serves_the_card(request: Request) -> tuple[Finding, ...]:
    """R7: the CUDA toolkit compiles for the card, and the builder has packages for it."""
    cuda, capability = request.machine.cuda, request.hardware.compute_capability
    if not cuda or not capability:
        return ()
    answer = compiles(cuda, capability)
    findings = found("R7", answer, request.where, answer.why, "check.cuda: another toolkit, or another card")
    if not request.is_tensorrt:
        return findings
    fits = cuda_fits(release(request.backend, request.backend_version), cuda)
    if not fits.why.startswith("is made for"):  # it has packages, though that may not be sure
        return findings
    other = f"another CUDA{_newer_rtx(request, cuda=cuda)}"
    return findings + found("R7", fits, request.where, f"{request.product} {fits.why}", other)


def python_has_wheels(request: Request) -> tuple[Finding, ...]:
    """R14: the builder has wheels for the Python that runs it."""
    python = request.machine.python or request.python
    if not request.is_tensorrt or not python:
        return ()
    answer = python_fits(release(request.backend, request.backend_version), python)
    if not answer.why.startswith("has wheels for"):  # it has one, though that may not be sure
        return ()
    other = f"another Python{_newer_rtx(request, python=python)}"
    return found("R14", answer, request.where, f"{request.product} {answer.why}", other)


def _newer_rtx(request: Request, cuda: str = "", python: str = "") -> str:
    """The TensorRT-RTX to install instead, in words: it is no option of its backend."""
    if request.backend != "tensorrt_rtx":
        return ""
    nearest = nearest_release(request.hardware.compute_capability, cuda, python, request.backend)
    return f", or install TensorRT-RTX {nearest}" if nearest else ""


def provider_fits(request: Request) -> tuple[Finding, ...]:
    """R16: ONNX Runtime's TensorRT provider meets a TensorRT that it was made for."""
    versions = request.distributions
    tensorrt, runtime = versions.get("tensorrt", ""), versions.get("onnxruntime-gpu") or versions.get("onnxruntime", "")
    if request.options.get("provider") != _TENSORRT_PROVIDER or not tensorrt or not runtime:
        return ()
    if order(tensorrt) < order("11") or order(runtime) >= order("1.27"):
        return ()
    message = f"ONNX Runtime {runtime} has a {_TENSORRT_PROVIDER} for TensorRT 10 and older, found TensorRT {tensorrt}"
    return (Finding("R16", "error", "option backend.provider", message, "ONNX Runtime 1.27 or newer, or TensorRT 10"),)


def host_has_packages(request: Request) -> tuple[Finding, ...]:
    """R17: TensorRT has packages for an ARM host."""
    if request.backend != "tensorrt" or not request.backend_version:
        return ()
    version = request.backend_version
    answer = host_fits(release("tensorrt", version), version, request.hardware.host)
    other = next_for_host(version, request.hardware.host)
    hint = f"TensorRT {other} is the next that has them" if other else ""
    return found("R17", answer, request.where, f"{request.product}: {answer.why}", hint)


def libraries_are_installed(request: Request) -> tuple[Finding, ...]:
    """E1: the wheels of TensorRT's bindings come without its libraries."""
    if request.backend != "tensorrt":
        return ()
    names = [name for name in request.distributions if name.split("-")[0] == "tensorrt" and "rtx" not in name]
    if not names or any(name.endswith("-libs") for name in names):
        return ()
    message = f"{', '.join(sorted(names))} installed, and no tensorrt-…-libs: a stub without libnvinfer"
    hint = "pip install tensorrt-cu12 (or -cu13) whole, or libnvinfer of the same version from NVIDIA's packages"
    return (Finding("E1", "warning", "environment", message, hint),)


def wheels_agree(request: Request) -> tuple[Finding, ...]:
    """E2: torchvision and torchaudio are built for another device than torch."""
    torch = _flavour(request.distributions.get("torch", ""))
    findings: tuple[Finding, ...] = ()
    for name in ("torchvision", "torchaudio"):
        version = request.distributions.get(name, "")
        if torch and _flavour(version) and _flavour(version) != torch:
            message = f"{name} {version} beside torch {request.distributions['torch']}: its operators do not load"
            findings += (Finding("E2", "warning", "environment", message, f"{name} of the same index: +{torch}"),)
    return findings


def _flavour(version: str) -> str:
    """`cpu`, `cu126`; empty where the version does not say."""
    return version.partition("+")[2]
