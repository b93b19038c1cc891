"""What happened to one path while a node ran, told from events that name no process."""

from __future__ import annotations

from mobuild.observers.inotify import CLOSE_NOWRITE, CLOSE_WRITE, CREATE, DELETE, MODIFY, MOVED_FROM, MOVED_TO, OPEN

CHANGES = MODIFY | CREATE | DELETE | MOVED_FROM | MOVED_TO


class Sighting:
    """A path's events, numbered from 1 on in the order in which they happened; 0 stands for never.

    Opening says nothing of the purpose and closing does, but not which opening it ends. So a read may have begun
    with the first of the openings between which the path was never closed by all: rather too early than too late.
    """

    __slots__ = ("_began", "_is_modified", "_is_writer_gone", "_opens", "changed_at", "is_new", "read_at", "written_at")

    def __init__(self, is_new: bool) -> None:
        self.is_new = is_new  # it was not there when the node began
        self.read_at = 0  # the first time
        self.written_at = 0  # or made, replaced, removed: the first time
        self.changed_at = 0  # the last time
        self._opens = self._began = 0
        self._is_modified = self._is_writer_gone = False  # since all had closed it

    @property
    def is_input(self) -> bool:
        return self.read_at > 0 and not self.is_new

    @property
    def is_written_first(self) -> bool:
        return 0 < self.written_at < self.read_at

    def add(self, number: int, what: int) -> None:
        if what & CHANGES:
            self.written_at = self.written_at or number
            self.changed_at = number
            self._is_modified = self._is_modified or bool(what & MODIFY)
        if what & OPEN:
            self._began = self._began if self._opens else number
            self._opens += 1
        if what & (CLOSE_NOWRITE | CLOSE_WRITE):
            self._close(what)

    def end(self) -> None:
        """What is open still is read, as a map of memory may be, unless it is only written to, as a log."""
        if self._opens and (not self._is_modified or self._is_writer_gone):
            self.read_at = self.read_at or self._began

    def _close(self, what: int) -> None:
        # Without a beginning it was opened before the node began. Who may write and does not, has read.
        if what & CLOSE_NOWRITE or not self._is_modified:
            self.read_at = self.read_at or self._began
        self._is_writer_gone = self._is_writer_gone or bool(what & CLOSE_WRITE)
        self._opens = max(0, self._opens - 1)  # one event may have been two openings
        if not self._opens:
            self._is_modified = self._is_writer_gone = False
