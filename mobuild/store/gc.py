"""What to remove from a store, and its removal.

First to go is what was not used for longest and is cheapest to build again. Never removed: what a pin holds,
what a ref of an existing project stands for, what a running build claims. A record goes before its objects,
so a process that dies in between leaves an object too many and never a record without its artifact.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mobuild.fingerprint import Digest
from mobuild.store import Store
from mobuild.store.claims import Running, running
from mobuild.store.record import Record
from mobuild.store.refs import Refs
from mobuild.store.uses import Uses

_NS = 1_000_000_000
_MACHINE_SECONDS = 30 * 86400  # other machines may be at work now and then, whatever the age that is asked for
_QUICKEST_SECONDS = 0.001  # to build again; what took no time at all is not infinitely cheap


@dataclass(frozen=True)
class Limits:
    """How much to remove."""

    size_bytes: int | None  # remove until this is left; None: all that is old enough
    age_seconds: float  # what was used more recently stays
    rubbish_seconds: float  # what is kept to be looked at (damage, logs) stays as long


@dataclass(frozen=True)
class Entry:
    """One record with what hangs on it."""

    name: str
    path: Path
    record: Record
    used_ns: int
    digests: frozenset[Digest]  # of the objects that it needs
    kept: str  # why it must stay; empty when it need not


@dataclass(frozen=True)
class Survey:
    """What lies in a store, all of it or as a plan to remove it."""

    entries: tuple[Entry, ...]
    objects: Mapping[Digest, int]  # digest → bytes
    rubbish: tuple[Path, ...]  # staging of dead runs, old logs, damage and failures, refs of projects that are gone
    linked: frozenset[Digest] = frozenset()  # objects that are inputs of failed builds which stay

    @property
    def strays(self) -> frozenset[Digest]:
        """Objects that nothing needs."""
        needed = {digest for entry in self.entries for digest in entry.digests}
        return frozenset(self.objects.keys() - needed - self.linked)

    def size_bytes(self, digests: frozenset[Digest]) -> int:
        return sum(self.objects.get(digest, 0) for digest in digests)


def survey(store: Store, limits: Limits) -> Survey:
    """Look at everything; the caller keeps others from changing it.

    Raises:
        StoreError: a pin cannot be read.
    """
    runs = {machine: running(machine) for machine in store.machines()}
    gone = _gone_machines(store, limits.rubbish_seconds, runs)
    machines = [machine for machine in runs if machine not in gone]
    kept = _kept(store, machines, runs)
    uses = [Uses(machine / "used", writable=False) for machine in machines]
    entries = []
    for found in store.records.all():
        if found.record is None:
            continue
        record = found.record
        used_ns = max(found.path.stat().st_mtime_ns, *(one.last_ns(found.name) for one in uses))
        digests = store.objects.parts(record.artifact.digest) | ({record.log} if record.log else set())
        entries.append(Entry(found.name, found.path, record, used_ns, frozenset(digests), kept.get(found.name, "")))
    rubbish = (*gone, *_rubbish(store, limits.rubbish_seconds, runs[store.local]))
    return Survey(tuple(entries), store.objects.blobs.sizes(), rubbish, frozenset(store.linked(rubbish)))


def choose(found: Survey, limits: Limits, now_ns: int) -> tuple[Entry, ...]:
    """The records to remove, in order."""
    users = Counter(digest for entry in found.entries for digest in entry.digests)
    size_bytes = found.size_bytes(frozenset(users))
    oldest_ns = now_ns - round(limits.age_seconds * _NS)
    free = [entry for entry in found.entries if not entry.kept and entry.used_ns <= oldest_ns]
    chosen = []
    for entry in sorted(free, key=lambda entry: (-_uselessness(entry, now_ns), entry.name)):
        if limits.size_bytes is not None and size_bytes <= limits.size_bytes:
            break
        chosen.append(entry)
        users.subtract(entry.digests)
        size_bytes -= found.size_bytes(frozenset(digest for digest in entry.digests if not users[digest]))
    return tuple(chosen)


def without(found: Survey, chosen: Sequence[Entry]) -> Survey:
    """The survey as it is once the records `chosen` are gone; what they leave behind is among the strays."""
    names = {entry.name for entry in chosen}
    return replace(found, entries=tuple(one for one in found.entries if one.name not in names))


def remove(store: Store, chosen: Sequence[Entry], left: Survey) -> None:
    """Remove records, then the objects that no record needs, then the rubbish."""
    for entry in chosen:
        entry.path.unlink(missing_ok=True)
        store.uses.forget(entry.name)
        store.rebuilds.forget(entry.record.key)
        _remove_empty(entry.path.parent)
    if chosen:
        store.index.forget()
    for digest in sorted(left.strays):
        _discard(store.objects.path(digest))
    for path in left.rubbish:
        _discard(path)


def _uselessness(entry: Entry, now_ns: int) -> float:
    """How long it was not used, times the bytes that a second of building it again buys."""
    idle_seconds = max(now_ns - entry.used_ns, 0) / _NS + 1
    return idle_seconds * max(entry.record.artifact.size_bytes, 1) / max(entry.record.seconds, _QUICKEST_SECONDS)


def _kept(store: Store, machines: Sequence[Path], runs: Mapping[Path, Running]) -> dict[str, str]:
    """Name of a record → why it must stay."""
    kept: dict[str, str] = {}
    for machine in machines:
        kept |= dict.fromkeys(runs[machine].claimed, "in use by a running build")
        for noted in Refs(machine / "refs", [], writable=False).all():
            if not _is_gone(noted.project):
                kept[noted.ref.record] = "the last build of a project"
    for pin in store.pins.all():
        kept |= dict.fromkeys((one.record for one in pin.artifacts), "pinned")
    return kept


def _gone_machines(store: Store, seconds: float, runs: Mapping[Path, Running]) -> list[Path]:
    """The parts of machines that have not built here for long: a container is another machine each time it starts."""
    oldest_ns = time.time_ns() - round(max(seconds, _MACHINE_SECONDS) * _NS)
    others = [machine for machine, found in runs.items() if machine != store.local and found.since_ns is None]
    return [one for one in others if all(_is_older(path, oldest_ns) for path in (one, *one.iterdir()))]


def _rubbish(store: Store, seconds: float, runs: Running) -> Iterator[Path]:
    now_ns = time.time_ns()
    old_ns = now_ns - round(seconds * _NS)
    # Whatever a living run stages, it began after the run did.
    yield from _older(store.local / "staging", runs.since_ns or now_ns)
    yield from _older(store.local / "quarantine", old_ns)
    for unused in ("runs", "environments", "listings"):
        yield from _older(store.local / unused, min(old_ns, runs.since_ns or now_ns))
    yield from (path for path in store.records.damaged() if _is_older(path, old_ns))
    yield from (path for path in store.failures.kept() if _is_older(path, old_ns))
    refs = {noted.path: noted.project for noted in store.refs.all()}
    yield from (path for path, project in refs.items() if _is_gone(project) and _is_older(path, old_ns))


def _is_gone(project: Path) -> bool:
    try:
        return not project.is_dir()
    except OSError:  # a mount that does not answer, no permission: nobody knows, so it counts as there
        return False


def _older(folder: Path, than_ns: int) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if _is_older(path, than_ns))


def _is_older(path: Path, than_ns: int) -> bool:
    try:
        return path.lstat().st_mtime_ns < than_ns
    except FileNotFoundError:  # a running build tidied up meanwhile
        return False


def _discard(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _remove_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:  # another record of the key, or one set aside
        return
