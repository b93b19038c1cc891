"""Takes in a file that `exporting` wrote, on whatever machine.

Nothing in it is trusted: every name, size and digest is checked, and every record must be one, before the first
object is published. What is refused leaves the store as it was. Where a record is known already, it stays.
"""

from __future__ import annotations

import re
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from mobuild.errors import SourceError, StoreError
from mobuild.fingerprint import Digest, Digester, canonical
from mobuild.store import Store
from mobuild.store.disk import ELSEWHERE, explained
from mobuild.store.exporting import HEAD, HEAD_BYTES, object_name, record_name
from mobuild.store.listing import MAGIC, Member, decode
from mobuild.store.record import Record, Unreadable
from mobuild.store.record import decode as decode_record
from mobuild.units import about

_OBJECT = re.compile(r"objects/[0-9a-f]{2}/[0-9a-f]{30}")
_RECORD = re.compile(r"records/[0-9a-f]{2}/[0-9a-f]{32}/(?:plain|[0-9a-f]{32})\.json")
_LARGEST_RECORD_BYTES = 64 << 20
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Imported:
    """What came of a file."""

    added: int  # records
    present: int  # records that were here already
    objects: int  # published, or here already


@dataclass(frozen=True)
class _Staged:
    """One object of the file, read and measured, outside the store's objects."""

    path: Path
    measured: Digester


class _Bad(Exception):
    """Why the file is refused."""


def import_file(store: Store, file: Path) -> Imported:
    """Take in the records and objects of `file`; what is here already stays as it is.

    Raises:
        SourceError: there is no such file, or it is not what `export` wrote.
        StoreError: the store cannot be written.
    """
    if not store.writable:
        raise StoreError(f"cache '{store.root}': is read-only, nothing can be imported", ELSEWHERE)
    with store.claims.run():  # before anything is staged: gc leaves alone what a living run stages and publishes
        staging = store.staging()
        try:
            with explained(store.root):
                records, needed, objects = _checked(file, staging)
                return _publish(store, records, needed, objects)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def _checked(file: Path, staging: Path) -> tuple[dict[str, Record], dict[str, set[Digest]], dict[Digest, _Staged]]:
    """The records of the file, the objects that each of them needs, and all objects, which lie in `staging`."""
    try:
        objects, records = _read(file, staging)
        needed = {name: _needed(record, objects) for name, record in records.items()}
        if stray := objects.keys() - {digest for one in needed.values() for digest in one}:
            raise _Bad(f"object {min(stray)} is of no record")
    except (_Bad, tarfile.TarError, ValueError, OverflowError, MemoryError, RecursionError) as error:
        raise SourceError(
            f"'{file}': is refused: {error or type(error).__name__}",
            "nothing of it was imported; make it again: mobuild cache export target=… FILE",
        ) from error
    return records, needed, objects


def _read(file: Path, staging: Path) -> tuple[dict[Digest, _Staged], dict[str, Record]]:
    """Every member, its bytes checked against its name."""
    objects: dict[Digest, _Staged] = {}
    records: dict[str, Record] = {}
    with _opened(file) as stream, tarfile.open(fileobj=stream, mode="r:") as archive:
        for member in _members(archive, file.stat().st_size, staging):
            content = archive.extractfile(member)
            assert content
            if _OBJECT.fullmatch(member.name):
                digest = Digest("".join(member.name.split("/")[1:]))
                objects[digest] = _stage(content, member, staging / digest)
            else:
                records[member.name] = _record(content, member)
    return objects, records


def _opened(file: Path) -> IO[bytes]:
    try:
        return open(file, "rb")
    except OSError as error:
        hint = "mobuild cache import FILE takes what mobuild cache export wrote"
        raise SourceError(f"'{file}': cannot be read: {error.strerror or error}", hint) from error


def _members(archive: tarfile.TarFile, file_bytes: int, staging: Path) -> Iterator[tarfile.TarInfo]:
    """The members after the first, each a plain file of a known name that lies whole in the file."""
    first = archive.next()
    if not first or first.name != HEAD or not first.isreg() or first.size > len(HEAD_BYTES) + 16:
        raise _Bad("it is no export of mobuild")
    head = archive.extractfile(first)
    if not head or head.read() != HEAD_BYTES:
        raise _Bad("another version of mobuild wrote it")
    seen: set[str] = set()
    while member := archive.next():
        if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.issparse():
            raise _Bad(f"{member.name!r} is no plain file")
        if not (_OBJECT.fullmatch(member.name) or _RECORD.fullmatch(member.name)):
            raise _Bad(f"{member.name!r} is neither an object nor a record")
        if member.name in seen:
            raise _Bad(f"{member.name!r} is there twice")
        if member.size < 0 or member.offset_data + member.size > file_bytes:
            raise _Bad(f"it is cut off: {member.name!r} has {member.size} bytes")
        if member.size > (free := shutil.disk_usage(staging).free):
            raise StoreError(f"cache: {about(free)} are left, and {member.name!r} has {about(member.size)}", ELSEWHERE)
        seen.add(member.name)
        yield member
    _check_end(archive, file_bytes)


