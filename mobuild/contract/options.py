"""Rules on options: flags that a builder no longer has, and what replaces them (R4, R5, R11 to R13, R15)."""

from __future__ import annotations

import shlex

from mobuild.contract.findings import Finding, found
from mobuild.contract.request import Request
from mobuild.facts import Support, order, rtx
from mobuild.facts.features import feature, flag, replacement

_CALLED = {  # members and attributes of the API by the names that facts have
    "FP16": "BuilderFlag.FP16",
    "BF16": "BuilderFlag.BF16",
    "INT8": "BuilderFlag.INT8",
    "FP8": "BuilderFlag.FP8",
    "INT4": "BuilderFlag.INT4",
    "FP4": "BuilderFlag.FP4",
    "int8_calibrator": "IInt8Calibrator",
    "algorithm_selector": "IAlgorithmSelector",
}
_WEAK = (
    "BuilderFlag.",
    "layer.precision",
    "OBEY_",
    "PREFER_",
    "IInt8Calibrator",
    "set_calibration_profile",
    "dynamic_",
)
_CROSSINGS = (("8", "10"), ("10", "11"))  # majors between which a version-compatible engine goes


def typing_is_there(request: Request) -> tuple[Finding, ...]:
    """R4: weak typing, where precision is a flag and not the graph's types, ends with TensorRT 10."""
    if request.options.get("typing") != "weak" or request.backend != "tensorrt":
        return ()
    answer = feature("weak_typing", request.version)
    message = f"{request.product}: backend.typing=weak: {answer.why.replace('_', ' ')}"
    hint = f"backend.typing=strong: {replacement('weak_typing', request.version)}"
    return found("R4", answer, "option backend.typing", message, hint)


def raw_is_known(request: Request) -> tuple[Finding, ...]:
    """R4, R5: members and attributes in `raw` that the version does not have any more."""
    findings: tuple[Finding, ...] = ()
    for name in request.raw if request.is_tensorrt else ():
        called = _CALLED.get(name, name)
        version = request.version if request.backend == "tensorrt" else "11.0"  # TensorRT-RTX began without them, too
        answer = feature(called, version)
        if "is not in the table" in answer.why:
            continue
        code = "R4" if called.startswith(_WEAK) else "R5"
        message = (
            f"{request.product}: {answer.why}" if request.backend == "tensorrt" else f"{request.product} has no {name}"
        )
        findings += found(code, answer, f"option backend.raw.{name}", message, replacement(called, version))
    return findings


def rtx_option_works(request: Request) -> tuple[Finding, ...]:
    """R13: options that TensorRT-RTX has and that do nothing, or fail."""
    if request.backend != rtx.PRODUCT:
        return ()
    wanted = tuple(name for name, value in request.raw.items() if value not in (False, None, "NONE"))
    findings: tuple[Finding, ...] = ()
    for name in wanted:
        answer = rtx.option(name, wanted, request.version)
        findings += found(
            "R13", answer, f"option backend.raw.{name}", f"{request.product}: {answer.why}", f"drop {name}"
        )
    return findings


def compatibility_fits(request: Request) -> tuple[Finding, ...]:
    """R11: hardware compatibility needs Ampere, or a TensorRT that has it."""
    named = request.options.get("hardware_compatibility", "none")
    level = str(named if named != "none" else request.raw.get("hardware_compatibility_level", "")).upper()
    place = "hardware_compatibility" if named != "none" else "raw.hardware_compatibility_level"
    capability, where = request.hardware.compute_capability, f"option backend.{place}"
    if request.backend != "tensorrt" or not capability:
        return ()
    if level == "AMPERE_PLUS" and order(capability) < order("8.0"):
        message = f"AMPERE_PLUS is built on a card from 8.0 on, found {capability}"
        return (
            Finding("R11", "error", where, message, f"{_without(place)}, or build on an Ampere card or a newer one"),
        )
    if level == "SAME_COMPUTE_CAPABILITY":
        answer = flag("--hardwareCompatibilityLevel=sameComputeCapability", request.version)
        message = f"{request.product}: SAME_COMPUTE_CAPABILITY is there from 10.9 on"
        family = "backend.hardware_compatibility=ampere_plus, or " if order(capability) >= order("8.0") else ""
        return found("R11", answer, where, message, f"{family}{_without(place)}: an engine for each card")
    return ()


