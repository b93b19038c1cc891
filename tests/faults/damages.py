"""What can happen to one file of a store while nobody looks."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

# `posix.system("touch $PWNED")`: whoever unpickles it leaves the file that the variable names.
PICKLE = b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x0ctouch $PWNED\x85R."


def truncate(path: Path) -> None:
    _rewrite(path, path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    """Change one bit in the middle, and put size and mtime back: only ctime shows it."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    before = path.stat()
    _rewrite(path, bytes(data))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def remove(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    _rewrite(path, b"")


def pickled(path: Path) -> None:
    _rewrite(path, PICKLE)


def other_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/hostname")


def dangling_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def folder(path: Path) -> None:
    path.unlink()
    (path / "sub").mkdir(parents=True)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGES: tuple[Callable[[Path], None], ...] = (
    truncate,
    flip,
    remove,
    empty,
    pickled,
    other_link,
    dangling_link,
    folder,
    pipe,
)


def _rewrite(path: Path, data: bytes) -> None:
    """Write in place, as a failing disk or a careless tool would: the inode stays."""
    path.chmod(0o644)
    with open(path, "r+b") as stream:
        stream.truncate(len(data))
        stream.write(data)
    path.chmod(0o444)
