"""Rules on configuration: hardware against the builder's releases. Codes follow the table of facts.

R1 card too old for the TensorRT · R2 too new · R13 TensorRT-RTX's list of cards · R18 other vendors ·
R19 a version newer than the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mobuild.contract.findings import Finding
from mobuild.facts import Support, order
from mobuild.facts.releases import PRODUCTS, Release, driven, limits, release, releases, supports
from mobuild.hardware import Hardware


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
    if request.backend not in PRODUCTS or request.hardware.vendor == "nvidia":
        return ()
    message = f"{_product(request)} needs a GPU of vendor 'nvidia', found {request.hardware.vendor!r}"
    return (Finding("R18", "error", _where(request), message, _other_backends(request)),)


def tensorrt_fits(request: Request) -> tuple[Finding, ...]:
    """R1, R2: the card lies within the range of the TensorRT release, or of any that mobuild drives."""
    capability = request.hardware.compute_capability
    if request.backend != "tensorrt" or not capability:
        return ()
    considered = (_row(request),) if request.backend_version else driven()
    if any(supports(each, capability).word == "yes" for each in considered):
        return _newest_only(request, considered)
    return (_outside(request, considered),)


def tensorrt_rtx_fits(request: Request) -> tuple[Finding, ...]:
    """R13: TensorRT-RTX builds for a list of compute capabilities, and runs on another."""
    capability = request.hardware.compute_capability
    if request.backend != "tensorrt_rtx" or not capability:
        return ()
    row = _row(request)
    product, answer = f"TensorRT-RTX {row.version}", supports(row, capability)
    if capability not in row.builds:
        return (_finding("R13", request, answer, f"{product} {answer.why}", _other_backends(request)),)
    reasons = [*limits(capability), *([answer.why] if answer.word == "limited" else [])]
    if not reasons:
        return ()
    message = f"{product} and compute capability {capability}: {'; '.join(reasons)}"
    return (Finding("R13", "warning", _where(request), message, "try the plan on the card before you ship it"),)


def unverified(request: Request) -> tuple[Finding, ...]:
    """R19: a version that our table does not have."""
    unknown = _unknown(request)
    if not unknown:
        return ()
    return (Finding("R19", "warning", _where(request), f"{_product(request)} is unverified: {unknown}"),)


RULES: tuple[Callable[[Request], tuple[Finding, ...]], ...] = (
    other_vendor,
    tensorrt_fits,
    tensorrt_rtx_fits,
    unverified,
)


def _outside(request: Request, considered: Sequence[Release]) -> Finding:
    """The card fits no release that is considered; names the nearest of all that it fits."""
    capability = request.hardware.compute_capability
    is_old = order(capability) < min(order(each.sm_min) for each in considered)
    answer = supports(considered[0 if is_old else -1], capability)
    asked = f"from {considered[0].version}"
    if request.backend_version:
        asked = considered[0].version if _unknown(request) else request.backend_version
    certain = [each.version for each in releases("tensorrt") if supports(each, capability).word == "yes"]
    later = [each for each in certain if order(each) > order(considered[-1].version)]
    word, nearest = ("first", later[0]) if later else ("last", certain[-1] if certain else "")
    fits = f"; the {word} TensorRT that fits is {nearest}" if nearest else ""
    message = f"compute capability {capability}: TensorRT {asked} {answer.why}{fits}"
    hint = f"choose another card (hardware=l4), or {_other_backends(request)}"
    return _finding("R1" if is_old else "R2", request, answer, message, hint)


def _newest_only(request: Request, considered: Sequence[Release]) -> tuple[Finding, ...]:
    """A warning when no version is asked for and the newest release no longer takes the card."""
    capability = request.hardware.compute_capability
    fitting = [each.version for each in considered if supports(each, capability).word == "yes"]
    if fitting[-1] == considered[-1].version:
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


def _row(request: Request) -> Release:
    """The row that answers for the version; whether it may refuse is `_finding`'s business."""
    return replace(release(request.backend, request.backend_version), unknown="")


def _product(request: Request) -> str:
    return f"{PRODUCTS[request.backend]} {request.backend_version}".strip()


def _where(request: Request) -> str:
    return f"hardware {request.hardware.name!r}"


def _unknown(request: Request) -> str:
    """Why the version is not in our table; empty when it is, or none was asked for."""
    return release(request.backend, request.backend_version).unknown if request.backend in PRODUCTS else ""


def _finding(code: str, request: Request, answer: Support, message: str, hint: str) -> Finding:
    """An error where the answer is sure and about the version that is asked for, a warning otherwise."""
    is_sure = answer.word == "no" and not _unknown(request)
    return Finding(code, "error" if is_sure else "warning", _where(request), message, hint)
