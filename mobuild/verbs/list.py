"""`mobuild list`: what can be chosen."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence


def list_all(choices: Mapping[str, Sequence[str]], as_json: bool = False) -> int:
    """Print each group with its choices: one line a group, or one JSON document."""
    if as_json:
        print(json.dumps({"schema": 1, **choices}, indent=2, ensure_ascii=False))
        return 0
    width = max(map(len, choices))
    for group, names in choices.items():
        print(f"{group:{width}}  {' '.join(names)}")
    return 0
