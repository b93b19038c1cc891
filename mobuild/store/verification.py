"""Reads objects again, whatever their stat tokens say, and takes the records of damaged ones out of the way.

That is what a hit does when a token does not hold; it finds here what escapes tokens: writes through a
shared memory map, and a disk that forgets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from mobuild.fingerprint import Digest
from mobuild.store import Store
from mobuild.store.record import Record
from mobuild.store.records import Found

State = Literal["whole", "damaged", "lost"]


@dataclass(frozen=True)
class Damage:
    """One thing that was wrong; `record` is what needs the object, None for a record that is none itself."""

    problem: Literal["damaged", "lost", "unreadable"]
    subject: str  # digest of an object, or name of a record
    part: str  # 'artifact', 'log' or 'record'; 'stray' for an object of no record
    record: Record | None
    reason: str = ""


class Verification:
    """One pass over a store, or over parts of it; each object is read once."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.read: dict[Digest, State] = {}
        self.size_bytes = 0

    def everything(self) -> Iterator[Damage]:
        """Read every object, strays too."""
        sizes = self.store.objects.blobs.sizes()
        needed: set[Digest] = set()
        for found in self.store.records.all():
            needed |= _digests(self.store, found.record) if found.record else set()
            yield from self.record(found)
        for digest in sorted(sizes.keys() - needed):
            if self._state(digest) == "damaged":
                yield Damage("damaged", digest, "stray", None)

    def records(self, keys: Iterable[str]) -> Iterator[Damage]:
        """Read what the records of `keys` need."""
        wanted = set(keys)
        yield from (damage for one in self.store.records.all() if one.key in wanted for damage in self.record(one))

    def record(self, found: Found) -> Iterator[Damage]:
        """Read what one record needs; set it aside when its artifact is not whole, or when it is no record."""
        record = found.record
        if record is None:
            yield Damage("unreadable", found.name, "record", None, found.reason)
            self._set_aside(found)
            return
        broken = [*self._broken(record, "artifact", self.store.objects.parts(record.artifact.digest))]
        yield from broken
        if record.log:
            yield from self._broken(record, "log", {record.log})
        if broken:
            self._set_aside(found)

    def strays(self) -> dict[Digest, int]:
        """Objects that neither a record nor a kept failure needs → their bytes."""
        needed = {each for one in self.store.records.all() if one.record for each in _digests(self.store, one.record)}
        needed |= self.store.linked()
        return {digest: size for digest, size in self.store.objects.blobs.sizes().items() if digest not in needed}

    def _broken(self, record: Record, part: str, digests: set[Digest]) -> Iterator[Damage]:
        for digest in sorted(digests):
            if (state := self._state(digest)) != "whole":
                yield Damage(state, digest, part, record)

    def _state(self, digest: Digest) -> State:
        if digest not in self.read:
            self.read[digest] = self._look(digest)
        return self.read[digest]

    def _look(self, digest: Digest) -> State:
        try:
            self.size_bytes += self.store.objects.path(digest).lstat().st_size
        except OSError:
            return "lost"
        return "whole" if self.store.objects.blobs.verify(digest) else "damaged"

    def _set_aside(self, found: Found) -> None:
        if not self.store.writable:
            return
        with self.store.lock(found.key):
            self.store.set_lost_aside(found.key)
            self.store.records.set_unreadable_aside(found.key)


def _digests(store: Store, record: Record) -> set[Digest]:
    return store.objects.parts(record.artifact.digest) | ({record.log} if record.log else set())
