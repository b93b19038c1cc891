"""Whether finished work can be taken from the store: a record of the key that holds, and a whole object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mobuild.conditions import Surroundings, broken
from mobuild.fingerprint import Change, Digest, Fingerprint, Key
from mobuild.store import Record, Store


@dataclass(frozen=True)
class Miss:
    """Why no record serves: the conditions of the nearest one that do not hold, or an artifact that is gone."""

    changes: tuple[Change, ...] = ()
    lost: Digest | None = None  # of that artifact


def look_up(store: Store, key: Key, fingerprint: Fingerprint, here: Callable[[], Surroundings]) -> Record | Miss:
    """The record to take for `key`, that of `fingerprint`, or why there is none; `here` is asked where it matters."""
    nearest: tuple[Change, ...] = ()
    lost: Digest | None = None
    with store.claims.keeping():
        since_ns, known = store.files.now_ns(), store.index.get(key, fingerprint)
        for record in [known] if known else store.records.find(key):
            missed = broken(record.conditions, here(), store.files) if record.conditions else ()
            if not missed and (known or store.objects.has(record.artifact)):
                if not known:
                    store.index.note(record, since_ns)
                store.claims.add(store.records.name(record))
                return record
            lost = lost or (None if missed else record.artifact.digest)
            if not nearest or len(missed) < len(nearest):
                nearest = missed
    return Miss(nearest, lost)
