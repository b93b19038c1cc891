"""What builders remember from one build to the next on this machine: files that save time and change no key.

Each lies in a slot of a folder of the cache that never leaves the machine (`local/<machine>/scratch`). A build works on
a copy and merges what it learned back under a lock, so that builds at the same time lose nothing; the file is replaced
whole, so that no reader needs the lock. Standard library, Python 3.8: the worker runs it under foreign interpreters.
"""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path
from typing import Callable

folder: Path | None = None
"""Where the slots are; the worker sets it. Without it nothing is remembered."""


def read(slot: str) -> bytes:
    """What the slot holds; empty when it is new."""
    if folder is None:
        return b""
    try:
        return (folder / _name(slot)).read_bytes()
    except OSError:
        return b""  # gone, or not ours to read: it saves time and no more


def place(slot: str) -> str:
    """Where the slot lies, for messages; its own name where nothing is remembered."""
    return str(folder / _name(slot)) if folder else slot


def update(slot: str, change: Callable[[bytes], bytes]) -> None:
    """Replace what the slot holds with what `change` makes of it, while no other process does the same."""
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / _name(slot)
    descriptor = os.open(str(path) + ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        partial = path.with_name(f"{path.name}.{os.getpid()}")
        partial.write_bytes(change(read(slot)))
        partial.replace(path)
    finally:
        os.close(descriptor)


def _name(slot: str) -> str:
    """The slot as the name of a file."""
    return re.sub(r"[^A-Za-z0-9.+-]+", "_", slot)
