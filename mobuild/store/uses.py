"""When each record was last a hit, which decides what gc removes first.

Kept beside the records, in the times of empty files: a record's own times are what repeated answers watch.
Noted at the end of a run, where that found build/ as it was left once a day; a repeated answer notes nothing. A ref
keeps what both stand on.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


class Uses:
    """The uses of one store as one machine saw them."""

    def __init__(self, root: Path, writable: bool) -> None:
        self._root, self._writable = root, writable

    def note(self, names: Iterable[str]) -> None:
        """The records called `names` are in use now. A disk that refuses costs precision only."""
        if not self._writable:
            return
        with suppress(OSError):
            self._root.mkdir(exist_ok=True)
            for name in names:
                try:
                    os.utime(self._place(name))  # a fifth of the time of a `touch`
                except FileNotFoundError:
                    self._path(name).touch()

    def last_ns(self, name: str) -> int:
        """When the record was last used; 0 when that is not known."""
        try:
            return self._path(name).stat().st_mtime_ns
        except OSError:
            return 0

    def forget(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return Path(self._place(name))

    def _place(self, name: str) -> str:
        return f"{self._root}/{name.replace('/', '.').removesuffix('.json')}"
