"""Locks between processes: one `flock` per key, so that a cold key is built once.

The kernel frees the lock of a process that dies, so there is nothing to unlock by hand. Descriptors are
not inheritable: a child that outlives its parent would keep the lock. Lock files stay behind (removing
one would let two processes hold "the same" lock); they are empty.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mobuild.errors import StoreError


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock at `path`, waiting for as long as another thread or process holds it.

    Not re-entrant: the same thread would wait for itself.

    Raises:
        StoreError: the lock file cannot be made, or the file system knows no locks.
    """
    descriptor = _open(path)
    try:
        _wait(descriptor, path)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise StoreError(
            f"cache: the lock '{path}' cannot be made: {error.strerror}",
            "choose a writable folder with cache.dir=<folder> or MOBUILD_CACHE=<folder>",
        ) from error


def _wait(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        raise StoreError(
            f"cache: '{path}' cannot be locked: {error.strerror}",
            "the file system must support flock; choose a local one with cache.dir=<folder>",
        ) from error
