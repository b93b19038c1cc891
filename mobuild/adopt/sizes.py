"""Sizes of memory as trtexec and Polygraphy write them, as recipes do."""

from __future__ import annotations

import math
import re

from mobuild.errors import ConfigError
from mobuild.units import size_text

_UNITS = {"": 0, "B": 0, "K": 10, "M": 20, "G": 30}


def size(flag: str, text: str, unit: str = "M") -> str:
    """`4096` → `4GiB`, where a bare number is in `unit`; `1.5G`, `512m`, `1e9`.

    Raises:
        ConfigError: no size above 0.
    """
    found = re.fullmatch(r"(\d+\.?\d*(?:[eE]\d+)?)([BKMG]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    size_bytes = float(found[1]) * (1 << _UNITS[(found[2] or unit).upper()]) if found else 0
    if not 1 <= size_bytes < math.inf:
        raise ConfigError(f"adopt: {flag}: expected a size such as 4096, 4096M or 4G, found {text!r}")
    return size_text(int(size_bytes))
