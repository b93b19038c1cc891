"""Whether a disk has room, before a large file is begun: half an image helps nobody."""

from __future__ import annotations

import errno
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

from mobuild.errors import NodeFailed
from mobuild.units import about

_HINT = "make room there, or move the cache: cache.dir=FOLDER"


def check(folder: Path, needed_bytes: int, hint: str = _HINT) -> None:
    """
    Raises:
        NodeFailed: the disk of `folder` has less than that; says how much, and where.
    """
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise NodeFailed(f"no space: needs {about(needed_bytes)}, has {about(free)} at '{folder}'", hint)


def is_full(error: BaseException) -> bool:
    """Whether an error says that a disk, or a share of it, is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def needed(folder: Path) -> Iterator[None]:
    """Say of a disk that gets full in a `with` which one it is.

    Raises:
        NodeFailed: it is full; says where, and what is left.
    """
    try:
        yield
    except OSError as error:
        if not is_full(error):
            raise
        free = shutil.disk_usage(folder).free
        raise NodeFailed(f"no space: has {about(free)} at '{folder}', and it did not suffice", _HINT) from error
