"""One file with what some records need, for another machine: an uncompressed tar of records and objects.

Its bytes depend on what it holds alone: names are sorted, and times, owners and modes are the same everywhere.
`importing` reads it.
"""

from __future__ import annotations

import io
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mobuild.errors import StoreError
from mobuild.fingerprint import Digest
from mobuild.store import Store
from mobuild.store.disk import explained
from mobuild.store.record import Record, encode, file_name

HEAD, HEAD_BYTES = "mobuild-cache", b"mobuild cache 1\n"  # the first member: what this is, and its version


@dataclass(frozen=True)
class Exported:
    """What was written."""

    records: int
    objects: int
    size_bytes: int


def export(store: Store, records: Sequence[Record], file: Path) -> Exported:
    """Write `records` and all their objects to `file`, in one move.

    Raises:
        StoreError: an object is lost, or the file cannot be written.
    """
    if not file.absolute().parent.is_dir():
        raise StoreError(f"'{file}': there is no folder '{file.parent}' to write it into", f"mkdir -p '{file.parent}'")
    if file.exists() and not file.is_file():
        raise StoreError(f"'{file}': is there, and is no plain file", "name a new file")
    found = {record_name(record): record for record in records}
    objects = sorted({digest for record in found.values() for digest in _objects(store, record)})
    with explained(file), tempfile.TemporaryDirectory(prefix=f".{file.name}-", dir=file.absolute().parent) as folder:
        partial = Path(folder) / "partial"
        with tarfile.open(partial, "w", format=tarfile.PAX_FORMAT) as archive:
            _add(archive, HEAD, HEAD_BYTES)
            for digest in objects:
                with open(store.objects.path(digest), "rb") as stream:
                    archive.addfile(_header(object_name(digest), store.objects.path(digest).stat().st_size), stream)
            for name in sorted(found):
                _add(archive, name, encode(found[name]))
        size_bytes = partial.stat().st_size
        partial.replace(file)
    return Exported(len(found), len(objects), size_bytes)


def object_name(digest: Digest) -> str:
    """The member that an object is."""
    return f"objects/{digest[:2]}/{digest[2:]}"


def record_name(record: Record) -> str:
    """The member that a record is."""
    return f"records/{record.key[:2]}/{record.key}/{file_name(record.conditions)}"


def _objects(store: Store, record: Record) -> Iterator[Digest]:
    """Every object of a record; a log that is lost is none.

    Raises:
        StoreError: the artifact is not whole.
    """
    if not store.objects.holds(record.artifact.digest):
        raise StoreError(f"cache object {record.artifact.digest}: is missing or damaged", "run again: it is built anew")
    yield from store.objects.parts(record.artifact.digest)
    if record.log and store.objects.holds(record.log):
        yield record.log


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    archive.addfile(_header(name, len(data)), io.BytesIO(data))


def _header(name: str, size_bytes: int) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)  # whose time, owner and group are zero
    header.size, header.mode = size_bytes, 0o444
    return header
