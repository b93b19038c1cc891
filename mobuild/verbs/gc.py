"""`mobuild gc`: remove from the cache what was not used for long, and what dead runs left."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from mobuild.errors import StoreError
from mobuild.job import Settings, Upkeep
from mobuild.report import messages
from mobuild.report.naming import Names
from mobuild.store import Store
from mobuild.store import gc as collector
from mobuild.store.disk import ELSEWHERE
from mobuild.store.gc import Entry, Limits, Survey
from mobuild.units import about, age_text

_MONTH_SECONDS = 30 * 86400
_OTHER = "within the limits"


def gc(settings: Sequence[Settings]) -> int:
    """Remove, or with `gc.dry_run=true` only say, what would go.

    Raises:
        StoreError: the cache is read-only, or a pin of it cannot be read.
    """
    as_json = settings[0].format == "json"
    wanted = settings[0].upkeep
    store = Store.open(settings[0].cache)
    if not store.writable:
        raise StoreError(f"cache '{store.root}': is read-only, nothing can be removed", ELSEWHERE)
    names = Names(store)
    limits = _limits(wanted)
    with store.claims.removing(lambda: messages.note("waits for a build that looks up or publishes")):
        found = collector.survey(store, limits)
        chosen = collector.choose(found, limits, time.time_ns())
        left = collector.without(found, chosen)
        if not wanted.dry_run:
            collector.remove(store, chosen, left)
    document = _document(found, chosen, left, wanted, names)
    if as_json:
        print(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        _print(document, limits)
    return 0


def _limits(wanted: Upkeep) -> Limits:
    """Without an age: a month, and none at all beside a size, which then decides alone."""
    age_seconds = wanted.age_seconds
    if age_seconds is None:
        age_seconds = _MONTH_SECONDS if wanted.size_bytes is None else 0
    rubbish_seconds = _MONTH_SECONDS if wanted.age_seconds is None else wanted.age_seconds
    return Limits(wanted.size_bytes, age_seconds, rubbish_seconds)


def _document(found: Survey, chosen: Sequence[Entry], left: Survey, wanted: Upkeep, names: Names) -> dict[str, Any]:
    now_ns = time.time_ns()
    kept = Counter(entry.kept or _OTHER for entry in left.entries)
    needed = frozenset(left.objects.keys() - left.strays)
    return {
        "schema": 1,
        "dry_run": wanted.dry_run,
        "removed": [_entry(entry, names, now_ns) for entry in chosen],
        "objects": len(left.strays),
        "stray_objects": len(found.strays),
        "freed_bytes": left.size_bytes(left.strays),
        "left_bytes": left.size_bytes(needed),
        "kept": dict(sorted(kept.items())),
        "leftovers": [str(path) for path in left.rubbish],
    }


def _entry(entry: Entry, names: Names, now_ns: int) -> dict[str, Any]:
    return {
        "name": names.label(entry.record),
        "kind": entry.record.fingerprint.kind,
        "record": entry.name,
        "size_bytes": entry.record.artifact.size_bytes,
        "idle_seconds": max(now_ns - entry.used_ns, 0) // 1_000_000_000,
        "seconds": entry.record.seconds,
    }


def _print(document: dict[str, Any], limits: Limits) -> None:
    would = "would " if document["dry_run"] else ""
    for one in document["removed"]:
        idle = age_text(one["idle_seconds"])
        print(
            f"{would}{'remove' if would else 'removed'}  {one['name']}: {about(one['size_bytes'])}, unused for {idle}"
        )
    counts = [f"records: {len(document['removed'])}", f"objects: {document['objects']}"]
    if document["stray_objects"]:
        counts[-1] += f" ({document['stray_objects']} of no record before)"
    if document["leftovers"]:
        counts.append(f"leftovers of runs, damage and projects: {len(document['leftovers'])}")
    print(f"{would}{'free' if would else 'freed'} {about(document['freed_bytes'])}: {', '.join(counts)}")
    kept = ", ".join(f"{why}: {count}" for why, count in document["kept"].items())
    print(f"{'would leave' if would else 'left'} {about(document['left_bytes'])}{f'; {kept}' if kept else ''}")
    if limits.size_bytes is not None and document["left_bytes"] > limits.size_bytes:
        messages.note("more than gc.size is left: pins, projects, running builds and a gc.age hold it")
