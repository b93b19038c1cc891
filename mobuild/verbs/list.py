"""`mobuild list`: what can be chosen, and what can be built of the recipe that is chosen."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Targets:
    """What one recipe can build: node → kind."""

    recipe: str
    kinds: Mapping[str, str]


def list_all(choices: Mapping[str, Sequence[str]], targets: Targets | None, as_json: bool = False) -> int:
    """Print each group with its choices, a line each, and each target with its kind; or one JSON document."""
    if as_json:
        found = {"target": {"recipe": targets.recipe, "kinds": dict(targets.kinds)}} if targets else {}
        print(json.dumps({"schema": 1, **choices, **found}, indent=2, ensure_ascii=False))
        return 0
    _print({group: " ".join(names) for group, names in choices.items()})
    if targets:
        print(f"\ntargets of recipe {targets.recipe}, and their kinds:")
        _print(targets.kinds)
    return 0


def _print(rows: Mapping[str, str]) -> None:
    width = max(map(len, rows), default=0)
    for name, text in rows.items():
        print(f"{name:{width}}  {text}")
