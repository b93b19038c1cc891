"""Copies of files that cost nothing where the file system can share blocks (btrfs, XFS, bcachefs).

Never a hard link or a symbolic link: onnx and ONNX Runtime refuse both for external data, a hard link
changes the ctime of its object, and whoever writes into one writes into the store.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from pathlib import Path

_FICLONE = 0x40049409  # linux/fs.h: _IOW(0x94, 9, int)
_NO_REFLINK = {
    errno.EOPNOTSUPP,
    errno.ENOTTY,
    errno.EXDEV,
    errno.EINVAL,
    errno.ENOSYS,
    errno.EPERM,
    errno.EBADF,
}


def copy(source: Path, destination: Path, executable: bool = False) -> None:
    """Copy the content of `source` to the new file `destination`, writable by the user."""
    if not clone(source, destination, executable):
        shutil.copyfile(source, destination)  # by sendfile, where the kernel has it


def clone(source: Path, destination: Path, executable: bool = False) -> bool:
    """Make `destination` a new file that shares the blocks of `source`; it stays empty when that is False."""
    mode = 0o777 if executable else 0o666  # less the umask, as for any file that a tool writes
    descriptor = os.open(destination, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with open(source, "rb") as read:
            fcntl.ioctl(descriptor, _FICLONE, read.fileno())
    except OSError as error:
        if error.errno not in _NO_REFLINK:
            raise
        return False
    finally:
        os.close(descriptor)
    return True
