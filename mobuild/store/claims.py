"""What running builds need, so that gc leaves it alone.

A run claims every record that it takes or makes, in a file of its own which it holds locked to its end; the
kernel frees the lock of a process that dies. Looking up and claiming is one act, and so is publishing and
claiming: both happen under a lock that all runs share and gc takes alone, so nothing is removed in between.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from mobuild.store import locks
from mobuild.store.disk import explained

_FOLDER, _GATE = "running", "gc.lock"
_NOTHING = nullcontext()


@dataclass(frozen=True)
class Running:
    """The builds that run on one machine."""

    claimed: frozenset[str]  # names of records
    since_ns: int | None  # when the oldest of them began, by the file system's clock; None without any


class Claims:
    """The claims of one process on one store; without `run` around it, nothing is claimed or waited for."""

    def __init__(self, local: Path) -> None:
        self._local = local
        self._descriptor: int | None = None
        self._pending: list[str] | None = None  # names of records, while this lasts throughout

    @contextmanager
    def throughout(self) -> Iterator[None]:
        """`keeping` for a whole plan, so that its thousand questions need not ask for the lock each, and its claims are
        written together; of one thread."""
        with self.keeping():
            self._pending = []
            try:
                yield
            finally:
                pending, self._pending = self._pending, None
                self._write(pending)

    @contextmanager
    def run(self) -> Iterator[None]:
        """From here on the process is a running build, whose claims hold until the end."""
        folder = self._local / _FOLDER
        with explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
            # Under the gate, lest gc takes the new file for that of a dead process before it is locked.
            with locks.shared(self._local / _GATE):
                descriptor, path = tempfile.mkstemp(dir=folder)
                locks.take(descriptor, Path(path))
                os.write(descriptor, f"{os.fstat(descriptor).st_mtime_ns}\n".encode())
        self._descriptor = descriptor
        try:
            yield
        finally:
            self._descriptor = None
            Path(path).unlink(missing_ok=True)
            os.close(descriptor)

    def keeping(self) -> AbstractContextManager[None]:
        """Nothing is removed while this lasts."""
        is_needed = self._descriptor is not None and self._pending is None
        return locks.shared(self._local / _GATE) if is_needed else _NOTHING

    def add(self, name: str) -> None:
        """Claim the record called `name`; the caller is `keeping`."""
        if self._pending is not None:
            self._pending.append(name)
        else:
            self._write([name])

    def _write(self, names: Sequence[str]) -> None:
        if names and self._descriptor is not None:
            with explained(self._local), open(self._descriptor, "ab", closefd=False) as stream:
                stream.writelines(f"{name}\n".encode() for name in names)

    @contextmanager
    def removing(self, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Nobody looks up or publishes while this lasts; waits for those that do."""
        with locks.held(self._local / _GATE, on_wait=on_wait):
            yield


def running(local: Path) -> Running:
    """What the builds claim that run now on the machine of `local`; forgets those that died."""
    claimed: set[str] = set()
    begun: list[int] = []
    for path in (local / _FOLDER).glob("*"):
        try:
            if locks.is_held(path):
                since_ns, *names = path.read_text().split()
                begun.append(int(since_ns))
                claimed.update(names)
            else:
                path.unlink()
        except (OSError, ValueError):  # it ended meanwhile, or is no file of ours
            continue
    return Running(frozenset(claimed), min(begun, default=None))
