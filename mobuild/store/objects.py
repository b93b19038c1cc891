"""Objects: content under its own digest, read-only once published.

An artifact is a file, or a folder whose object is a listing of its files (`listing`); each file is a blob, and
`blobs` keeps it. Nothing here knows what an artifact is for; `records` says which work made it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from pathlib import Path

from mobuild.errors import SourceError, StoreError
from mobuild.fingerprint import Digest, Digester, canonical, digest_bytes, digest_file
from mobuild.store import copies
from mobuild.store.blobs import Blobs
from mobuild.store.disk import ELSEWHERE, explained
from mobuild.store.listing import MAGIC, Member, check_names, decode, encode
from mobuild.store.stat_cache import StatCache
from mobuild.values import value


@value
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
        self._root, self._files, self._writable = root, files, writable
        self.blobs = Blobs(root, local, files, warnings, writable)

    def path(self, digest: Digest) -> Path:
        """Where the object lies or would lie; tools may read it and never write it."""
        return self.blobs.path(digest)

    def publish(self, staged: Path) -> Artifact:
        """Take the content of a file or folder into the store.

        Files below the store's staging folder are moved, any others are copied. The same content twice
        is one object.

        Raises:
            StoreError: the store is read-only or full, or the folder holds what no listing can hold.
        """
        if not self._writable:
            raise StoreError(f"cache '{self._root}': is read-only, nothing can be published", ELSEWHERE)
        if not staged.exists():
            raise StoreError(f"nothing to publish: there is no '{staged}'")
        with explained(self._root):
            if staged.is_dir():
                return self._publish_folder(staged)
            file = self.blobs.publish(staged)
            return Artifact(file.digest, file.sha256, file.size_bytes, is_folder=False)

    def holds(self, digest: Digest) -> bool:
        """Whether the whole object is here and undamaged; a folder with all its members."""
        if not self.blobs.holds(digest):
            return False
        if not self.is_folder(digest):
            return True
        try:
            members = self._members(digest)
        except StoreError as error:
            self.blobs.warn(f"cache object {digest} is no folder ({error.message})")
            return False
        return all(self.blobs.holds(member.digest) for member in members.values())

    def has(self, artifact: Artifact) -> bool:
        """As `holds`, of what a record says: a file need not be opened to see that it is no folder."""
        return self.holds(artifact.digest) if artifact.is_folder else self.blobs.holds(artifact.digest)

    def is_damaged(self, digest: Digest) -> bool:
        """Whether what is missing of the artifact was found damaged, and not only lost."""
        return any(self.blobs.was_damaged(part) for part in self.parts(digest) if not self.blobs.holds(part))

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

    def materialise(self, digest: Digest, destination: Path, names: Collection[str] | None = None) -> None:
        """Make `destination` a real copy of the object, writable by the user; of a folder only the files of those
        `names`, where they are given.

        Left alone when it has that content already, else replaced in one step (a folder that replaces
        something: in two renames).

        Raises:
            StoreError: the object is not whole.
            OSError: the destination cannot be written.
        """
        if not self.holds(digest):
            raise StoreError(f"cache object {digest}: is missing or damaged", "run again: it is built anew")
        destination.parent.mkdir(parents=True, exist_ok=True)
        content = self._content(digest)
        if names is not None:
            content = {name: one for name, one in content.items() if name in names}
        if not copies.is_copy(content, destination, self._files):
            copies.replace(content, destination)

    def place(self, artifact: Artifact, destination: Path) -> None:
        """As `materialise`, of what a record says: a file that is a copy already is not looked up in the store."""
        if artifact.is_folder or not self._is_copied(artifact, destination):
            self.materialise(artifact.digest, destination)

    def is_copy(self, digest: Digest, destination: Path) -> bool:
        """Whether `destination` has the content of the object."""
        return self.holds(digest) and copies.is_copy(self._content(digest), destination, self._files)

    def _is_copied(self, artifact: Artifact, destination: Path) -> bool:
        try:
            seen = os.lstat(destination)
            if not stat.S_ISREG(seen.st_mode) or seen.st_size != artifact.size_bytes:
                return False
            is_its_own = seen.st_ino != self.path(artifact.digest).stat().st_ino  # no name of the object itself
            return is_its_own and self._files.digest(destination) == artifact.digest
        except (OSError, SourceError):
            return False

    def _publish_folder(self, staged: Path) -> Artifact:
        found = {path.relative_to(staged).as_posix(): path for path in copies.files_below(staged)}
        check_names(found)  # before the first file is moved
        members, strong = {}, {}
        for name, path in found.items():
            is_executable = bool(path.stat().st_mode & stat.S_IXUSR)
            file = self.blobs.publish(path)
            members[name] = Member(file.digest, file.size_bytes, is_executable)
            strong[name] = {
                "sha256": file.sha256,
                "size_bytes": file.size_bytes,
                "executable": is_executable,
            }
        listing, outside = Digester(), Digester()
        listing.update(encode(members))
        outside.update(canonical(strong))
        with self.blobs.temporary() as temporary:
            temporary.write_bytes(encode(members))
            self.blobs.place(temporary, listing)
        size_bytes = sum(member.size_bytes for member in members.values())
        return Artifact(listing.digest, outside.sha256, size_bytes, is_folder=True)

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
