"""What the disk may refuse, in words, and what must survive a power cut."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mobuild.errors import StoreError

ELSEWHERE = "choose another folder with cache.dir=<folder> or MOBUILD_CACHE=<folder>"


@contextmanager
def explained(place: Path) -> Iterator[None]:
    """Turn the operating system's refusal (full, read-only, not permitted) into an error with the place."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"'{place}': cannot be written: {reason}", f"make room there, or {ELSEWHERE}") from error


def sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
