"""Blobs: single files under their digests, of which objects are made.

Publishing ends with a rename, so a blob is whole or absent. It is trusted while its stat token is the one noted in
the machine's part of the store; otherwise it is read again, and damage is moved aside and reported in a warning.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mobuild.fingerprint import Digest, Digester, digest_file
from mobuild.store import reflink
from mobuild.store.disk import explained, sync
from mobuild.store.measuring import SMALL_BYTES, measure, measure_bytes, measure_copy
from mobuild.store.stat_cache import StatCache

_HEX = "[0-9a-f]"


class Blobs:
    """The files of one store. Safe for several threads and processes."""

    def __init__(self, root: Path, local: Path, files: StatCache, warnings: list[str], writable: bool) -> None:
        self._root, self._files, self._warnings, self._writable = root / "objects", files, warnings, writable
        self._staging, self._quarantine = local / "staging", local / "quarantine"
        self._damaged: set[Digest] = set()  # found so, and left where nothing can be moved

    def path(self, digest: Digest) -> Path:
        """Where the object lies or would lie; tools may read it and never write it."""
        return Path(self.place_of(digest))

    def place_of(self, digest: Digest) -> str:
        """`path` as text, for those who ask for thousands."""
        return f"{self._root}/{digest[:2]}/{digest[2:]}"

    def publish(self, staged: Path) -> Digester:
        """Take the content of a file into the store: moved from the staging folder, copied from elsewhere."""
        if staged.stat().st_size <= SMALL_BYTES:
            return self._publish_small(staged)
        with self.temporary() as temporary:
            if self._may_move(staged):
                staged.rename(temporary)
                measured = measure(temporary)
            elif reflink.clone(staged, temporary):
                measured = measure(temporary)
            else:
                measured = measure_copy(staged, temporary)
            self._rename(temporary, measured)
        return measured

    @contextmanager
    def temporary(self) -> Iterator[Path]:
        """A name on the file system of the blobs, for content that is still to be placed."""
        temporary = self._staging / f"publish-{os.urandom(8).hex()}"
        try:
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)

    def place(self, temporary: Path, measured: Digester) -> None:
        """Bring the measured file `temporary` to the disk, and put it where it belongs."""
        sync(temporary)
        self._rename(temporary, measured)

    def _publish_small(self, staged: Path) -> Digester:
        """Logs above all, most of which are empty: what is here already is neither copied nor brought to the disk."""
        data = staged.read_bytes()
        measured = measure_bytes(data, staged)
        if not self.holds(measured.digest):
            with self.temporary() as temporary:
                if self._may_move(staged):
                    staged.rename(temporary)
                else:
                    temporary.write_bytes(data)
                self.place(temporary, measured)
        return measured

    def _rename(self, temporary: Path, measured: Digester) -> None:
        if self.holds(measured.digest):
            return
        destination = self.path(measured.digest)
        destination.parent.mkdir(parents=True, exist_ok=True)
        temporary.chmod(0o444)
        # Neither mode nor name need be on the disk: a record comes later, and one without its object is a miss.
        temporary.replace(destination)
        self._files.note(destination, measured.digest, measured.sha256)

    def holds(self, digest: Digest) -> bool:
        """Whether the file is here and undamaged."""
        try:
            path = self.place_of(digest)
            if stat.S_ISREG(os.lstat(path).st_mode) and self._files.known(path) == digest:
                return True
        except OSError:  # the next reading says what is the matter
            pass
        return self._is_whole(self.path(digest), digest, self._files.digest)

    def verify(self, digest: Digest) -> bool:
        """As `holds`, but read again whatever its token says."""
        return self._is_whole(self.path(digest), digest, digest_file)

    def was_damaged(self, digest: Digest) -> bool:
        """Whether the file was here and was found damaged, now or before; what was only lost was not."""
        return digest in self._damaged or any(self._quarantine.glob(f"{digest}-*"))

    def sizes(self) -> dict[Digest, int]:
        """Every file of the store → its bytes."""
        found = {}
        for path in self._root.glob(f"{_HEX * 2}/{_HEX * 30}"):
            try:
                found[Digest(path.parent.name + path.name)] = path.lstat().st_size
            except FileNotFoundError:
                continue
        return found

    def warn(self, sentence: str) -> None:
        """Have `sentence` shown once."""
        if sentence not in self._warnings:
            self._warnings.append(sentence)

    def _may_move(self, staged: Path) -> bool:
        # A second name of the file (a hard link of some tool) would let others write into the object.
        is_ours = staged.resolve().is_relative_to(self._staging.resolve())
        return is_ours and not staged.is_symlink() and staged.stat().st_nlink == 1

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
            self.warn(f"cache object '{path}' cannot be read ({error.strerror})")
            return False
        if found == digest:
            self._files.note(path, digest)
            return True
        self._set_aside(path, digest, before, "its content changed")
        return False

    def _set_aside(self, path: Path, digest: Digest, seen: os.stat_result, damage: str) -> None:
        moved = ", and is in quarantine now" if self._writable else ""
        self.warn(f"cache object {digest} was damaged ({damage}){moved}")
        if not self._writable:
            self._damaged.add(digest)
            return
        with explained(self._root.parent):
            self._quarantine.mkdir(parents=True, exist_ok=True)
            place = Path(tempfile.mkdtemp(prefix=f"{digest}-", dir=self._quarantine))
            try:  # another process may have healed it meanwhile: then this is no longer what was read
                if path.lstat().st_ino == seen.st_ino:
                    path.rename(place / "object")
            except FileNotFoundError:
                return
