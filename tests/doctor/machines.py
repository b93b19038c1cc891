"""Recorded machines: the fixtures, and variants of them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import yaml

from mobuild.doctor.diagnosis import diagnose
from mobuild.doctor.findings import Finding
from mobuild.doctor.machine import Machine
from mobuild.doctor.recording import recorded
from mobuild.doctor.state import State
from mobuild.doctor.survey import survey
from tests.projects import hardware as shipped_hardware

FIXTURES = Path(__file__).parent / "fixtures"
NAMES = sorted(path.stem for path in FIXTURES.iterdir())


def answers(name: str, **changed: Any) -> dict[str, Any]:
    """The answers of a fixture (YAML by hand, or JSON as recorded), with some replaced; None: absent."""
    path = next(path for path in FIXTURES.iterdir() if path.stem == name)
    document = yaml.safe_load(path.read_text())
    base = answers(document["like"]) if "like" in document else {}
    words = {shlex.join(shlex.split(key)): value for key, value in {**document["answers"], **changed}.items()}
    return {key: value for key, value in {**base, **words}.items() if value is not None}


def recording(name: str, also: dict[str, Any] | None = None) -> str:
    """The file that stands for a machine, with some answers replaced (None: absent)."""
    return json.dumps({"recording": 1, "answers": answers(name, **(also or {}))})


def machine(name: str, also: dict[str, Any] | None = None) -> Machine:
    found = recorded(recording(name, also))
    assert found is not None
    return found


def state(name: str, also: dict[str, Any] | None = None) -> State:
    return survey(machine(name, also))


def findings(
    name: str, also: dict[str, Any] | None = None, hardware: str | None = None, message: str = ""
) -> dict[str, Finding]:
    """Code → finding on a recorded machine; each code at most once."""
    found = diagnose(state(name, also), shipped_hardware(hardware) if hardware else None, message)
    assert len({one.code for one in found}) == len(found), found
    return {one.code: one for one in found}
