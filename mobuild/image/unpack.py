"""The file tree of an image, unpacked from the layers of its layout without root (OCI 1.1: layer changesets).

For proofs about a finished image: modes are kept, owners are not. Paths and links are checked before anything is
written, and what a layer says to remove (`.wh.`) is removed.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, Sequence

from mobuild.errors import SourceError
from mobuild.image import tars
from mobuild.image.layout import Descriptor, Image

_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
_CLIMBING = (".wh.", ".wh..", ".wh...")
_SPECIAL = 0o7000


def unpack(image: Image, root: Path, layers: Sequence[Descriptor] | None = None) -> None:
    """Write the tree of `image`, or that of its lowest `layers`, to `root`, which does not exist yet.

    Raises:
        SourceError: as `add`.
    """
    root.mkdir(parents=True)
    root.chmod(0o755)  # the user of a container is another one than its owner
    for layer in image.layers if layers is None else layers:
        add(image, layer, root)


def add(image: Image, layer: Descriptor, root: Path) -> None:
    """Write what a layer changes in the tree below `root`.

    Raises:
        SourceError: it is damaged, or would write elsewhere.
        ToolchainError: it is packed with zstd, and `zstandard` is not installed.
    """
    try:
        with _opened(image.path(layer)) as archive:
            own: set[Path] = set()  # what this layer has, which its whiteouts do not concern
            folders = [entry for entry in archive if _entry(archive, entry, root, own) and entry.isdir()]
    except (tarfile.ReadError, zlib.error, EOFError, gzip.BadGzipFile) as error:
        raise SourceError(f"layer {layer.digest} ({layer.media_type}): cannot be unpacked: {error}") from error
    for folder in folders:
        place = _within(root, folder.name)
        if place.is_dir() and not place.is_symlink() and _is_inside(root, place):  # still: a later entry may replace it
            place.chmod(folder.mode | 0o700)  # the tree must go away again


@contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    with open(path, "rb") as file, tars.opened(tars.unpacked(file)) as archive:
        yield archive


def _entry(archive: tarfile.TarFile, entry: tarfile.TarInfo, root: Path, own: set[Path]) -> bool:
    """Write one entry; whether it is there afterwards."""
    place = _within(root, entry.name)
    if place == root:
        return False  # `./`, whose mode is for who makes the root
    _refuse_elsewhere(root, place.parent, entry.name)
    if place.name == _OPAQUE:
        _remove_within(place.parent, own)
        return False
    if place.name.startswith(_WHITEOUT):
        hidden = place.parent / place.name[len(_WHITEOUT) :]
        _remove_within(hidden, own) if hidden in own else _remove(hidden)
        return False
    own.update((place, *place.parents))
    if entry.isdir() and place.is_dir() and not place.is_symlink():
        return True
    if place.is_symlink() or place.exists():
        _remove(place)
    place.parent.mkdir(parents=True, exist_ok=True)
    if entry.issym():
        place.symlink_to(entry.linkname)
    elif entry.islnk():
        linked = _within(root, entry.linkname)
        _refuse_elsewhere(root, linked, entry.linkname)
        os.link(linked, place, follow_symlinks=False)
    elif entry.isdir():
        place.mkdir()
    elif entry.isfile():
        content = archive.extractfile(entry)
        assert content is not None
        with open(place, "wb") as file:
            shutil.copyfileobj(content, file)
        place.chmod(entry.mode & (0o777 | _SPECIAL))
    else:
        raise SourceError(f"layer entry {entry.name!r}: neither a file nor a folder nor a link")
    return True


def _within(root: Path, name: str) -> Path:
    """Where an entry goes; some tools write names from the root of the image.

    Raises:
        SourceError: it climbs, or says to remove a folder by its own name.
    """
    parts = name.split("/")
    if ".." in parts or parts[-1] in _CLIMBING:
        raise SourceError(f"layer entry {name!r}: would be written outside the tree")
    return root / name.lstrip("/")


def _refuse_elsewhere(root: Path, place: Path, name: str) -> None:
    if not _is_inside(root, place):
        raise SourceError(f"layer entry {name!r}: would be written outside the tree")


def _is_inside(root: Path, place: Path) -> bool:
    real = root.resolve()
    return real == place.resolve() or real in place.resolve().parents


def _remove(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


def _remove_within(folder: Path, kept: set[Path]) -> None:
    if folder.is_dir() and not folder.is_symlink():
        for each in folder.iterdir():
            _remove_within(each, kept) if each in kept else _remove(each)
