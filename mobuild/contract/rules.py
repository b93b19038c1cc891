"""Rules on configuration: hardware against the builder's releases. Codes follow the table of facts.

R1 card too old for the TensorRT · R2 too new · R13 TensorRT-RTX's list of cards · R18 other vendors ·
R19 a version newer than the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mobuild.contract.findings import Finding
from mobuild.facts import CERTAIN, load
from mobuild.hardware import Hardware
from mobuild.versions import version_key

Release = Mapping[str, Any]
_PRODUCTS = {"tensorrt": "TensorRT", "tensorrt_rtx": "TensorRT-RTX"}


@dataclass(frozen=True)
class Request:
    """One configuration, as far as rules without a graph look at it.

    `backend_version` is the builder's version, empty where none is asked for or known.
    """

    hardware: Hardware
    backend: str
    backend_version: str = ""
    precision: str = "fp32"


def check(request: Request) -> tuple[Finding, ...]:
    """All findings about `request`, in the order of the rules."""
    return tuple(finding for rule in RULES for finding in rule(request))


def other_vendor(request: Request) -> tuple[Finding, ...]:
    """R18: TensorRT and TensorRT-RTX are for NVIDIA's GPUs."""
    if request.backend not in _PRODUCTS or request.hardware.vendor == "nvidia":
        return ()
    message = f"{_product(request)} needs a GPU of vendor 'nvidia', found {request.hardware.vendor!r}"
    return (Finding("R18", "error", _where(request), message, _other_backends(request)),)


def tensorrt_fits(request: Request) -> tuple[Finding, ...]:
    """R1, R2: the card lies within the range of the TensorRT release, or of any that mobuild drives."""
    capability = request.hardware.compute_capability
    if request.backend != "tensorrt" or not capability:
        return ()
    facts = load("tensorrt")
    driven = [each for each in facts["releases"] if _key(each) >= version_key(facts["driven_from"])]
    release = _release(facts["releases"], request.backend_version)
    considered = [release] if release else driven
    if any(_within(each, capability) for each in considered):
        return _newest_only(request, considered)
    return (_outside(request, facts["releases"], considered),)


def tensorrt_rtx_fits(request: Request) -> tuple[Finding, ...]:
    """R13: TensorRT-RTX builds for a list of compute capabilities, and runs on another."""
    capability = request.hardware.compute_capability
    if request.backend != "tensorrt_rtx" or not capability:
        return ()
    facts = load("tensorrt_rtx")
    release = _release(facts["releases"], request.backend_version) or facts["releases"][-1]
    product = f"TensorRT-RTX {release['version']}"
    if capability not in release["builds"]:
        message = f"{product} has no compute capability {capability}, only {', '.join(release['builds'])}"
        return (_finding("R13", request, release, message, _other_backends(request)),)
    limits = [each["note"] for each in facts["limited"] if each["capability"] == capability]
    if capability not in release["runs"]:
        limits.append(f"its runtime lists only {', '.join(release['runs'])}")
    if not limits:
        return ()
    message = f"{product} and compute capability {capability}: {'; '.join(limits)}"
    return (Finding("R13", "warning", _where(request), message, "try the plan on the card before you ship it"),)


def unverified(request: Request) -> tuple[Finding, ...]:
    """R19: a version that is newer than our table."""
    if not _is_unverified(request):
        return ()
    newest = load(request.backend)["releases"][-1]
    message = f"{_product(request)} is unverified: the table ends at {newest['version']}"
    return (Finding("R19", "warning", _where(request), message),)


RULES: tuple[Callable[[Request], tuple[Finding, ...]], ...] = (
    other_vendor,
    tensorrt_fits,
    tensorrt_rtx_fits,
    unverified,
)


def _outside(request: Request, releases: Sequence[Release], considered: Sequence[Release]) -> Finding:
    """The card fits no release that is considered; names the nearest of all that it fits."""
    capability = request.hardware.compute_capability
    lowest = min((each["sm_min"] for each in considered), key=version_key)
    is_old = version_key(capability) < version_key(lowest)
    highest = max((each["sm_max"] for each in considered), key=version_key)
    bound = f"starts at {lowest}" if is_old else f"ends at {highest}"
    asked = f"from {considered[0]['version']}"
    if request.backend_version:
        asked = considered[0]["version"] if _is_unverified(request) else request.backend_version
    certain = [each for each in releases if each["confidence"] in CERTAIN and _within(each, capability)]
    word, place = ("last", -1) if is_old else ("first", 0)
    fits = f"; the {word} TensorRT that fits is {certain[place]['version']}" if certain else ""
    message = f"compute capability {capability}: TensorRT {asked} {bound}{fits}"
    hint = f"choose another card (hardware=l4), or {_other_backends(request)}"
    return _finding("R1" if is_old else "R2", request, considered[-1], message, hint)


def _newest_only(request: Request, considered: Sequence[Release]) -> tuple[Finding, ...]:
    """A warning when no version is asked for and the newest release no longer takes the card."""
    capability = request.hardware.compute_capability
    fitting = [each["version"] for each in considered if _within(each, capability)]
    if fitting[-1] == considered[-1]["version"]:
        return ()
    message = f"compute capability {capability}: TensorRT {fitting[-1]} is the last that fits"
    hint = f"backend.version='\"{fitting[-1]}\"'"
    return (Finding("R1", "warning", _where(request), message, hint),)


def _other_backends(request: Request) -> str:
    """The hardware's first other backend that no rule refuses."""
    alone = replace(request.hardware, backends=())  # ends the recursion
    for name in request.hardware.backends:
        other = Request(alone, name, precision=request.precision)
        if name != request.backend and not any(each.severity == "error" for each in check(other)):
            return f"backend={name}"
    return "backend=onnxruntime, which runs on the CPU"


def _release(releases: Sequence[Release], version: str) -> Release | None:
    """The row of `version`: the newest that is not newer than it; none for an empty version."""
    older = [each for each in releases if _key(each) <= version_key(version)]
    return (older[-1] if older else releases[0]) if version else None


def _within(release: Release, capability: str) -> bool:
    low, high = version_key(release["sm_min"]), version_key(release["sm_max"])
    return low <= version_key(capability) <= high


def _key(release: Release) -> tuple[int, ...]:
    return version_key(release["version"])


def _product(request: Request) -> str:
    return f"{_PRODUCTS[request.backend]} {request.backend_version}".strip()


def _where(request: Request) -> str:
    return f"hardware {request.hardware.name!r}"


def _is_unverified(request: Request) -> bool:
    if request.backend not in _PRODUCTS or not request.backend_version:
        return False
    return version_key(request.backend_version)[:2] > _key(load(request.backend)["releases"][-1])


def _finding(code: str, request: Request, row: Release, message: str, hint: str) -> Finding:
    """An error where the row is certain and of the version that is asked for, a warning otherwise."""
    is_certain = row["confidence"] in CERTAIN and not _is_unverified(request)
    return Finding(code, "error" if is_certain else "warning", _where(request), message, hint)
