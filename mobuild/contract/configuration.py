"""All rules on a configuration, and the TensorRT that none of them refuses where another one mends it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mobuild.contract import cards, memory, options, precision, software
from mobuild.contract.findings import Finding
from mobuild.contract.request import Request
from mobuild.facts import order
from mobuild.facts.releases import Release, driven, release

Findings = tuple[Finding, ...]

RULES: tuple[Callable[[Request], Findings], ...] = (
    *cards.RULES,
    precision.card_computes,
    options.typing_is_there,
    options.raw_is_known,
    options.rtx_option_works,
    options.compatibility_fits,
    options.runtime_opens,
    memory.workspace_fits,
    software.driver_is_new_enough,
    software.cuda_serves_the_card,
    software.python_has_wheels,
    software.provider_fits,
    software.host_has_packages,
    software.libraries_are_installed,
    software.wheels_agree,
)
_OF_VERSIONS = ("R1", "R2", "R7", "R12", "R14", "R17")  # what another TensorRT may mend


def check(request: Request) -> Findings:
    """All findings about a configuration, in the order of the rules."""
    return tuple(_with_version(request, each) for each in _found(request))


def release_is_driven(request: Request, where: str) -> Findings:
    """E3: mobuild builds with this TensorRT; the tables know older ones, so that they can be named."""
    first, version = driven()[0].version, request.backend_version
    if request.backend != "tensorrt" or not version or order(version) >= order(first):
        return ()
    message = f"mobuild builds with TensorRT from {first} on, not with {version}"
    opset, working = release("tensorrt", version).opset, working_version(request)
    newest = f", of a model of opset {opset[1]} at most" if opset else ""
    fits = all(each.severity != "error" for each in cards.tensorrt_fits(request))
    remedies = [said(working)] if working else []
    remedies += [f"build it with trtexec: mobuild command engine{newest}"] if fits else []
    hint = ", or ".join(remedies) or "choose another card"
    return (Finding("E3", "error", where, message, hint),)


def working_version(request: Request, serves: Callable[[Release], bool] = lambda _: True, mends: str = "") -> str:
    """The newest TensorRT that `serves` and that no rule refuses, best one that none warns of; empty without one.

    `mends` is a code that must be gone with it.
    """
    if request.backend != "tensorrt":
        return ""
    trials = {each.version: _found(replace(request, backend_version=each.version)) for each in driven() if serves(each)}
    allowed = [
        version
        for version, found in trials.items()
        if all(each.severity != "error" and each.code != mends for each in found)
    ]
    quiet = [version for version in allowed if not trials[version]]
    return (quiet or allowed or [""])[-1]


def said(version: str) -> str:
    """How a version is asked for, in words that a shell and Hydra leave as they are."""
    return f"backend.version='\"{version}\"'"


def _found(request: Request) -> Findings:
    return tuple(finding for rule in RULES for finding in rule(request))


def _with_version(request: Request, finding: Finding) -> Finding:
    """A finding that depends on the version of TensorRT, with the one that mends it in front of its other remedies."""
    if finding.code not in _OF_VERSIONS or not (version := working_version(request, mends=finding.code)):
        return finding
    return replace(finding, hint=f"{said(version)}, or {finding.hint}" if finding.hint else said(version))
