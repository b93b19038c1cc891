"""Digests of files by their stat, so that an unchanged file is read once.

A file's token is (device, inode, size, mtime, ctime). ctime matters: an edit with its mtime put back
shows in nothing else. Git's racy-file rule holds: a file whose time stamps are not older than its
hashing could still change within the same tick, so its digest is not remembered yet. Writes through a
shared mmap may escape every token; only a full verification sees those.

The cache is sqlite in the machine's own part of the store and is disposable: damaged, locked or
unwritable, it falls back to memory and costs time only.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mobuild.errors import SourceError
from mobuild.fingerprint import Digest, digest_file, sha256_file

_FINE_TICK_NS = 100_000_000  # kernels stamp at 1–10 ms
_COARSE_TICK_NS = 2_000_000_000  # FAT stamps at 2 s, some network file systems at 1 s
_ATTEMPTS = 3
_SCHEMA = """CREATE TABLE IF NOT EXISTS files
    (place TEXT PRIMARY KEY, token TEXT NOT NULL, digest TEXT, sha256 TEXT) WITHOUT ROWID"""

Stat = Callable[[Path | str], os.stat_result]


class StatCache:
    """Remembers digests beside stat tokens; several threads and processes may share one file."""

    def __init__(self, path: Path | None, clock_ns: Callable[[], int] = time.time_ns, stat: Stat = os.stat) -> None:
        """`path` is the sqlite file; None keeps everything in memory."""
        self._clock_ns, self._stat = clock_ns, stat
        self._lock = threading.Lock()
        self._rows, self._is_reading = _connect(path), False
        self._confirmed: list[tuple[Sequence[str], str]] = []

    def digest(self, path: Path) -> Digest:
        """XXH3-128 of the content of `path`.

        Raises:
            SourceError: the file keeps changing while it is read.
            OSError: it cannot be read.
        """
        return Digest(self._remembered(path, "digest", digest_file))

    def sha256(self, path: Path) -> str:
        """SHA-256 of the content of `path`; raises as `digest` does."""
        return self._remembered(path, "sha256", sha256_file)

    def known(self, path: Path | str) -> Digest | None:
        """The remembered digest of `path` when its token still holds, without reading it."""
        found = self._get(self._stat(path), "digest")
        return Digest(found) if found else None

    def note(self, path: Path, digest: Digest, sha256: str = "") -> None:
        """Remember a digest that the caller vouches for: nobody else could have written to `path`."""
        self._put(self._stat(path), digest=digest, sha256=sha256 or None)

    def now_ns(self) -> int:
        """The time as `together` wants it."""
        return self._clock_ns()

    def together(self, paths: Sequence[str], since_ns: int | None = None) -> str:
        """One token of several files and folders; empty when one is absent. To be noted it is only what has a token
        with `since_ns`, when the caller began to look into them: it is empty when one may have changed since then."""
        try:
            all_seen = [self._stat(path) for path in paths]
        except OSError:
            return ""
        if since_ns is not None and any(_is_racy(seen, since_ns) for seen in all_seen):
            return ""
        return " ".join(map(token, all_seen))

    def noted(self, name: str) -> tuple[str, str]:
        """(token, meaning) of what `note_as` heard last of that name; both empty for an unknown one."""
        token, meaning = self._run("SELECT token, digest FROM files WHERE place = ?", (name,)) or ("", "")
        return token or "", meaning or ""

    def is_still(self, paths: Sequence[str], seen: str) -> bool:
        """Whether the token of `paths` is `seen`, which was noted once."""
        if not seen or self.together(paths) != seen:
            return False
        self._confirmed.append((paths, seen))
        return True

    def confirmed(self) -> dict[str, str]:
        """Path → token of all that `is_still` found as it was noted."""
        pairs = (zip(paths, seen.split(" "), strict=True) for paths, seen in self._confirmed)
        return dict(itertools.chain.from_iterable(pairs))

    @contextmanager
    def reading(self) -> Iterator[None]:
        """While this lasts, questions are answered from one look at the file, which else is locked for each of them;
        to write ends it."""
        self._run("BEGIN", ())
        self._is_reading = True
        try:
            yield
        finally:
            self._end_reading()

    def note_as(self, rows: Iterable[tuple[str, str, str]]) -> None:
        """Remember of each (name, token, meaning) what the files mean together as long as that is their token."""
        with self._at_once():
            for row in rows:
                self._run("INSERT OR REPLACE INTO files (place, token, digest) VALUES (?, ?, ?)", row)

    def forget(self, prefix: str) -> None:
        """Drop what was noted under names with that beginning, a word."""
        self._end_reading()
        self._run("DELETE FROM files WHERE place > ? AND place < ?", (f"{prefix} ", f"{prefix}!"))

    def close(self) -> None:
        with self._lock:
            self._rows.close()

    def _remembered(self, path: Path, column: str, read: Callable[[Path], str]) -> str:
        for _ in range(_ATTEMPTS):
            before, started_ns = self._stat(path), self._clock_ns()
            if found := self._get(before, column):
                return found
            value = read(path)
            if token(self._stat(path)) == token(before):
                if not _is_racy(before, started_ns):
                    self._put(before, **{column: value})
                return value
        raise SourceError(f"file '{path}': changes while it is read", "wait until it is written, then run again")

    def _get(self, seen: os.stat_result, column: str) -> str | None:
        row = self._run(f"SELECT {column} FROM files WHERE place = ? AND token = ?", _row(seen))
        return row[0] if row else None

    def _put(self, seen: os.stat_result, digest: str | None = None, sha256: str | None = None) -> None:
        self._end_reading()
        # An equal token keeps the other column; another token makes it void.
        self._run(
            "INSERT INTO files (place, token, digest, sha256) VALUES (?, ?, ?, ?) ON CONFLICT (place) DO UPDATE SET "
            "digest = coalesce(excluded.digest, CASE WHEN token = excluded.token THEN digest END), "
            "sha256 = coalesce(excluded.sha256, CASE WHEN token = excluded.token THEN sha256 END), "
            "token = excluded.token",
            (*_row(seen), digest, sha256),
        )

    @contextmanager
    def _at_once(self) -> Iterator[None]:
        """One write to the disk for many rows; others wait meanwhile."""
        self._end_reading()
        self._run("BEGIN IMMEDIATE", ())
        yield
        self._run("COMMIT", ())  # nothing to end where the disk refused meanwhile: then all is in memory

    def _end_reading(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._run("COMMIT", ())

    def _run(self, statement: str, values: Sequence[str | None]) -> tuple[str | None, ...] | None:
        with self._lock:
            try:
                row: tuple[str | None, ...] | None = self._rows.execute(statement, values).fetchone()
            except sqlite3.Error:  # full, locked for long, damaged: go on without what was remembered
                self._rows.close()
                self._rows = _memory()
                return None
        return row


def _connect(path: Path | None) -> sqlite3.Connection:
    for _ in range(2):
        if path is None:
            break
        try:
            return _file(path)
        except sqlite3.OperationalError:  # unwritable, or locked for long
            break
        except sqlite3.DatabaseError:  # damaged: the second try starts afresh
            _discard(path)
    return _memory()


def _file(path: Path) -> sqlite3.Connection:
    rows = sqlite3.connect(path, timeout=5, isolation_level=None, check_same_thread=False)
    try:
        rows.execute("PRAGMA journal_mode=WAL")
        rows.execute("PRAGMA synchronous=NORMAL")  # in WAL mode: no fsync for each entry
        rows.execute(_SCHEMA)
    except sqlite3.Error:
        rows.close()
        raise
    return rows


def _memory() -> sqlite3.Connection:
    rows = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    rows.execute(_SCHEMA)
    return rows


def _discard(path: Path) -> None:
    for ending in ("", "-wal", "-shm"):
        try:
            path.with_name(path.name + ending).unlink()
        except OSError:  # absent, or not ours to remove: then memory has to do
            continue


def _row(seen: os.stat_result) -> tuple[str, str]:
    # As text: inode numbers may pass 2**63, which sqlite's integers cannot hold.
    return f"{seen.st_dev}:{seen.st_ino}", token(seen)


def token(seen: os.stat_result) -> str:
    """What changes with every write to a file, save through a shared memory map."""
    return f"{seen.st_dev}:{seen.st_ino}:{seen.st_size}:{seen.st_mtime_ns}:{seen.st_ctime_ns}"


def written_ns(seen: str) -> int:
    """When a file was written, by its token."""
    return int(seen.split(":", 4)[3])


def _is_racy(seen: os.stat_result, hashed_ns: int) -> bool:
    is_coarse = seen.st_ctime_ns % 1_000_000_000 == 0
    tick_ns = _COARSE_TICK_NS if is_coarse else _FINE_TICK_NS
    return max(seen.st_mtime_ns, seen.st_ctime_ns) + tick_ns > hashed_ns
