"""Versions as text: checked where YAML enters, and compared number by number.

A version in a recipe must be quoted: YAML reads `10.10` as the number 10.1.
"""

from __future__ import annotations

import re
from typing import Any

from mobuild.errors import ConfigError

_VERSION = re.compile(r"\d+(\.\d+)*([-.+]?[a-zA-Z][\w.+-]*)?")

_SUCH = {"driver": "580.65.06", "cuda": "13.0", "python": "3.12"}  # what a version of each looks like


def version_text(value: Any, name: str = "version") -> str:
    """`value` when it is the text of a version, or empty; `name` is the field that it came from.

    Raises:
        ConfigError: a number, which has lost its trailing zeros, or text that begins with none.
    """
    if isinstance(value, str) and (not value or _VERSION.fullmatch(value)):
        return value
    if isinstance(value, str):
        such = _SUCH.get(name.rpartition(".")[2], "10.16")
        raise ConfigError(f"{name}: expected a version such as {such}, found {value!r}", f"{name}='\"{such}\"'")
    raise ConfigError(
        f"{name} {value} must be quoted: without quotes, 10.10 reads as the number 10.1",
        f'write {name}: "10.10"; on a command line {name}=\'"10.10"\'',
    )


def version_key(text: str) -> tuple[int, ...]:
    """The numbers of a version, for comparison: `1.7.1.116` → (1, 7, 1, 116); later words are left out."""
    leading = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(word) for word in leading.group().split(".")) if leading else ()
