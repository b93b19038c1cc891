"""Paths as people write them."""

from __future__ import annotations

import os
from pathlib import Path


def expanded(path: str | Path) -> Path:
    """`path` with the home folder in place of `~`; as it is where nobody knows that folder.

    `Path.expanduser` raises there, as for a user of a container by number alone.
    """
    return Path(os.path.expanduser(path))  # noqa: PTH111