def _check_end(archive: tarfile.TarFile, file_bytes: int) -> None:
    """Two blocks of zeros mark the end, and more fill the record up; without them, members may be missing."""
    assert archive.fileobj
    archive.fileobj.seek(archive.offset)
    rest = archive.fileobj.read(2 * tarfile.RECORDSIZE)
    if archive.offset + len(rest) != file_bytes or len(rest) < 2 * tarfile.BLOCKSIZE or any(rest):
        raise _Bad("it is cut off, or something stands behind its end")


def _stage(content: IO[bytes], member: tarfile.TarInfo, path: Path) -> _Staged:
    measured = Digester()
    with open(path, "xb") as out:
        while chunk := content.read(_CHUNK):
            measured.update(chunk)
            out.write(chunk)
    if measured.size_bytes != member.size or object_name(measured.digest) != member.name:
        raise _Bad(f"{member.name!r} has other content than its name says")
    return _Staged(path, measured)


def _record(content: IO[bytes], member: tarfile.TarInfo) -> Record:
    if member.size > _LARGEST_RECORD_BYTES:
        raise _Bad(f"{member.name!r} is too large for a record: {about(member.size)}")
    try:
        record = decode_record(content.read())
    except Unreadable as error:
        raise _Bad(f"{member.name!r} is no record: {error}") from error
    if record.fingerprint.key != record.key or record_name(record) != member.name:
        raise _Bad(f"{member.name!r} is the record of other work")
    return record


def _needed(record: Record, objects: Mapping[Digest, _Staged]) -> set[Digest]:
    """The objects of a record, all of which are in the file and are what it says of them."""
    artifact = record.artifact
    staged = _object(artifact.digest, objects)
    needed = {artifact.digest}
    if artifact.is_folder:
        members = _listing(staged)
        strong = {name: _strong(member, _object(member.digest, objects)) for name, member in members.items()}
        outside = Digester()
        outside.update(canonical(strong))
        needed |= {member.digest for member in members.values()}
        found = outside.sha256, sum(member.size_bytes for member in members.values())
    else:
        if _is_listing(staged):
            raise _Bad(f"object {artifact.digest} is a folder, and its record says a file")
        found = staged.measured.sha256, staged.measured.size_bytes
    if found != (artifact.sha256, artifact.size_bytes):
        raise _Bad(f"object {artifact.digest} is not the artifact that its record tells of")
    return needed | ({record.log} if record.log and record.log in objects else set())


def _listing(staged: _Staged) -> dict[str, Member]:
    if not _is_listing(staged):
        raise _Bad(f"object {staged.measured.digest} is a file, and its record says a folder")
    try:
        return decode(staged.path.read_bytes())
    except StoreError as error:
        raise _Bad(error.message) from error


def _is_listing(staged: _Staged) -> bool:
    with open(staged.path, "rb") as stream:
        return stream.read(len(MAGIC)) == MAGIC


def _strong(member: Member, staged: _Staged) -> dict[str, object]:
    if member.size_bytes != staged.measured.size_bytes or _is_listing(staged):
        raise _Bad(f"object {member.digest} is not the file that its folder tells of")
    return {"sha256": staged.measured.sha256, "size_bytes": member.size_bytes, "executable": member.executable}


def _object(digest: Digest, objects: Mapping[Digest, _Staged]) -> _Staged:
    if digest not in objects:
        raise _Bad(f"object {digest} is missing")
    return objects[digest]


def _publish(
    store: Store, records: Mapping[str, Record], needed: Mapping[str, set[Digest]], objects: Mapping[Digest, _Staged]
) -> Imported:
    """Objects first, records last, key by key; a record that is here with its object stays, and so does its object."""
    added: list[Record] = []
    published: set[Digest] = set()
    for name, record in records.items():
        with store.lock(record.key), store.claims.keeping():
            if any(record_name(one) == name for one in _whole(store, record)):
                continue
            for digest in sorted(needed[name] - published):
                with store.objects.blobs.temporary() as temporary:
                    objects[digest].path.rename(temporary)
                    store.objects.blobs.place(temporary, objects[digest].measured)
                published.add(digest)
            store.set_lost_aside(record.key)
            store.claims.add(store.records.name(store.records.publish(record)))
            added.append(record)
    store.uses.note(store.records.name(record) for record in added)
    return Imported(len(added), len(records) - len(added), len(published))


def _whole(store: Store, record: Record) -> list[Record]:
    return [one for one in store.records.find(record.key) if store.objects.holds(one.artifact.digest)]
