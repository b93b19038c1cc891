"""How bytes come from outside: by scheme, from web servers, hubs, object stores, or as one member of a wheel.

Also the rules for what may be shown or written of a URI. Nothing here decides what is right: the `source` kind
compares with the pin, and `pins` makes one. Libraries and the modules that need them are imported in functions, and
all keeps Python 3.8 syntax, because the worker fetches.
"""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Iterator

from mobuild.errors import SourceError
from mobuild.fetch.copying import copy
from mobuild.fetch.taken import Listed, Taken
from mobuild.fetch.uris import (
    check,
    is_folder,
    is_offline_place,
    is_remote,
    scheme_of,
    scrubbed,
    server_of,
    suffix_of,
    without_credentials,
)

if TYPE_CHECKING:
    from threading import Event

__all__ = [
    "FOLDER",
    "Listed",
    "Taken",
    "check",
    "is_folder",
    "is_offline_place",
    "is_remote",
    "kept",
    "listed",
    "scrubbed",
    "server_of",
    "suffix_of",
    "take",
    "take_member",
    "without_credentials",
]

FOLDER = "folder:"
"""What the SHA-256 of a folder begins with: it is that of its listing, as sha256sum prints one, sorted by name."""

_AT_ONCE = 8  # files of a folder


def take(uri: str, out: Path | None, version: str = "") -> Taken:
    """Read a remote file or folder to `out`, or, without it, only to know what it is, which a hub may tell.

    `version` is the one that was pinned: a hub still has it when its branch has moved on.

    Raises:
        ConfigError: the URI makes no sense.
        ToolchainError: the library for its scheme is not installed.
        SourceError: it is not there, cannot be read, or only stands for the real file.
        StoreError: it cannot be written.
    """
    check(uri)
    return _take_folder(uri, out, version) if is_folder(uri) else _take_file(uri, out, version)


def take_member(package: str, member: str, out: Path | None) -> Taken:
    """Read one file of the wheel of `package` (`name==version`).

    Raises:
        ToolchainError, SourceError, StoreError: as `take`.
    """
    from mobuild.fetch.wheels import opened_member

    shown = f"{package}/{member}"
    with opened_member(package, member) as stream:
        sha256, size_bytes = copy(stream, out, shown, PurePosixPath(member).suffix)
    return Taken(sha256, size_bytes, package.partition("==")[2])


def listed(uri: str, version: str = "") -> tuple[str, dict[str, Listed]]:
    """The version of a folder (the commit of a hub's repository, else empty), and its files by their names in it.

    Raises:
        ConfigError, ToolchainError, SourceError: as `take`; a name that would lie outside the folder, too.
    """
    shown = without_credentials(uri)
    if scheme_of(uri) == "hf":
        from mobuild.fetch import hub

        commit, files = hub.listed(uri, version)
    else:
        from mobuild.fetch import filesystems

        commit, files = "", filesystems.listed(uri)
    for name in files:
        if any(part in ("", ".", "..") for part in name.split("/")) or "\n" in name or "\0" in name:
            raise SourceError(f"source {shown!r}: {name!r} cannot be the name of a file in a folder", "rename it there")
        if any(str(above) in files for above in PurePosixPath(name).parents):
            raise SourceError(f"source {shown!r}: has {name!r} below a file of that name", "rename one of them there")
    if not files:
        raise SourceError(
            f"source {shown!r}: there are no files below it", "check its name; a file has no '/' at its end"
        )
    return commit, files


def kept(uri: str, version: str) -> Path | None:
    """The file of this machine that `take` reads in place of the network: one in huggingface_hub's cache."""
    if scheme_of(uri) != "hf" or is_folder(uri):
        return None
    from mobuild.fetch import hub

    return hub.kept(uri, version)


def _take_file(uri: str, out: Path | None, version: str) -> Taken:
    if out is None and scheme_of(uri) == "hf":
        from mobuild.fetch import hub

        if told := hub.told(uri, version):
            return told
    shown = without_credentials(uri)
    with _opened(uri, version) as (stream, found, size_bytes):
        sha256, read_bytes = copy(stream, out, shown, suffix_of(uri))
    if size_bytes and read_bytes != size_bytes:
        raise SourceError(
            f"source {shown!r}: expected {size_bytes} bytes, and {read_bytes} came", "run the command again"
        )
    return Taken(sha256, read_bytes, found)


def _take_folder(uri: str, out: Path | None, version: str) -> Taken:
    from concurrent.futures import ThreadPoolExecutor
    from threading import Event

    commit, files = listed(uri, version)
    if out is not None:
        out.mkdir()

    off = Event()

    def take_one(name: str) -> Taken:
        _refuse_once(off)
        return _take_inside(files[name], out / name if out is not None else None, commit, off)

    names = sorted(files)
    threads = ThreadPoolExecutor(_AT_ONCE)
    try:
        found = list(threads.map(take_one, names))
    finally:
        off.set()  # after a failure, or Ctrl-C, nobody wants the others
        threads.shutdown()
    listing = "".join(f"{each.sha256}  {name}\n" for name, each in zip(names, found))
    sha256 = hashlib.sha256(listing.encode("utf-8", "surrogateescape")).hexdigest()
    return Taken(FOLDER + sha256, sum(each.size_bytes for each in found), commit)


def _take_inside(file: Listed, out: Path | None, version: str, off: Event) -> Taken:
    """One file of a folder, where empty files and pages are nothing odd."""
    if out is None and file.sha256:
        return Taken(file.sha256, file.size_bytes, version)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
    with _opened(file.uri, version) as (stream, _, _):
        sha256, size_bytes = copy(_Until(off, stream), out, without_credentials(file.uri), "", is_member=True)
    return Taken(sha256, size_bytes, version)


class _Until:
    """A stream that fails once it is called off."""

    def __init__(self, off: Event, stream: Any) -> None:
        self._off, self._stream = off, stream

    def read(self, size: int) -> bytes:
        _refuse_once(self._off)
        return bytes(self._stream.read(size))


def _refuse_once(off: Event) -> None:
    if off.is_set():
        raise SourceError("called off, since another file failed")


@contextmanager
def _opened(uri: str, version: str) -> Iterator[tuple[Any, str, int]]:
    """The content of a file as a stream, its version, and its size where that is told beforehand, else 0."""
    scheme = scheme_of(uri)
    if scheme == "hf":
        from mobuild.fetch import hub

        with hub.opened(uri, version) as found:
            yield found
    elif scheme in ("http", "https"):
        from mobuild.fetch import web

        body = web.Body(uri, without_credentials(uri))
        try:
            yield body, body.version, body.size_bytes or 0
        finally:
            body.close()
    else:
        from mobuild.fetch import filesystems

        with filesystems.opened(uri) as opened:
            yield opened
