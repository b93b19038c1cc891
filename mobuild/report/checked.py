"""Findings of rules for people, scripts and code scanning (SARIF 2.1.0)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import mobuild
from mobuild.contract.codes import FAMILIES, SAYS
from mobuild.contract.findings import Finding

SCHEMA = 1
_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
_RANK = ("error", "warning", "note")


@dataclass(frozen=True)
class Place:
    """What a finding is about: variants of a recipe, the node (empty: the configuration), the recipe's file or else
    the model's.

    `model` is the path of a model that stands for the recipe, where the recipe's name has digits for its folder.
    """

    recipe: str
    variant: str
    node: str
    file: str
    model: str = ""

    def __str__(self) -> str:
        return f"{f'{self.model} ' if self.model else f'{self.recipe}/'}{self.variant} {self.node}".strip()


@dataclass(frozen=True)
class Checked:
    """One finding at its place; or, without one, families of rules that were not run, and why."""

    place: Place
    finding: Finding | None
    not_run: Sequence[str] = ()
    why: str = ""


def merge(found: Sequence[Checked]) -> list[Checked]:
    """Equal findings of several variants as one, the errors first."""
    places: dict[Checked, list[str]] = {}
    for each in found:
        bare = replace(each, place=replace(each.place, variant=""))
        places.setdefault(bare, []).append(each.place.variant)
    merged = [
        replace(each, place=replace(each.place, variant=",".join(dict.fromkeys(variants))))
        for each, variants in places.items()
    ]
    return sorted(merged, key=lambda each: _RANK.index(each.finding.severity) if each.finding else len(_RANK))


def write(found: Sequence[Checked], form: str) -> None:
    """Print to standard output as `text`, `json` or `sarif`."""
    if form == "text":
        _write_text(found)
    else:
        print(json.dumps(_sarif(found) if form == "sarif" else document(found), indent=2, ensure_ascii=False))


def document(found: Sequence[Checked]) -> dict[str, Any]:
    """The findings as data, `"schema": 1`."""
    findings = [
        {
            **{"recipe": each.place.recipe, "variant": each.place.variant, "node": each.place.node},
            **{"code": one.code, "family": family(one.code), "severity": one.severity},
            **{"where": one.where, "message": one.message, "hint": one.hint},
        }
        for each in found
        if (one := each.finding)
    ]
    not_run = [
        {"recipe": each.place.recipe, "variant": each.place.variant, "node": each.place.node}
        | {"families": list(each.not_run), "why": each.why}
        for each in found
        if not each.finding
    ]
    return {"schema": SCHEMA, "findings": findings, "not_run": not_run}


def family(code: str) -> str:
    return next(name for name, codes in FAMILIES.items() if code in codes)


def _write_text(found: Sequence[Checked]) -> None:
    for each in found:
        if one := each.finding:
            print(f"{one.severity:7} {one.code:4} {each.place}: {one.where}: {one.message}")
            for line in one.hint.splitlines():
                print(f"{'':13}{line}")
        else:
            print(f"not run      {each.place}: {', '.join(each.not_run)}: {each.why}")
    severities = [each.finding.severity for each in found if each.finding]
    counts = [(word, severities.count(word)) for word in _RANK]
    print(", ".join(f"{count} {word}{'s' * (count != 1)}" for word, count in counts))


def _sarif(found: Sequence[Checked]) -> dict[str, Any]:
    """One run with a result for each finding, at the recipe or the model that it is about."""
    rules = [{"id": code, "shortDescription": {"text": text}} for code, text in SAYS.items()]
    driver = {"name": "mobuild", "version": mobuild.__version__, "rules": rules}
    results = [_result(each.place, each.finding) for each in found if each.finding]
    return {"$schema": _SARIF, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _result(place: Place, finding: Finding) -> dict[str, Any]:
    text = f"{finding.where}: {finding.message}" + (f"\n{finding.hint}" if finding.hint else "")
    location: dict[str, Any] = {"logicalLocations": [{"fullyQualifiedName": f"{place}: {finding.where}"}]}
    if place.file:
        location["physicalLocation"] = {"artifactLocation": {"uri": _relative(place.file)}, "region": {"startLine": 1}}
    return {"ruleId": finding.code, "level": finding.severity, "message": {"text": text}, "locations": [location]}


def _relative(file: str) -> str:
    """The file as a reference that a URI allows: of a name, blanks and the like are written by their numbers."""
    path = Path(file)
    return quote(path.relative_to(Path.cwd()).as_posix()) if path.is_relative_to(Path.cwd()) else path.as_uri()
