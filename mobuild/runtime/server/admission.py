"""Who may use an engine: so many at once, so many waiting, in the order of their coming.

Engines are lent, not shared, since not every runtime lets threads share one; those of a runtime that does are one
engine, given several times.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import contextmanager
from typing import Iterator, Sequence

from ..runner import Engine


class Full(Exception):
    """All engines are lent, and all places of the queue are taken."""


class Admission:
    """A pool of engines with a bounded queue before it."""

    def __init__(self, engines: Sequence[Engine], places: int) -> None:
        self._free, self._places = list(engines), places
        self._waiting: deque[_Turn] = deque()
        self._lock = threading.Lock()
        self.concurrency = len(engines)

    @contextmanager
    def engine(self) -> Iterator[Engine]:
        """An engine for the time of a `with`, after those who came before.

        Raises:
            Full: there is no place to wait.
        """
        engine = self._take()
        try:
            yield engine
        finally:
            self._give_back(engine)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> int:
        return self.concurrency - len(self._free)

    def _take(self) -> Engine:
        with self._lock:
            if self._free:
                return self._free.pop()
            if len(self._waiting) >= self._places:
                raise Full
            turn = _Turn()
            self._waiting.append(turn)
        return turn.wait()

    def _give_back(self, engine: Engine) -> None:
        """To the first who waits, so that nobody who comes later can be quicker."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().come(engine)
            else:
                self._free.append(engine)


class _Turn:
    """One who waits."""

    def __init__(self) -> None:
        self._came = threading.Lock()
        self._came.acquire()
        self._engine: Engine | None = None

    def come(self, engine: Engine) -> None:
        self._engine = engine
        self._came.release()

    def wait(self) -> Engine:
        with self._came:
            assert self._engine is not None
            return self._engine
