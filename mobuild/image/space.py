"""Whether a disk has room, before a large file is begun: half an image helps nobody."""

from __future__ import annotations

import shutil
from pathlib import Path

from mobuild.errors import NodeFailed
from mobuild.units import about


def check(folder: Path, needed_bytes: int, hint: str = "make room there, or move the cache: cache.dir=FOLDER") -> None:
    """
    Raises:
        NodeFailed: the disk of `folder` has less than that; says how much, and where.
    """
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise NodeFailed(f"no space: needs {about(needed_bytes)}, has {about(free)} at '{folder}'", hint)
