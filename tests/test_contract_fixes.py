"""Every remedy that is a `key=value` is followed: its finding is gone then, and no other refusal has come instead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from mobuild.backends.network_builder import lacking_types
from mobuild.contract.configuration import release_is_driven
from mobuild.contract.findings import Finding
from mobuild.contract.precision import backend_builds
from mobuild.contract.request import Machine, Model, Request
from mobuild.contract.rules import check, check_model
from tests.contract_requests import SHAPES, SUMMARY
from tests.projects import HARDWARE, hardware

NAMES = sorted(path.stem for path in HARDWARE.glob("*.yaml") if path.stem not in ("auto", "cpu"))
ROWS = {name: hardware(name) for name in NAMES}
CARDS = {(row.vendor, row.compute_capability, row.host, row.family): name for name, row in ROWS.items()}.values()
VERSIONS = ("", "8.6", "10.0", "10.4", "10.5", "10.8", "10.16", "11.0", "11.4", "99")
PRECISIONS = ("fp32", "fp16", "bf16", "int8")
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"typing": "weak"},
    {"hardware_compatibility": "ampere_plus"},
    {"hardware_compatibility": "same_compute_capability"},
    {"workspace": "2000GiB"},
)
MACHINES = (
    Machine(),
    Machine(python="3.13"),
    Machine(python="3.9"),
    Machine(cuda="11.8"),
    Machine(cuda="13.0"),
    Machine(runtime="10.4"),
    Machine(runtime="11.4"),
)
OPERATORS = {"STFT": "10.5", "Attention": "10.14", "Relu": ""}
OPSETS = (8, 17, 18, 22, 24)

Followed = tuple[Request, tuple[Finding, ...]]


@pytest.mark.parametrize("card", CARDS)
def test_remedies_for_a_configuration_can_be_followed(card: str) -> None:
    for request in requests(card):
        for finding in judged(request):
            for words in alternatives(finding.hint):
                other = applied(request, words)
                assert_mended(finding, judged(request), judged(other), f"{request} {words}")


@pytest.mark.parametrize("card", ["v100", "t4", "l4", "h100", "rtx5090", "thor_t5000"])
def test_remedies_for_a_model_can_be_followed(card: str) -> None:
    for request in requests(card, VERSIONS, ({},), (Machine(),)):
        for model in models(request):
            found = check_model(model)
            for finding in found:
                for words in alternatives(finding.hint):
                    other = replace(applied_to_model(model, words), request=applied(request, words))
                    before = (*judged(request), *found)
                    assert_mended(finding, before, (*judged(other.request), *check_model(other)), f"{model} {words}")


@pytest.mark.parametrize(
    ("card", "version", "fix"),
    [
        ("v100", "8.6", "backend.version='\"10.4\"'"),
        ("v100", "11.0", "backend.version='\"10.4\"'"),
        ("gtx1070", "8.6", "build it with trtexec: mobuild command engine, of a model of opset 17 at most"),
        ("gtx1070", "10.4", "choose another card (hardware=l4), or backend=onnxruntime, which runs on the CPU"),
    ],
)
def test_the_first_remedy_names_what_works_for_all_rules(card: str, version: str, fix: str) -> None:
    (found,) = [each for each in judged(Request(hardware(card), "tensorrt", version)) if each.severity == "error"]

    assert found.hint.startswith(fix)


def requests(
    card: str,
    versions: tuple[str, ...] = VERSIONS,
    options: tuple[dict[str, Any], ...] = OPTIONS,
    machines: tuple[Machine, ...] = MACHINES,
) -> Iterator[Request]:
    row = hardware(card)
    for precision in PRECISIONS:
        yield Request(row, "tensorrt_rtx", "1.7", precision)
        for version in versions:
            some = options if precision == "fp32" else options[:1]
            yield from (Request(row, "tensorrt", version, precision, each) for each in some)
            yield from (Request(row, "tensorrt", version, machine=each) for each in machines if precision == "fp32")


def models(request: Request) -> Iterator[Model]:
    for name in OPERATORS:
        yield Model(request, {**SUMMARY, "named": {name: ["node"]}, "operators": {name: 1}}, "onnx", shapes=SHAPES)
    for opset in OPSETS:
        summary = {**SUMMARY, "opsets": {"ai.onnx": opset}}
        yield Model(request, summary, "onnx", is_final=False, shapes=SHAPES, export="onnx")


def judged(request: Request) -> tuple[Finding, ...]:
    """What is said of a configuration, by the rules and of what the backend lacks."""
    capability = request.hardware.compute_capability
    lacking = lacking_types(request.precision, (capability,) if capability else ())
    lacking = lacking if request.is_tensorrt else ""
    return (*check(request), *release_is_driven(request, "engine"), *backend_builds(lacking, request, "engine"))


def alternatives(hint: str) -> Iterator[dict[str, str]]:
    """Each way that a hint offers, as keys with values; none for words that are no request."""
    for part in re.split(r"[,;]? or |\n", hint):
        words = dict(re.findall(r"([\w.]+)=('[^']*'|\[[^\]]*\]|[\w./]+)", part))
        if words and "…" not in part:
            yield words


def applied(request: Request, words: dict[str, str]) -> Request:
    for key, value in words.items():
        request = with_value(request, key, value.strip("'").strip('"'))
    return request


def with_value(request: Request, key: str, value: str) -> Request:
    """The request as the word on the command line would make it."""
    if key == "hardware":
        return replace(request, hardware=hardware(value))
    if key == "backend":  # whose options are its own
        return replace(request, backend=value, backend_version="", options={})
    if key == "backend.version":
        return replace(request, backend_version=value)
    if key == "precision":
        return replace(request, precision=value)
    if key == "workspace" or key.startswith("backend."):
        return replace(request, options={**request.options, key.removeprefix("backend."): value})
    if key == "check.plugins":
        return replace(request, machine=replace(request.machine, plugins=(value.strip("[]"),)))
    assert key.startswith("nodes."), key
    return request


def applied_to_model(model: Model, words: dict[str, str]) -> Model:
    opset = words.get(f"nodes.{model.export}.opset")
    return replace(model, summary={**model.summary, "opsets": {"ai.onnx": int(opset)}}) if opset else model


def assert_mended(finding: Finding, before: tuple[Finding, ...], after: tuple[Finding, ...], where: str) -> None:
    """The finding is gone, and no error of a rule that had none before."""
    gone = (finding.code, finding.severity, finding.where)
    assert gone not in [(each.code, each.severity, each.where) for each in after], f"{where}: {finding} stays"
    had = {each.code for each in before}
    new = [each for each in after if each.severity == "error" and each.code not in had]
    assert not new, f"{where}: {finding} leads to {new}"
