"""Records: what the store remembers about finished work, as JSON beside its key.

One key may hold several records, one for each set of observed conditions; each is created once, and the
first writer wins. The files are the truth. Nothing in them is trusted: one that cannot be read, or that
does not belong where it lies, is a miss and is set aside when the key is next published. Whether a
record is a hit (its conditions hold, its object is here) is the planner's question.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mobuild.errors import StoreError
from mobuild.fingerprint import Key
from mobuild.store.disk import ELSEWHERE, explained
from mobuild.store.record import Condition, Record, Unreadable, decode, encode, file_name

__all__ = ["Condition", "Record", "Records"]


@dataclass(frozen=True)
class Found:
    """One file among the records: a record, or why it is none."""

    name: str  # `<key>/<file>`, the same on all machines
    path: Path
    record: Record | None
    reason: str = ""

    @property
    def key(self) -> Key:
        return Key(self.path.parent.name)


class Records:
    """The records of one store. Writing methods expect the caller to hold the lock of the key."""

    def __init__(self, root: Path, staging: Path, warnings: list[str], writable: bool) -> None:
        self._root, self._staging, self._warnings, self._writable = root, staging, warnings, writable

    def find(self, key: Key) -> tuple[Record, ...]:
        """Every readable record of `key`, the newest first. Changes nothing."""
        found = []
        for path in self._files(key):
            try:
                found.append(self._read(path, key))
            except FileNotFoundError:  # set aside by another process meanwhile
                continue
            except Unreadable as error:
                self._warn(f"cache record '{key}/{path.rpartition('/')[2]}' is not usable ({error})")
        return tuple(sorted(found, key=lambda record: record.created, reverse=True))

    def is_damaged(self, key: Key) -> bool:
        """Whether there was a record of `key` that cannot be used, here or set aside, and none that can."""
        folder = Path(self._folder(key))
        return not self.find(key) and folder.is_dir() and any(".json" in path.name for path in folder.iterdir())

    def all(self) -> Iterator[Found]:
        """Every record of the store, those that cannot be used too. Changes nothing."""
        for path in sorted(self._root.glob("??/*/*.json")):
            name = f"{path.parent.name}/{path.name}"
            try:
                yield Found(name, path, self._read(str(path), Key(path.parent.name)))
            except FileNotFoundError:
                continue
            except Unreadable as error:
                yield Found(name, path, None, str(error))

    def damaged(self) -> tuple[Path, ...]:
        """What was set aside, to be looked at."""
        return tuple(sorted(self._root.glob("??/*/*.json.damaged-*")))

    def publish(self, record: Record) -> Record:
        """Write `record` once; the one on disk when another with its key and conditions came first.

        Raises:
            StoreError: the store is read-only or full.
        """
        if not self._writable:
            raise StoreError(f"cache '{self._root.parent}': is read-only, nothing can be published", ELSEWHERE)
        path = self.path(record)
        with explained(self._root.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            self.set_unreadable_aside(record.key)
            is_first = self._create(path, encode(record))
        return record if is_first else self._read(str(path), record.key)

    def set_aside(self, record: Record) -> None:
        """Take a record whose object is lost or damaged out of the way; it is kept under another name."""
        path = self.path(record)
        try:
            is_there = encode(self._read(str(path), record.key)) == encode(record)  # as bytes: a NaN equals nothing
        except (Unreadable, FileNotFoundError):
            return
        if is_there:
            with explained(self._root.parent):
                _rename_aside(path)

    def name(self, record: Record) -> str:
        """What the record is called in claims, pins and refs."""
        return f"{record.key}/{file_name(record.conditions)}"

    def path(self, record: Record) -> Path:
        """Where the record lies."""
        return Path(self.place_of(record))

    def place_of(self, record: Record) -> str:
        """`path` as text, for those who ask for thousands."""
        return f"{self._folder(record.key)}/{file_name(record.conditions)}"

    def _folder(self, key: Key) -> str:
        return f"{self._root}/{key[:2]}/{key}"

    def _files(self, key: Key) -> list[str]:
        folder = self._folder(key)
        try:
            return [f"{folder}/{name}" for name in sorted(os.listdir(folder)) if name.endswith(".json")]  # noqa: PTH208
        except FileNotFoundError:
            return []
        except OSError as error:
            self._warn(f"cache records '{folder}' cannot be read ({error.strerror})")
            return []

    def _read(self, path: str, key: Key) -> Record:
        # Paths are text here: a plan reads thousands of records, and pathlib would take half of the time.
        try:
            if not stat.S_ISREG(os.lstat(path).st_mode):  # a link leads out of the store, a pipe would block
                raise Unreadable("it is no file")
            with open(path, "rb", buffering=0) as stream:
                record = decode(stream.read())
        except FileNotFoundError:
            raise
        except OSError as error:
            raise Unreadable(error.strerror or str(error)) from error
        if record.key != key or record.fingerprint.key != key:
            raise Unreadable("it belongs to another key")
        if not path.endswith(f"/{file_name(record.conditions)}"):
            raise Unreadable("it belongs to other conditions")
        return record

    def set_unreadable_aside(self, key: Key) -> None:
        """Take what is no record of `key` out of the way of the next one."""
        for path in self._files(key):
            try:
                self._read(path, key)
            except FileNotFoundError:
                continue
            except Unreadable:
                _rename_aside(Path(path))

    def _create(self, path: Path, data: bytes) -> bool:
        """Whether the file is made of `data`: the first writer wins."""
        descriptor, temporary = tempfile.mkstemp(prefix="record-", dir=self._staging)
        try:
            with open(descriptor, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fchmod(descriptor, 0o444)
                os.link(temporary, path)
                os.fsync(descriptor)  # ext4, XFS and btrfs bring the new name to the disk, too; else it is a miss
        except FileExistsError:
            return False
        finally:
            Path(temporary).unlink()
        return True

    def _warn(self, sentence: str) -> None:
        if sentence not in self._warnings:
            self._warnings.append(sentence)


def _rename_aside(path: Path) -> None:
    number = 1
    while os.path.lexists(aside := path.with_name(f"{path.name}.damaged-{number}")):
        number += 1
    path.rename(aside)
