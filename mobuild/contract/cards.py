"""Rules on cards: hardware against the builder's releases (R1, R2, R13, R18 to R21)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from mobuild.contract.findings import Finding
from mobuild.contract.request import Request
from mobuild.facts import Support, order
from mobuild.facts.releases import Release, driven, first_with_card, limits, release, releases, supports
from mobuild.hardware import Hardware

_CPU = "CPUExecutionProvider"
_PROVIDERS = {"nvidia": "CUDAExecutionProvider"}  # of ONNX Runtime, by vendor


def other_vendor(request: Request) -> tuple[Finding, ...]:
    """R18: TensorRT and TensorRT-RTX are for NVIDIA's GPUs."""
    if not request.is_tensorrt or request.hardware.vendor == "nvidia":
        return ()
    message = f"{request.product} needs a GPU of vendor 'nvidia', found {request.hardware.vendor!r}"
    return (Finding("R18", "error", request.where, message, _other_backends(request)),)


def runs_on_the_card(request: Request) -> tuple[Finding, ...]:
    """R21: ONNX Runtime takes the CPU, whatever the hardware, unless another provider is asked for."""
    provider, is_runtime = request.options.get("provider", ""), request.backend == "onnxruntime"
    if not is_runtime or provider != _CPU or request.hardware.vendor == "cpu":
        return ()
    message = f"ONNX Runtime runs on the CPU here (backend.provider={_CPU}), not on the card"
    other = _PROVIDERS.get(request.hardware.vendor, "")
    hint = f"backend.provider={other} runs on the card, where onnxruntime has it" if other else ""
    return (Finding("R21", "note", request.where, message, hint),)


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
        first = first_with_card("tensorrt_rtx", capability)
        message = f"{product} {answer.why}" + (f"; the first TensorRT-RTX that fits is {first}" if first else "")
        return (_finding("R13", request, answer, message, _other_backends(request)),)
    reasons = [*limits(capability), *([answer.why] if answer.word == "limited" else [])]
    if not reasons:
        return ()
    message = f"{product} and compute capability {capability}: {'; '.join(reasons)}"
    return (Finding("R13", "warning", request.where, message, "try the plan on the card before you ship it"),)


def unverified(request: Request) -> tuple[Finding, ...]:
    """R19: a version that our table does not have."""
    unknown = request.unknown
    if not unknown:
        return ()
    return (Finding("R19", "warning", request.where, f"{request.product} is unverified: {unknown}"),)


def no_builder(hardware: Hardware, builders: Sequence[str]) -> tuple[Finding, ...]:
    """R20: none of the hardware's backends is among the builders; where rules refuse all of its own, what they say."""
    requests = {name: Request(hardware, name) for name in (*hardware.backends, *builders)}
    refused = {name: _refusals(request) for name, request in requests.items()}
    fitting = [name for name in hardware.backends if not refused[name]]
    own = tuple(dict.fromkeys(one for name in hardware.backends or builders for one in refused[name]))
    if own and not fitting:
        return own
    lists = f"[{', '.join(hardware.backends)}] is among the builders [{', '.join(builders)}]"
    reasons = [one.message for name in builders for one in refused[name]]
    message = "; ".join([f"none of its backends {lists}", *reasons])
    hint = f"{_chosen(requests[fitting[0]])}, or builders=[{fitting[0]}]" if fitting else "backend=onnxruntime"
    return (Finding("R20", "error", f"hardware {hardware.name!r}", message, hint),)


RULES: tuple[Callable[[Request], tuple[Finding, ...]], ...] = (
    other_vendor,
    tensorrt_fits,
    tensorrt_rtx_fits,
    unverified,
    runs_on_the_card,
)


def _outside(request: Request, considered: Sequence[Release]) -> Finding:
    """The card fits no release that is considered; names the nearest of all that it fits."""
    capability = request.hardware.compute_capability
    is_old = order(capability) < min(order(each.sm_min) for each in considered)
    answer = supports(considered[0 if is_old else -1], capability)
    asked = f"from {considered[0].version}"
    if request.backend_version:
        asked = considered[0].version if request.unknown else request.backend_version
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
    last = _last_fitting(capability, considered)
    if last == considered[-1].version:
        return ()
    message = f"compute capability {capability}: TensorRT {last} is the last that fits"
    return (Finding("R1", "warning", request.where, message),)


def _last_fitting(capability: str, considered: Sequence[Release]) -> str:
    return [each.version for each in considered if supports(each, capability).word == "yes"][-1]


def _other_backends(request: Request) -> str:
    """The hardware's first other backend that no rule refuses."""
    alone = replace(request.hardware, backends=())  # ends the recursion
    for name in request.hardware.backends:
        other = Request(alone, name, precision=request.precision)
        if name != request.backend and not _refusals(other):
            return f"{_chosen(other)}{_without_version(request, name)}"
    return f"backend=onnxruntime{_without_version(request, 'onnxruntime')}, which runs on the CPU"


def _without_version(request: Request, other: str) -> str:
    """What to leave out as well: of all backends, TensorRT's alone has a version to ask for."""
    is_asked = bool(request.options.get("version"))
    return " without backend.version" if is_asked and other != "tensorrt" else ""


def _refusals(request: Request) -> tuple[Finding, ...]:
    return tuple(each for rule in RULES for each in rule(request) if each.severity == "error")


def _chosen(request: Request) -> str:
    """How the backend is chosen, with its version where the newest one does not take the card."""
    chosen = f"backend={request.backend}"
    if not any(each.severity == "warning" for each in tensorrt_fits(request)):
        return chosen
    return f"{chosen} backend.version='\"{_last_fitting(request.hardware.compute_capability, driven())}\"'"


def _row(request: Request) -> Release:
    """The row that answers for the version; whether it may refuse is `_finding`'s business."""
    return replace(release(request.backend, request.backend_version), unknown="")


def _finding(code: str, request: Request, answer: Support, message: str, hint: str) -> Finding:
    """An error where the answer is sure and about the version that is asked for, a warning otherwise."""
    is_sure = answer.word == "no" and not request.unknown
    return Finding(code, "error" if is_sure else "warning", request.where, message, hint)
