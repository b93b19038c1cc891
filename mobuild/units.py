"""Sizes and ages as people write them: `4GiB`, `512MiB`, `1073741824`; `30d`, `12h`.

Kept apart so that every room reads and prints them alike. Binary units only: `GB` is refused, because half
of the world means 10^9 by it and the other half 2^30.
"""

from __future__ import annotations

import re
from typing import Any

from mobuild.errors import ConfigError

_UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_SIZE = re.compile(r"(\d+) ?([A-Za-z]*)")


def parse_size(value: Any, name: str = "size", least: int = 1) -> int:
    """The number of bytes that `value` names, `least` or more; `name` is the option that it came from.

    Raises:
        ConfigError: not such a whole number with a binary unit.
    """
    found = None if isinstance(value, bool) else _SIZE.fullmatch(str(value).strip())
    if found is None or found.group(2) not in _UNITS or int(found.group(1)) < least:
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


def about(size_bytes: int) -> str:
    """`size_bytes` for people: `1.2 GiB`, `17 bytes`."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size_bytes >= _UNITS[unit]:
            return f"{size_bytes / _UNITS[unit]:.1f} {unit}"
    return f"{size_bytes} byte{'' if size_bytes == 1 else 's'}"


def parse_age(value: Any, name: str = "age") -> int:
    """The seconds that `value` names; a bare 0 is none at all.

    Raises:
        ConfigError: not a whole number with a unit.
    """
    found = None if isinstance(value, bool) else _SIZE.fullmatch(str(value).strip())
    if found and not found.group(2) and int(found.group(1)) == 0:
        return 0
    if found is None or found.group(2) not in _SECONDS:
        raise ConfigError(
            f"{name}: expected an age such as 30d or 12h, found {str(value)!r}",
            f"write a whole number with {', '.join(_SECONDS)}",
        )
    return int(found.group(1)) * _SECONDS[found.group(2)]


def age_text(seconds: float) -> str:
    """`seconds` for people, in the largest unit that fits: `45 days`."""
    for words, unit in (("days", "d"), ("hours", "h"), ("minutes", "min")):
        if seconds >= 2 * _SECONDS[unit]:
            return f"{int(seconds // _SECONDS[unit])} {words}"
    return f"{int(max(seconds, 0))} s"
