"""All checks in order, and how a message that was met adds to them."""

from __future__ import annotations

from dataclasses import replace

from mobuild.doctor.checks.asked import asked
from mobuild.doctor.checks.cards import cards
from mobuild.doctor.checks.opening import opening
from mobuild.doctor.checks.place import place
from mobuild.doctor.checks.software import software
from mobuild.doctor.checks.versions import versions
from mobuild.doctor.findings import ERROR, WARNING, Finding
from mobuild.doctor.messages import explain
from mobuild.doctor.state import State
from mobuild.hardware import Hardware

_OF_GPUS = ("D0", "D1", "D2")  # what does not concern a build for the CPU


def diagnose(state: State, hardware: Hardware | None = None, message: str = "") -> tuple[Finding, ...]:
    """What is wrong with a machine, for `hardware` if one was asked for, and what `message` means on it."""
    found = [finding for check in (opening, versions, cards, place, software) for finding in check(state)]
    if hardware is not None:
        found += asked(state, hardware)
        if hardware.vendor == "cpu":
            found = [replace(one, severity=WARNING) if one.code.startswith(_OF_GPUS) else one for one in found]
    return _with_message(found, explain(message, state) if message else ())


def _with_message(found: list[Finding], met: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """What the machine itself shows is said once, and with its own words where it is an error already."""
    certain = {one.code for one in found if one.severity == ERROR}
    said = [one for one in met if one.code not in certain]
    codes = {one.code for one in said}
    return tuple(said + [one for one in found if one.code not in codes])
