"""Sizes in bytes as people write them: `4GiB`, `512MiB`, `1073741824`.

Kept apart so that every room reads and prints them alike. Binary units only: `GB` is refused, because half
of the world means 10^9 by it and the other half 2^30.
"""

from __future__ import annotations

import re
from typing import Any

from mobuild.errors import ConfigError

_UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SIZE = re.compile(r"(\d+) ?([A-Za-z]*)")


def parse_size(value: Any, name: str = "size") -> int:
    """The number of bytes that `value` names; `name` is the option that it came from.

    Raises:
        ConfigError: not a positive whole number with a binary unit.
    """
    found = None if isinstance(value, bool) else _SIZE.fullmatch(str(value).strip())
    if found is None or found.group(2) not in _UNITS or int(found.group(1)) == 0:
        raise ConfigError(
            f"{name}: expected a size such as 512MiB or 4GiB, found {str(value)!r}",
            "write a whole number with KiB, MiB, GiB or TiB, or plain bytes",
        )
    return int(found.group(1)) * _UNITS[found.group(2)]


def size_text(size_bytes: int) -> str:
    """`size_bytes` in the largest unit that leaves it whole: 1073741824 → `1GiB`; plain bytes otherwise."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size_bytes and size_bytes % _UNITS[unit] == 0:
            return f"{size_bytes // _UNITS[unit]}{unit}"
    return str(size_bytes)
