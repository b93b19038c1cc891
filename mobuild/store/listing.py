"""What a folder is to the store: a sorted listing of its files by digest.

The same listing gives the digest of a folder in the store and of the user's folder outside it, so equal
content has one digest. Empty folders, times and owners are no content. `sources` and `objects` decide
what enters a listing; this module writes, reads and checks one.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass

from mobuild.errors import StoreError
from mobuild.fingerprint import Digest, canonical

MAGIC = b"mobuild folder 1\n"


@dataclass(frozen=True)
class Member:
    """One file of a folder."""

    digest: Digest
    size_bytes: int
    executable: bool


def encode(members: Mapping[str, Member]) -> bytes:
    """The listing as bytes; they depend on names, contents and executable bits alone.

    Raises:
        StoreError: a name that could not be written on every machine.
    """
    check_names(members)
    return MAGIC + canonical({name: asdict(member) for name, member in members.items()})


def decode(data: bytes) -> dict[str, Member]:
    """The members that `encode` wrote, sorted by name.

    Raises:
        StoreError: this is no listing, or a name in it leaves the folder.
    """
    try:
        document = json.loads(data.removeprefix(MAGIC))
        members = {name: _member(fields) for name, fields in sorted(document.items())}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise StoreError(f"folder listing: cannot be read: {error}") from error
    check_names(members)
    return members


def check_names(names: Collection[str]) -> None:
    """Refuse names that are absolute, climb out, or use one name for a file and a folder."""
    for name in names:
        if not _is_text(name):
            raise StoreError(
                f"folder listing: the name {name!r} is not in UTF-8, and cannot be written on every machine",
                "rename the file; convmv does so for a whole folder",
            )
        parts = name.split("/")
        if any(part in ("", ".", "..") for part in parts) or "\0" in name:
            raise StoreError(f"folder listing: {name!r} is no name of a file inside the folder")
        for i in range(1, len(parts)):
            if "/".join(parts[:i]) in names:
                raise StoreError(f"folder listing: {'/'.join(parts[:i])!r} is both a file and a folder")


def _member(fields: Mapping[str, object]) -> Member:
    digest, size_bytes, executable = fields["digest"], fields["size_bytes"], fields["executable"]
    if not (isinstance(digest, str) and isinstance(size_bytes, int) and isinstance(executable, bool)):
        raise ValueError("a field has the wrong type")
    if len(digest) != 32 or not set(digest) <= set("0123456789abcdef"):
        raise ValueError(f"{digest!r} is no digest")
    return Member(Digest(digest), size_bytes, executable)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:  # bytes that are no UTF-8 arrive from the file system as surrogates
        return False
    return True
