"""Tars of layers, read from their beginning to their end.

umoci writes some that end with the last byte of their last file, which podman takes; Python wants the whole block.
"""

from __future__ import annotations

import tarfile
from contextlib import contextmanager
from typing import Iterator, Protocol

_BLOCK = 512


class Readable(Protocol):
    """What gives bytes in their order."""

    def read(self, size: int = -1, /) -> bytes: ...


@contextmanager
def opened(stream: Readable) -> Iterator[tarfile.TarFile]:
    """The plain tar in `stream`; each entry's content is to be read before the next one."""
    with tarfile.open(fileobj=_Padded(stream), mode="r|") as archive:  # type: ignore[call-overload]
        yield archive


class _Padded:
    """A stream and, where it ends within a block, the rest of that."""

    def __init__(self, stream: Readable) -> None:
        self._stream, self._bytes = stream, 0

    def read(self, size: int) -> bytes:
        found = self._stream.read(size)
        if not found:
            found = bytes(-self._bytes % _BLOCK)
        self._bytes += len(found)
        return found
