"""`mobuild why RUN_A RUN_B`: what differs between two runs of a project, node by node."""

from __future__ import annotations

import json
from collections.abc import Sequence

from mobuild.conditions import difference
from mobuild.fingerprint import Change
from mobuild.job import Settings
from mobuild.store import Place, Record, Store
from mobuild.whereabouts import located


def between(asked: Sequence[Settings], old: str, new: str) -> int:
    """Print the changes from the run `old` to the run `new`; `latest` is the last one.

    Raises:
        StoreError: a run is not known, or what its nodes were made of is not in the cache any more.
    """
    settings = asked[0]
    store = Store.open(settings.cache, make=False)
    before, after = (store.runs.get(name, settings.project) for name in (old, new))
    rows = {place: _changes(store, place, before.get(place), after.get(place)) for place in [*after, *before]}
    told = {place: changes for place, changes in rows.items() if changes}
    if settings.format == "json":
        nodes = [
            {"node": _label(place), "changes": [change.document() for change in changes]}
            for place, changes in told.items()
        ]
        print(json.dumps({"schema": 1, "runs": [old, new], "nodes": nodes}, indent=2, ensure_ascii=False))
        return 0
    for place, changes in told.items():
        print(f"{_label(place)}:")
        for change in changes:
            print(f"  {change}")
    if not told:
        print("nothing differs")
    return 0


def _label(place: Place) -> str:
    return "{}/{} {}".format(*place)


def _changes(store: Store, place: Place, old: str | None, new: str | None) -> tuple[Change, ...]:
    """What differs in one node, by the names of its records: of its fingerprint, of what was observed beyond it, and
    then of its artifact."""
    if old is None or new is None:
        return (Change("node", "-" if old is None else "there", "-" if new is None else "there"),)
    if old == new:
        return ()
    before, after = (store.runs.record(store.records, place, name) for name in (old, new))
    keyed = after.fingerprint.changes_since(before.fingerprint)
    found = [*located(keyed, before.code_files | after.code_files, {}, store.listings.get), *_observed(before, after)]
    if before.artifact.digest != after.artifact.digest and not found:
        found.append(Change("artifact", before.artifact.digest, after.artifact.digest))
    return tuple(found)


def _observed(before: Record, after: Record) -> list[Change]:
    old, new = ({(each.kind, each.name): each.value for each in one.conditions} for one in (before, after))
    names = [name for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)]
    return [difference(*name, old.get(name, "-"), new.get(name, "-")) for name in names]
