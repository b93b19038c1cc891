"""Exceptions that nobody foresaw, as errors: faults of mobuild itself, to be reported, and refusals of the system."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
import traceback
from datetime import UTC, datetime
from pathlib import Path

from mobuild.errors import MobuildError

# Any write, any open may meet them, and no line of mobuild is to blame.
_REFUSALS = {
    errno.EACCES,
    errno.EPERM,
    errno.ENAMETOOLONG,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.EAGAIN,
}

FOLDER = ".faults"  # below build/; a node's fault is reported beside the logs of its run
_KEPT = 5


def unforeseen(fault: Exception, where: str, folder: Path | None = None) -> MobuildError:
    """An error for an exception that nobody foresaw; its traceback goes to a file that the message names.

    The newest few stay in `folder`; without one that can be written, the file lies among the temporary ones.
    """
    if isinstance(fault, OSError) and fault.errno in _REFUSALS:
        place = f" ('{fault.filename}')" if fault.filename else ""
        temporary = f"temporary files go to '{tempfile.gettempdir()}', or where TMPDIR says"
        return MobuildError(
            f"{where}: the system refuses: {fault.strerror}{place}",
            f"see to permissions, disks and limits; {temporary}",
        )
    text = "".join(traceback.format_exception(fault))
    return MobuildError(
        f"{where}: fault in mobuild: {type(fault).__name__}: {fault}",
        "this is not your mistake; please report it with the traceback",
        str(_written(text, folder)),
    )


def _written(text: str, folder: Path | None) -> Path | str:
    with contextlib.suppress(OSError):
        if folder:
            return _kept(text, folder)
    try:
        with tempfile.NamedTemporaryFile("w", prefix="mobuild-fault-", suffix=".txt", delete=False) as stream:
            stream.write(text)
    except OSError as error:  # the disk may be the fault
        return f"could not be written: {error.strerror}\n{text}"
    return Path(stream.name)


def _kept(text: str, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"fault-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}-{os.getpid()}.txt"
    path.write_text(text)
    for old in sorted(folder.glob("fault-*.txt"))[:-_KEPT]:
        old.unlink(missing_ok=True)
    return path