def _without(place: str) -> str:
    """How an option is taken back."""
    return f"backend.{place}=" + ("none" if place == "hardware_compatibility" else "NONE")


def runtime_opens(request: Request) -> tuple[Finding, ...]:
    """R12: an engine opens in the version that built it, and a version-compatible one in some newer."""
    built, opened = request.backend_version, request.machine.runtime
    if request.backend != "tensorrt" or not built or not opened:
        return ()
    majors = (built.split(".")[0], opened.split(".")[0])
    is_compatible = bool(request.options.get("version_compatible") or request.raw.get("VERSION_COMPATIBLE"))
    if not is_compatible and not _is_same(built, opened):
        message = f"an engine of TensorRT {built} does not open in {opened}"
        opens = _crosses(majors, built, opened)
        hint = "backend.version_compatible=true" if opens else f"build with TensorRT {opened}"
        return (Finding("R12", "error", "check.runtime", message, hint),)
    if not is_compatible or _crosses(majors, built, opened):
        return ()
    message = (
        f"a version-compatible engine of TensorRT {built} does not open in {opened}: only in newer versions of its "
        "major, and from 8 in 10 or from 10 in 11"
    )
    return (Finding("R12", "error", "check.runtime", message, f"build with TensorRT {majors[1]}"),)


def _crosses(majors: tuple[str, str], built: str, opened: str) -> bool:
    """Whether a version-compatible engine goes from one TensorRT to the other."""
    return (majors[0] == majors[1] and order(opened) >= order(built)) or majors in _CROSSINGS


def is_of_builder(words: str) -> bool:
    """Whether `command_is_known` may have something to say; most commands are others, and shlex takes its time."""
    return "trtexec" in words or "modelopt" in words


def command_is_known(words: str, version: str, node: str) -> tuple[Finding, ...]:
    """R5, R15: flags of trtexec, and calibration without data, in the command of a node.

    `version` is the TensorRT whose trtexec it is; where it is unknown, what any release lacks is a warning.
    """
    given = _split(words)
    where = f"node {node!r}"
    findings: tuple[Finding, ...] = ()
    if _names_program(given, "trtexec"):
        for word in (each for each in given if each.startswith("--")):
            answer = flag(word, version or "11.5")
            if answer.word == "yes" or "is not in the table" in answer.why:
                continue
            if not version:
                answer = Support("limited", answer.why, answer.source)
            hint = replacement(word, version or "11.5")
            findings += found("R5", answer, where, f"trtexec: {answer.why}", hint)
        if "--int8" in given and not any(each.startswith("--calib=") for each in given):
            message = "trtexec --int8 without --calib calibrates on random numbers"
            findings += (Finding("R15", "warning", where, message, "Q/DQ in the graph: precision=int8"),)
    if "modelopt.onnx.quantization" in given and not any(each.startswith("--calibration_data") for each in given):
        message = "ModelOpt inserts random scales when it is given no calibration data"
        findings += (Finding("R15", "error", where, message, "--calibration_data_path=…, or kind quantize"),)
    return findings


def _split(words: str) -> list[str]:
    try:
        return shlex.split(words)
    except ValueError:
        return words.split()


def _names_program(given: list[str], name: str) -> bool:
    return any(word.rpartition("/")[2] == name for word in given)


def _is_same(built: str, opened: str) -> bool:
    """Whether two versions agree as far as both go."""
    return all(one == other for one, other in zip(built.split("."), opened.split("."), strict=False))
