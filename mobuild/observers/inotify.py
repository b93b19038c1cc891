"""The kernel's word on what happens in folders: inotify(7), through the C library, which Python does not wrap.

It tells names and never processes; what that is good for is told in `folders`.
"""

from __future__ import annotations

import errno
import os
import struct
from typing import Iterator, NamedTuple

MODIFY, CLOSE_WRITE, CLOSE_NOWRITE, OPEN = 0x2, 0x8, 0x10, 0x20
MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x40, 0x80, 0x100, 0x200
OVERFLOW, IGNORED, IS_FOLDER = 0x4000, 0x8000, 0x40000000

# Not ACCESS, each single `read`: a long file by small pieces would fill the queue.
_MASK = MODIFY | CLOSE_WRITE | CLOSE_NOWRITE | OPEN | MOVED_FROM | MOVED_TO | CREATE | DELETE
_HEAD = struct.Struct("iIII")  # struct inotify_event: watch, mask, cookie, length of the name
_BUFFER_BYTES = 1 << 18


class Event(NamedTuple):
    """`name` lies in the folder of `watch`; it is empty where the event is the folder's own, or a single file's. Both
    halves of a move have the same `move`."""

    watch: int
    what: int
    move: int
    name: str


class Inotify:
    """One queue of events. Every method raises OSError where the kernel, or the C library, will not."""

    def __init__(self) -> None:
        import ctypes

        self._library = ctypes.CDLL(None, use_errno=True)
        self.descriptor = self._call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)

    def watch(self, path: str) -> int:
        """The number of the watch for what is at `path`: the same one again, by whatever path, for the same thing."""
        return self._call("inotify_add_watch", self.descriptor, os.fsencode(path), _MASK)

    def events(self) -> Iterator[Event]:
        """All that are in the queue, in the order in which it happened."""
        while True:
            try:
                data = os.read(self.descriptor, _BUFFER_BYTES)
            except BlockingIOError:
                return
            place = 0
            while place < len(data):
                watch, what, move, size = _HEAD.unpack_from(data, place)
                place += _HEAD.size + size
                yield Event(watch, what, move, os.fsdecode(data[place - size : place].rstrip(b"\0")))

    def close(self) -> None:
        os.close(self.descriptor)

    def _call(self, name: str, *arguments: object) -> int:
        function = getattr(self._library, name, None)
        if function is None:
            raise OSError(errno.ENOSYS, f"the C library has no {name}")
        result = int(function(*arguments))
        if result < 0:
            import ctypes

            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result
