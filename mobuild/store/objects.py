"""Objects: content under its own digest, read-only once published.

An artifact is a file, or a folder whose object is a listing of its files (`listing`). Nothing here knows
what an artifact is for; `records` says which work made it. Publishing ends with a rename, so an object
is whole or absent. An object is trusted while its stat token is the one noted in the machine's part of
the store; otherwise it is read again, and damage is moved aside and reported in a warning.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from mobuild.errors import StoreError
from mobuild.fingerprint import Digest, Digester, canonical, digest_bytes, digest_file
from mobuild.store import copies, reflink
from mobuild.store.disk import ELSEWHERE, explained, sync
from mobuild.store.listing import MAGIC, Member, check_names, decode, encode
from mobuild.store.stat_cache import StatCache

_CHUNK = 1 << 20
_HEX = "[0-9a-f]"


@dataclass(frozen=True)
class Artifact:
    """The content that a node made: what a record points to.

    `sha256` of a folder is that of its listing with SHA-256 in place of each digest, so that a copy
    from elsewhere can be checked without trusting the quick digests.
    """

    digest: Digest
    sha256: str
    size_bytes: int  # of a folder: the sum of its files
    is_folder: bool


class Objects:
    """The content part of one store. Safe for several threads and processes."""

    def __init__(self, root: Path, local: Path, files: StatCache, warnings: list[str], writable: bool) -> None:
        self._root, self._files, self._warnings, self._writable = root / "objects", files, warnings, writable
        self._staging, self._quarantine = local / "staging", local / "quarantine"

    def path(self, digest: Digest) -> Path:
        """Where the object lies or would lie; tools may read it and never write it."""
        return self._root / digest[:2] / digest[2:]

    def publish(self, staged: Path) -> Artifact:
        """Take the content of a file or folder into the store.

        Files below the store's staging folder are moved, any others are copied. The same content twice
        is one object.

        Raises:
            StoreError: the store is read-only or full, or the folder holds what no listing can hold.
        """
        if not self._writable:
            raise StoreError(f"cache '{self._root.parent}': is read-only, nothing can be published", ELSEWHERE)
        if not staged.exists():
            raise StoreError(f"nothing to publish: there is no '{staged}'")
        with explained(self._root.parent):
            if staged.is_dir():
                return self._publish_folder(staged)
            return self._publish_file(staged)

    def holds(self, digest: Digest) -> bool:
        """Whether the whole object is here and undamaged; a folder with all its members."""
        if not self._holds_file(digest):
            return False
        if not self.is_folder(digest):
            return True
        try:
            members = self._members(digest)
        except StoreError as error:
            self._warn(f"cache object {digest} is no folder ({error.message}); it is built again")
            return False
        return all(self._holds_file(member.digest) for member in members.values())

    def is_folder(self, digest: Digest) -> bool:
        """Whether the object is here and is a folder."""
        path = self.path(digest)
        try:
            if not path.is_file():  # a pipe would block
                return False
            with open(path, "rb") as stream:
                return stream.read(len(MAGIC)) == MAGIC
        except FileNotFoundError:
            return False

    def verify(self, digest: Digest) -> bool:
        """Whether one file's content is what it should be, read again whatever its token says.

        Damage is moved aside, as `holds` does.
        """
        return self._is_whole(self.path(digest), digest, digest_file)

    def sizes(self) -> dict[Digest, int]:
        """Every file of the store → its bytes; of a folder, its listing and its members are files."""
        found = {}
        for path in self._root.glob(f"{_HEX * 2}/{_HEX * 30}"):
            try:
                found[Digest(path.parent.name + path.name)] = path.lstat().st_size
            except FileNotFoundError:
                continue
        return found

    def parts(self, digest: Digest) -> set[Digest]:
        """The files that make an artifact: itself, and the members of a folder whose listing can be read."""
        try:
            members = self._members(digest) if self.is_folder(digest) else {}
        except (StoreError, OSError):
            members = {}
        return {digest, *(member.digest for member in members.values())}

    def measure(self, staged: Path) -> Digest:
        """The digest that `publish` would give the content of a file or folder.

        Raises:
            StoreError: the folder holds what no listing can hold.
        """
        if not staged.is_dir():
            return digest_file(staged)
        found = {path.relative_to(staged).as_posix(): path for path in copies.files_below(staged)}
        return digest_bytes(encode({name: _member(path) for name, path in found.items()}))

    def listing(self, digest: Digest) -> dict[str, Digest]:
        """The files of a folder object: name (nested with `/`) → digest, sorted."""
        return {name: member.digest for name, member in self._members(digest).items()}

    def materialise(self, digest: Digest, destination: Path) -> None:
        """Make `destination` a real copy of the object, writable by the user.

        Left alone when it has that content already, else replaced in one step (a folder that replaces
        something: in two renames).

        Raises:
            StoreError: the destination cannot be written.
        """
        if not self.holds(digest):
            raise StoreError(f"cache object {digest}: is missing or damaged", "run again: it is built anew")
        with explained(destination):
            destination.parent.mkdir(parents=True, exist_ok=True)
            content = self._content(digest)
            if not copies.is_copy(content, destination, self._files):
                copies.replace(content, destination)

    def is_copy(self, digest: Digest, destination: Path) -> bool:
        """Whether `destination` has the content of the object."""
        return self.holds(digest) and copies.is_copy(self._content(digest), destination, self._files)

    def _publish_folder(self, staged: Path) -> Artifact:
        found = {path.relative_to(staged).as_posix(): path for path in copies.files_below(staged)}
        check_names(found)  # before the first file is moved
        members, strong = {}, {}
        for name, path in found.items():
            is_executable = bool(path.stat().st_mode & stat.S_IXUSR)
            artifact = self._publish_file(path)
            members[name] = Member(artifact.digest, artifact.size_bytes, is_executable)
            strong[name] = {
                "sha256": artifact.sha256,
                "size_bytes": artifact.size_bytes,
                "executable": is_executable,
            }
        listing, outside = Digester(), Digester()
        listing.update(encode(members))
        outside.update(canonical(strong))
        with self._temporary() as temporary:
            temporary.write_bytes(encode(members))
            self._place(temporary, listing.digest, listing.sha256)
        size_bytes = sum(member.size_bytes for member in members.values())
        return Artifact(listing.digest, outside.sha256, size_bytes, is_folder=True)

    def _publish_file(self, staged: Path) -> Artifact:
        with self._temporary() as temporary:
            if self._may_move(staged):
                staged.rename(temporary)
                measured = _measure(temporary)
            else:
                measured = _copy_measured(staged, temporary)
            self._place(temporary, measured.digest, measured.sha256)
        return Artifact(measured.digest, measured.sha256, measured.size_bytes, is_folder=False)

    def _may_move(self, staged: Path) -> bool:
        # A second name of the file (a hard link of some tool) would let others write into the object.
        is_ours = staged.resolve().is_relative_to(self._staging.resolve())
        return is_ours and not staged.is_symlink() and staged.stat().st_nlink == 1

    @contextmanager
    def _temporary(self) -> Iterator[Path]:
        folder = Path(tempfile.mkdtemp(prefix="publish-", dir=self._staging))
        try:
            yield folder / "object"
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _place(self, temporary: Path, digest: Digest, sha256: str) -> None:
        if self._holds_file(digest):
            return
        destination = self.path(digest)
        destination.parent.mkdir(parents=True, exist_ok=True)
        temporary.chmod(0o444)
        sync(temporary)
        temporary.replace(destination)
        sync(destination.parent)
        self._files.note(destination, digest, sha256)

    def _holds_file(self, digest: Digest) -> bool:
        path = self.path(digest)
        try:
            if stat.S_ISREG(path.lstat().st_mode) and self._files.known(path) == digest:
                return True
        except OSError:  # the next reading says what is the matter
            pass
        return self._is_whole(path, digest, self._files.digest)

    def _is_whole(self, path: Path, digest: Digest, read: Callable[[Path], Digest]) -> bool:
        try:
            before = path.lstat()
            if not stat.S_ISREG(before.st_mode):  # a link leads out of the store, a pipe would block
                self._set_aside(path, digest, before, "it is no file")
                return False
            found = read(path)
        except FileNotFoundError:
            return False
        except OSError as error:
            self._warn(f"cache object '{path}' cannot be read ({error.strerror}); it is built again")
            return False
        if found == digest:
            self._files.note(path, digest)
            return True
        self._set_aside(path, digest, before, "its content changed")
        return False

    def _set_aside(self, path: Path, digest: Digest, seen: os.stat_result, damage: str) -> None:
        self._warn(f"cache object {digest} was damaged ({damage}); it is built again")
        if not self._writable:
            return
        with explained(self._root.parent):
            self._quarantine.mkdir(parents=True, exist_ok=True)
            place = Path(tempfile.mkdtemp(prefix=f"{digest}-", dir=self._quarantine))
            try:  # another process may have healed it meanwhile: then this is no longer what was read
                if path.lstat().st_ino == seen.st_ino:
                    path.rename(place / "object")
            except FileNotFoundError:
                return

    def _warn(self, sentence: str) -> None:
        if sentence not in self._warnings:
            self._warnings.append(sentence)

    def _members(self, digest: Digest) -> dict[str, Member]:
        data = self.path(digest).read_bytes()
        if not data.startswith(MAGIC):
            raise StoreError(f"cache object {digest}: is a file, not a folder")
        return decode(data)

    def _content(self, digest: Digest) -> copies.Content:
        if not self.is_folder(digest):
            return copies.lone(digest, self.path(digest))
        return {name: (self.path(member.digest), member) for name, member in self._members(digest).items()}


def _member(path: Path) -> Member:
    seen = path.stat()
    return Member(digest_file(path), seen.st_size, bool(seen.st_mode & stat.S_IXUSR))


def _copy_measured(source: Path, destination: Path) -> Digester:
    """Copy a file and measure what was copied, in one reading."""
    if reflink.clone(source, destination):
        return _measure(destination)
    with open(destination, "wb") as write:
        return _measure(source, write)


def _measure(source: Path, copy: BinaryIO | None = None) -> Digester:
    measured, buffer = Digester(), memoryview(bytearray(_CHUNK))
    with open(source, "rb", buffering=0) as stream:
        while count := stream.readinto(buffer):
            if not measured.size_bytes and bytes(buffer[: len(MAGIC)]) == MAGIC:
                raise StoreError(f"file '{source}': begins as a folder listing of mobuild, and cannot be kept")
            measured.update(buffer[:count])
            if copy:
                copy.write(buffer[:count])
    return measured
