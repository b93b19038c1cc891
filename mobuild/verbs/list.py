"""`mobuild list`: what can be chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def list_all(choices: Mapping[str, Sequence[str]]) -> int:
    """Print each group with its choices, one line a group."""
    width = max(map(len, choices))
    for group, names in choices.items():
        print(f"{group:{width}}  {' '.join(names)}")
    return 0
