"""The store: what was built, under digests and keys, shared by all projects and processes of a machine.

`Store.open` lays it out as `cache/README.md` describes. Objects hold content, records say which work made
it, and the machine's own part (`local/<machine>`) holds what means nothing elsewhere: stat tokens, locks,
staging, refs, claims. Nobody outside this package knows a path inside it.
"""

from __future__ import annotations

import os
import platform
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from mobuild.errors import StoreError
from mobuild.fingerprint import Digest, Key, digest_bytes
from mobuild.store import locks
from mobuild.store.claims import Claims
from mobuild.store.determinism import Rebuilds
from mobuild.store.disk import ELSEWHERE, explained
from mobuild.store.failures import Failures
from mobuild.store.index import Index
from mobuild.store.listings import Listings
from mobuild.store.objects import Artifact, Objects
from mobuild.store.pinned import Pins
from mobuild.store.records import Condition, Record, Records
from mobuild.store.refs import Ref, Refs
from mobuild.store.runs import Place, Runs
from mobuild.store.stat_cache import StatCache
from mobuild.store.uses import Uses

__all__ = ["Artifact", "Condition", "Objects", "Place", "Record", "Records", "Ref", "Refs", "StatCache", "Store"]

_FORMAT = 1
# https://bford.info/cachedir: backup programs leave such folders out.
_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# This folder is a cache of mobuild.\n"


@dataclass(frozen=True)
class Store:
    """One cache folder, open. A read-only one serves hits; only publishing and locking raise."""

    root: Path
    local: Path
    writable: bool
    objects: Objects
    records: Records
    index: Index
    files: StatCache
    refs: Refs
    runs: Runs
    uses: Uses
    claims: Claims
    rebuilds: Rebuilds
    pins: Pins
    failures: Failures
    listings: Listings
    warnings: list[str] = field(default_factory=list)
    """Sentences about healed damage, to be shown once."""

    @staticmethod
    def open(root: Path, make: bool = True) -> Store:
        """The store at `root`, made when it is new; without `make` a new one is empty and cannot be written.

        Raises:
            StoreError: it cannot be made, or a newer mobuild wrote it.
        """
        root = root.absolute()
        local = root / "local" / _machine()
        writable = (make or (root / "format").exists()) and _lay_out(root, local)
        warnings: list[str] = []
        files = StatCache(local / "files.sqlite" if writable else None)
        objects = Objects(root, local, files, warnings, writable)
        records = Records(root / "records", local / "staging", warnings, writable)
        return Store(
            root,
            local,
            writable,
            objects,
            records,
            Index(files, objects, records),
            files,
            Refs(local / "refs", warnings, writable),
            Runs(local / "runs", warnings),
            Uses(local / "used", writable),
            Claims(local),
            Rebuilds(local / "rebuilds"),
            Pins(root / "pins"),
            Failures(local / "failed", local / "staging"),
            Listings(local / "listings", objects, writable),
            warnings,
        )

    def lock(
        self, key: Key, called_off: threading.Event = locks.NEVER, on_wait: Callable[[], None] = lambda: None
    ) -> AbstractContextManager[None]:
        """Hold the lock of `key`; waits while another thread or process works on it, until `called_off`.

        Calls `on_wait` when there is something to wait for. Not re-entrant.
        """
        if not self.writable:
            raise StoreError(f"cache '{self.root}': is read-only, nothing can be built into it", ELSEWHERE)
        return locks.held(self.local / "locks" / key, called_off, on_wait)

    def note_log(self, key: Key, log: Path) -> None:
        """Let others find the log of the build that holds the lock of `key`, while it goes on."""
        with suppress(OSError):  # a full disk has worse to tell
            (self.local / "locks" / key).write_bytes(os.fsencode(log))

    def running_log(self, key: Key) -> Path | None:
        """The log of the build that holds the lock of `key` now; None when nobody builds it."""
        lock = self.local / "locks" / key
        try:
            return Path(os.fsdecode(lock.read_bytes())) if locks.is_held(lock) else None
        except OSError:  # never built here
            return None

    def set_lost_aside(self, key: Key) -> None:
        """Take the records of `key` without their object out of the way: the bytes of a new build may be others.

        The caller holds the lock of the key and keeps gc out.
        """
        for record in self.records.find(key):
            if not self.objects.holds(record.artifact.digest):
                self.records.set_aside(record)

    @property
    def own(self) -> tuple[Path, ...]:
        """All that belongs to the store in its folder, which may lie among the user's data."""
        return tuple(self.root / name for name in _OWN)

    def machines(self) -> list[Path]:
        """The parts of all machines that built into this store."""
        return sorted(path for path in (self.root / "local").glob("*") if path.is_dir())

    def linked(self, rubbish: Collection[Path] = ()) -> set[Digest]:
        """Objects that are inputs of kept failures of any machine, those in `rubbish` left out."""
        machines = (machine for machine in self.machines() if machine not in rubbish)
        kept = (Failures(machine / "failed", machine / "staging") for machine in machines)
        return {digest for failures in kept for digest in failures.linked(rubbish)}

    @property
    def scratch(self) -> Path:
        """The folder of what builders remember from build to build (`mobuild.scratch`); made at the first need."""
        return self.local / "scratch"

    def staging(self) -> Path:
        """A new empty folder, for this user only, on the file system of the objects."""
        with explained(self.root):
            return Path(tempfile.mkdtemp(prefix="node-", dir=self.local / "staging"))


def _lay_out(root: Path, local: Path) -> bool:
    """Make what is missing; whether the store can be written."""
    if (root / "format").exists():
        _check_format(root)
    folders = [root, root / "objects", root / "records", local, *(local / name for name in _LOCAL)]
    try:
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        _write_once(root / "CACHEDIR.TAG", _TAG)
        _write_once(root / "format", f"{_FORMAT}\n")
    except OSError as error:
        if (root / "format").exists():
            return False
        raise StoreError(f"cache '{root}': cannot be made: {error.strerror or error}", ELSEWHERE) from error
    return all(os.access(folder, os.W_OK | os.X_OK) for folder in folders)


_OWN = ("CACHEDIR.TAG", "README.md", ".gitignore", "format", "local", "objects", "pins", "records")
_LOCAL = ("locks", "staging", "refs")


def _check_format(root: Path) -> None:
    try:
        text = (root / "format").read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"cache '{root}': its 'format' cannot be read: {error}", ELSEWHERE) from error
    if text != str(_FORMAT):
        raise StoreError(
            f"cache '{root}': expected format {_FORMAT}, found {text!r}",
            f"another version of mobuild wrote it: update mobuild, or {ELSEWHERE}",
        )


def _write_once(path: Path, text: str) -> None:
    if path.exists():
        return
    with _renamed(path) as temporary:
        temporary.write_text(text)


@contextmanager
def _renamed(path: Path) -> Iterator[Path]:
    """A temporary name that becomes `path`, so that a second process never reads half a file."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    yield temporary
    temporary.replace(path)


def _machine() -> str:
    """A short name for this machine that survives a boot and tells nothing about it."""
    try:
        identity = Path("/etc/machine-id").read_text().strip()
    except (OSError, UnicodeDecodeError):
        identity = ""
    return digest_bytes(f"{identity or platform.node()} {platform.machine()}".encode())[:12]
