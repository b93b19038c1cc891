"""Which records were found right, with whole objects, so that a plan of thousands need not read them again.

Record files are the truth. What stands here is a copy of a record beside the stat tokens of its file, its object and,
where it has conditions, its folder, and counts only while all are what they were: an edit, a lost object, another
record of the key that may hold where this one does not changes one of them. Disposable, as the rest of the stat cache.
"""

from __future__ import annotations

import os

from mobuild.fingerprint import Fingerprint, Key
from mobuild.store.objects import Objects
from mobuild.store.record import Record, brief, read_again
from mobuild.store.records import Records
from mobuild.store.stat_cache import StatCache

_WORD = "record"


class Index:
    """The index of one store; what is noted is written down by `keep`, once for a whole plan."""

    def __init__(self, files: StatCache, objects: Objects, records: Records) -> None:
        self._files, self._objects, self._records = files, objects, records
        self._rows: list[tuple[str, str, str]] = []

    def get(self, key: Key, fingerprint: Fingerprint) -> Record | None:
        """The only record of `key`, which is that of `fingerprint`, while it and its object are known to be right."""
        seen, text = self._files.noted(f"{_WORD} {key}")
        try:
            record = read_again(text, fingerprint) if seen else None
        except (ValueError, TypeError, KeyError):  # of another version of mobuild
            return None
        return record if record and self._files.is_still(self._places(record), seen) else None

    def note(self, record: Record, since_ns: int) -> None:
        """The record and its object were found right; the caller began to look at `since_ns`.

        Only where there is one record and one file to watch; the others are read each time.
        """
        seen = "" if record.artifact.is_folder else self._files.together(self._places(record), since_ns)
        if seen and _is_alone(self._records.place_of(record)):
            self._rows.append((f"{_WORD} {record.key}", seen, brief(record)))

    def keep(self) -> None:
        """Write down what was noted."""
        if self._rows:
            self._files.note_as(self._rows)
            self._rows = []

    def forget(self) -> None:
        """Drop everything, since some records are gone for good."""
        self._files.forget(_WORD)

    def _places(self, record: Record) -> tuple[str, ...]:
        path, whole = self._records.place_of(record), self._objects.blobs.place_of(record.artifact.digest)
        if not record.conditions:  # it holds, whatever others come beside it
            return path, whole
        return path.rpartition("/")[0], path, whole


def _is_alone(path: str) -> bool:
    """Whether the folder of a key holds one record, which lies at `path`."""
    try:
        return sum(name.endswith(".json") for name in os.listdir(path.rpartition("/")[0])) == 1  # noqa: PTH208
    except OSError:  # gone meanwhile
        return False
