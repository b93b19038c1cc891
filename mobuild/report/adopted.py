"""What became of an adopted line, for people and scripts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from mobuild.adopt.adopting import Adopted
from mobuild.adopt.wishes import Flag
from mobuild.report import checked
from mobuild.report.checked import Checked

SCHEMA = 1
_WIDEST = 44


def write(adopted: Adopted, paths: Sequence[str], found: Sequence[Checked], form: str) -> None:
    """Print to standard output as `text` or `json`; `paths` are the files that were written."""
    if form == "json":
        print(json.dumps(document(adopted, paths, found), indent=2, ensure_ascii=False))
        return
    for path in paths:
        print(path)
    width = min(_WIDEST, max(len(_given(flag)) for flag in adopted.flags))
    for flag in adopted.flags:
        print(f"  {flag.verdict:9} {_short(_given(flag), width):{width}}  {_said(flag)}".rstrip())
    for warning in adopted.warnings:
        print(f"  warning   {warning}")
    for note in adopted.notes:
        print(f"  note      {note}")
    checked.write(found, "text")


def document(adopted: Adopted, paths: Sequence[str], found: Sequence[Checked]) -> dict[str, Any]:
    """The same as data, `"schema": 1`."""
    head = {"schema": SCHEMA, "recipe": paths[0], "files": list(paths), "name": adopted.name, "tool": adopted.tool}
    told = {"version": adopted.version, "target": adopted.target, "flags": [asdict(flag) for flag in adopted.flags]}
    findings = checked.document(found)
    words = {"warnings": list(adopted.warnings), "notes": list(adopted.notes)}
    return {**head, **told, **words, **{key: findings[key] for key in ("findings", "not_run")}}


def _given(flag: Flag) -> str:
    between = "=" if flag.flag.startswith("--") and flag.value else " "
    return f"{flag.flag}{between}{flag.value}".strip()


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _said(flag: Flag) -> str:
    return f"→ {flag.key}{f'  ({flag.note})' if flag.note else ''}" if flag.key else flag.note
