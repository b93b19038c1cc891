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
    with _locked(path, fcntl.LOCK_EX, called_off, on_wait):
        yield


@contextmanager
def shared(path: Path) -> Iterator[None]:
    """Hold the lock at `path` together with all others that ask for it so; waits while one `held` it.

    Raises:
        StoreError: as `held` does.
    """
    with _locked(path, fcntl.LOCK_SH, NEVER, lambda: None):
        yield


def take(descriptor: int, path: Path) -> None:
    """Lock the new file `path`, open as `descriptor`, until that is closed."""
    _is_taken(descriptor, path, fcntl.LOCK_EX)


def is_held(path: Path) -> bool:
    """Whether somebody holds the lock at `path` now.

    Raises:
        OSError: there is no such file.
    """
    descriptor = _opened(path)
    try:
        return not _is_taken(descriptor, path, fcntl.LOCK_EX)
    finally:
        os.close(descriptor)


@contextmanager
def _locked(path: Path, operation: int, called_off: threading.Event, on_wait: Callable[[], None]) -> Iterator[None]:
    descriptor = _open(path)
    try:
        is_taken = _is_taken(descriptor, path, operation)
        if not is_taken:
            on_wait()
        while not (is_taken or _is_taken(descriptor, path, operation)):
            if called_off.wait(_ASK_SECONDS):
                raise StoreError(f"cache: no longer waiting for the lock '{path}'")
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return _opened(path, os.O_CREAT)
    except OSError as error:
        raise StoreError(
            f"cache: the lock '{path}' cannot be made: {error.strerror}",
            "choose a writable folder with cache.dir=<folder> or MOBUILD_CACHE=<folder>",
        ) from error


def _opened(path: Path, flags: int = 0) -> int:
    try:
        return os.open(path, os.O_RDWR | flags, 0o666)  # less the umask; NFS locks what is open for writing alone
    except PermissionError:  # of another account, which shares the cache: flock(2) asks for no right to write
        return os.open(path, os.O_RDONLY)


def _is_taken(descriptor: int, path: Path, operation: int) -> bool:
    """Take the lock if it is free."""
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    except OSError as error:
        raise StoreError(
            f"cache: '{path}' cannot be locked: {error.strerror}",
            "the file system must support flock; choose a local one with cache.dir=<folder>",
        ) from error
