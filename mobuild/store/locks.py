"""Locks between processes: one `flock` per key, so that a cold key is built once.

The kernel frees the lock of a process that dies, so there is nothing to unlock by hand. Descriptors are
not inheritable: a child that outlives its parent would keep the lock. Lock files stay behind (removing
one would let two processes hold "the same" lock); they are empty.

Who waits asks again and again: a thread that sleeps in `flock` cannot be called off, and would keep an
interrupted command alive for as long as the other process builds.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mobuild.errors import StoreError

_ASK_SECONDS = 0.1

NEVER = threading.Event()


@contextmanager
def held(path: Path, called_off: threading.Event = NEVER, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock at `path`, waiting for as long as another thread or process holds it.

    `on_wait` is called once when there is something to wait for. Not re-entrant: the same thread would wait
    for itself.

    Raises:
        StoreError: the lock file cannot be made, the file system knows no locks, or the wait was called off.
    """
    descriptor = _open(path)
    try:
        is_taken = _is_taken(descriptor, path)
        if not is_taken:
            on_wait()
        while not (is_taken or _is_taken(descriptor, path)):
            if called_off.wait(_ASK_SECONDS):
                raise StoreError(f"cache: no longer waiting for the lock '{path}'")
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


def _is_taken(descriptor: int, path: Path) -> bool:
    """Take the lock if nobody holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    except OSError as error:
        raise StoreError(
            f"cache: '{path}' cannot be locked: {error.strerror}",
            "the file system must support flock; choose a local one with cache.dir=<folder>",
        ) from error
