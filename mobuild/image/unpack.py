"""The file tree of an image, unpacked from the layers of its layout without root (OCI 1.1: layer changesets).

For proofs about a finished image: modes are kept, owners are not. Paths and links are checked before anything is
written, and what a layer says to remove (`.wh.`) is removed.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import tarfile
import zlib
from pathlib import Path
from typing import Sequence

from mobuild.errors import SourceError
from mobuild.image import tars
from mobuild.image.layout import Descriptor, Image

_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
_CLIMBING = (".wh.", ".wh..", ".wh...")
_SPECIAL = 0o7000
_BLOCK_BYTES = 1 << 20


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
        SourceError: it is damaged, or not what the image says, or would write elsewhere.
        ToolchainError: it is packed with zstd, and `zstandard` is not installed.
    """
    try:
        with open(image.path(layer), "rb") as file:
            plain = _Digested(tars.unpacked(file))
            with tars.opened(plain) as archive:
                writer = _Writer(root, archive)
                folders = [entry for entry in archive if writer.write(entry) and entry.isdir()]
            while plain.read(_BLOCK_BYTES):
                pass  # what follows the end of the tar counts as well
    except (tarfile.ReadError, zlib.error, EOFError, gzip.BadGzipFile) as error:
        raise SourceError(f"layer {layer.digest} ({layer.media_type}): cannot be unpacked: {error}") from error
    if plain.digest != image.diff_id(layer):
        raise SourceError(f"layer {layer.digest}: unpacked it is {plain.digest}, its image says {image.diff_id(layer)}")
    for folder in folders:
        place = _within(root, folder.name)
        if place.is_dir() and not place.is_symlink() and _is_inside(root, place):  # still: a later entry may replace it
            place.chmod(folder.mode | 0o700)  # the tree must go away again


class _Digested:
    """A stream and the digest of what was read of it."""

    def __init__(self, stream: tars.Readable) -> None:
        self._stream, self._state = stream, hashlib.sha256()

    def read(self, size: int = -1, /) -> bytes:
        found = self._stream.read(size)
        self._state.update(found)
        return found

    @property
    def digest(self) -> str:
        return f"sha256:{self._state.hexdigest()}"


class _Writer:
    """Writes the entries of one layer."""

    def __init__(self, root: Path, archive: tarfile.TarFile) -> None:
        self._root, self._archive = root, archive
        self._own: set[Path] = set()  # what this layer has, which its whiteouts do not concern
        self._safe: set[Path] = set()  # folders inside the root, until something is removed: a link may come instead

    def write(self, entry: tarfile.TarInfo) -> bool:
        """Write one entry; whether it is there afterwards."""
        place = _within(self._root, entry.name)
        if place == self._root:
            return False  # `./`, whose mode is for who makes the root
        if place.parent not in self._safe:
            _refuse_elsewhere(self._root, place.parent, entry.name)
        if place.name.startswith(_WHITEOUT):
            self._hide(place)
            return False
        self._enter(place.parent)
        self._own.add(place)
        if os.path.lexists(place):
            if entry.isdir() and place.is_dir() and not place.is_symlink():
                return True
            self._safe.clear()
            _remove(place)
        self._make(entry, place)
        return True

    def _enter(self, folder: Path) -> None:
        if folder not in self._safe:
            folder.mkdir(parents=True, exist_ok=True)
            self._own.update((folder, *folder.parents))
            self._safe.add(folder)

    def _hide(self, place: Path) -> None:
        self._safe.clear()
        hidden = place.parent / place.name[len(_WHITEOUT) :]
        if place.name == _OPAQUE:
            _remove_within(place.parent, self._own)
        elif hidden in self._own:
            _remove_within(hidden, self._own)
        else:
            _remove(hidden)

    def _make(self, entry: tarfile.TarInfo, place: Path) -> None:
        if entry.issym():
            place.symlink_to(entry.linkname)
        elif entry.islnk():
            linked = _within(self._root, entry.linkname)
            _refuse_elsewhere(self._root, linked, entry.linkname)
            os.link(linked, place, follow_symlinks=False)
        elif entry.isdir():
            place.mkdir()
        elif entry.isfile():
            content = self._archive.extractfile(entry)
            assert content is not None
            with open(place, "wb") as file:
                shutil.copyfileobj(content, file)
                os.fchmod(file.fileno(), entry.mode & (0o777 | _SPECIAL))
        else:
            raise SourceError(f"layer entry {entry.name!r}: neither a file nor a folder nor a link")


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
