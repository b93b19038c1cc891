"""Real copies of objects where users and tools can have them.

A copy is a file or folder of its own (see `reflink`), writable by the user, and it is left alone when it
has the content already. `objects` says where the content lies and that it is whole.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from mobuild.errors import SourceError, StoreError
from mobuild.fingerprint import Digest
from mobuild.store import reflink
from mobuild.store.listing import Member
from mobuild.store.stat_cache import StatCache

_ATTEMPTS = 100  # each failure is another process's success
_TAKEN = {errno.ENOTEMPTY, errno.EEXIST, errno.EISDIR, errno.ENOTDIR}

Content = Mapping[str, tuple[Path, Member]]
"""What to copy: the name in the folder (empty for a lone file) → the object's place and what it holds."""


def is_copy(content: Content, destination: Path, files: StatCache) -> bool:
    """Whether `destination` is a real copy of `content` and of nothing more."""
    if destination.is_symlink() or not destination.exists():
        return False
    try:
        if not destination.is_dir():
            return content.keys() == {""} and _is_copied(*content[""], destination, files)
        found = {path.relative_to(destination).as_posix(): path for path in files_below(destination)}
        return found.keys() == content.keys() and all(
            _is_copied(*content[name], path, files) for name, path in found.items()
        )
    except (StoreError, SourceError, FileNotFoundError, NotADirectoryError):
        return False  # something that no folder object can hold, or another process just replaces it


def replace(content: Content, destination: Path) -> None:
    """Put a copy of `content` at `destination` in one step (where a folder is involved: in two renames).

    Several processes may do so at once; the last one wins.
    """
    folder = Path(tempfile.mkdtemp(prefix=f".{destination.name}-", dir=destination.parent))
    try:
        _copy(content, folder / "new")
        _swap(folder / "new", destination, folder / "old")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def files_below(folder: Path) -> Iterator[Path]:
    """Every file below `folder`.

    Raises:
        StoreError: it holds a symbolic link or a device, which no folder object can hold.
    """
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_symlink():
            raise StoreError(
                f"folder '{folder}': {entry.name!r} is a symbolic link, which cannot be kept",
                "write what it leads to in its place (`cp -L` copies so), or leave it out",
            )
        if entry.is_dir():
            yield from files_below(Path(entry.path))
        elif entry.is_file():
            yield Path(entry.path)
        else:
            raise StoreError(
                f"folder '{folder}': {entry.name!r} is neither a file nor a folder, and cannot be kept",
                "remove sockets, pipes and devices before the node ends",
            )


def _is_copied(source: Path, member: Member, destination: Path, files: StatCache) -> bool:
    if destination.stat().st_size != member.size_bytes or destination.samefile(source):
        return False
    return files.digest(destination) == member.digest


def _copy(content: Content, destination: Path) -> None:
    if content.keys() == {""}:
        return reflink.copy(content[""][0], destination)
    destination.mkdir()
    for name, (source, member) in content.items():
        (destination / name).parent.mkdir(parents=True, exist_ok=True)
        reflink.copy(source, destination / name, member.executable)


def _swap(new: Path, destination: Path, aside: Path) -> None:
    """Rename `new` to `destination`; a folder that is in the way goes into `aside`, or back if that fails."""
    aside.mkdir()
    for attempt in range(_ATTEMPTS):
        old = aside / str(attempt)
        if new.is_dir() or destination.is_dir():
            with suppress(FileNotFoundError):
                destination.rename(old)
        try:
            new.rename(destination)
            return
        except OSError as error:
            if error.errno in _TAKEN and attempt + 1 < _ATTEMPTS:  # another process was faster: once more
                continue
            if os.path.lexists(old):
                old.rename(destination)
            raise


def lone(digest: Digest, place: Path) -> Content:
    """The content of a file object."""
    return {"": (place, Member(digest, place.stat().st_size, False))}
