"""What a file has to do with the store: found by its content, wherever it was copied to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mobuild.errors import SourceError, StoreError, did_you_mean
from mobuild.fingerprint import Digest
from mobuild.store import Store
from mobuild.store.record import Record, Unreadable, check_told, decode

_SIDECAR: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("recipe", "variant", "node", "kind", "key", "digest", "sha256", "created"), str),
    **dict.fromkeys(("fingerprint", "measurements", "onnx"), dict),
    **dict.fromkeys(("warnings", "conditions", "observed_by"), list),
    **dict.fromkeys(("size_bytes", "seconds", "peak_rss_mib"), (int, float)),
}
_OPTIONAL = ("inputs", "seen", "artifact")  # mappings where they are there; of inputs each is one, too
_LARGEST_DOCUMENT_BYTES = 64 << 20


@dataclass(frozen=True)
class Match:
    """One record that knows the file, and what the file is to it."""

    role: str  # `artifact`, `log`, or the name of a member after `member `
    record: Record


@dataclass(frozen=True)
class Subject:
    """A file or folder that is asked about."""

    path: Path
    digest: Digest | None  # of its content; None when it is a record or a sidecar, which stands for an artifact
    matches: tuple[Match, ...]  # the best first
    sidecar: Mapping[str, Any] | None  # that of the artifact, where there is one
    source: Path | None  # where what is known was read, when that is not a record of the store
    notes: tuple[str, ...] = ()


def find(store: Store, path: Path) -> Subject:
    """All that is known about the file or folder at `path`.

    Raises:
        SourceError: there is none, or it cannot be read.
    """
    if not path.exists():
        siblings = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        raise SourceError(f"'{path}': there is no such file.{did_you_mean(path.name, siblings)}")
    try:
        document = _document(path)
        if record := _record(document):
            return Subject(path, None, (Match("artifact", record),), None, path)
        if _is_sidecar(document):
            digest, key = document["digest"], document["key"]
            return Subject(path, None, tuple(_matches(store, digest, key)), document, path)
        return _by_content(store, path)
    except (OSError, StoreError) as error:
        reason = error.message if isinstance(error, StoreError) else error.strerror or str(error)
        raise SourceError(f"'{path}': cannot be read: {reason}") from error


def _by_content(store: Store, path: Path) -> Subject:
    digest = store.objects.measure(path) if path.is_dir() else store.files.digest(path)
    notes = []
    if (named := _object_name(store, path)) and named != digest:
        notes.append(f"the content of this object is damaged ({digest}); mobuild verify moves it aside")
        digest = named
    beside = path.with_name(f"{path.name}.json")
    sidecar = _document(beside)
    if not _is_sidecar(sidecar):
        sidecar = {}
    elif sidecar["digest"] != digest:
        notes.append(f"it was changed since it was built: '{beside}' says {sidecar['digest']}")
        sidecar = {}
    matches = tuple(_matches(store, digest, sidecar.get("key", "")))
    return Subject(path, digest, matches, sidecar or None, beside if sidecar else None, tuple(notes))


def _matches(store: Store, digest: str, key: str) -> list[Match]:
    """The records that know the digest: artifacts before members and logs, that of `key` first, then the newest."""
    order = {"artifact": 0, "member": 1, "log": 2}
    found = [match for one in store.records.all() if one.record for match in _roles(store, one.record, digest)]
    found.sort(key=lambda match: match.record.created, reverse=True)
    return sorted(found, key=lambda match: (order[match.role.split()[0]], match.record.key != key))


def _roles(store: Store, record: Record, digest: str) -> Iterator[Match]:
    if record.artifact.digest == digest:
        yield Match("artifact", record)
    elif record.log == digest:
        yield Match("log", record)
    elif record.artifact.is_folder:
        names = [name for name, member in members(store, record).items() if member == digest]
        yield from (Match(f"member {name}", record) for name in names[:1])


def members(store: Store, record: Record) -> dict[str, Digest]:
    """The files of a folder artifact; none when its listing is lost."""
    try:
        return store.objects.listing(record.artifact.digest) if record.artifact.is_folder else {}
    except (OSError, StoreError):
        return {}


def _object_name(store: Store, path: Path) -> Digest | None:
    """The digest that an object's place claims."""
    name = Digest(path.resolve().parent.name + path.name)
    return name if path.resolve() == store.objects.path(name).resolve() else None


def _document(path: Path) -> dict[str, Any]:
    """The JSON object in a file; empty for anything else."""
    if not path.is_file() or path.stat().st_size > _LARGEST_DOCUMENT_BYTES:
        return {}
    with open(path, "rb") as stream:
        if stream.read(1) != b"{":
            return {}
        try:
            document = json.loads(b"{" + stream.read())
        except (ValueError, RecursionError):
            return {}
    return document if isinstance(document, dict) else {}


def _record(document: Mapping[str, Any]) -> Record | None:
    if "artifact" not in document:
        return None
    try:
        return decode(json.dumps(document).encode())
    except Unreadable:
        return None


def _is_sidecar(document: Mapping[str, Any]) -> bool:
    """Whether all is there that `inspect` relies on; the file may be anyone's."""
    if not all(isinstance(document.get(name), kind) for name, kind in _SIDECAR.items()):
        return False
    try:
        check_told(document)
        nested = [document.get(name, {}) for name in _OPTIONAL]
        return all(isinstance(one, dict) for one in (*nested, *nested[0].values()))
    except (Unreadable, AttributeError):
        return False
