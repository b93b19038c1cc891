"""One reading of a file for both of its digests, while it is copied, if need be, and brought to the disk.

SHA-256 takes longer than all the rest, so it goes on in a thread of its own, and the disk works meanwhile.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import cycle
from pathlib import Path

from mobuild.errors import StoreError
from mobuild.fingerprint import Digester
from mobuild.store.disk import sync
from mobuild.store.listing import MAGIC

SMALL_BYTES = _CHUNK = 1 << 20
_BUFFERS = 4
_SYNCED_BYTES = 8 << 20  # at a time, so that little is left at the end


def measure(source: Path) -> Digester:
    """Measure a file that nobody else writes to, and bring it to the disk meanwhile.

    Raises:
        StoreError: it begins as a folder listing does.
    """
    with ThreadPoolExecutor(1) as aside, open(source, "rb", buffering=0) as stream:
        written = aside.submit(sync, source)
        measured = _read(stream.readinto, source)
        written.result()
    return measured


def measure_copy(source: Path, destination: Path) -> Digester:
    """Copy `source` into the empty file `destination`, measure what is written there, and bring it to the disk.

    Raises:
        StoreError: it begins as a folder listing does.
    """
    with (
        open(source, "rb", buffering=0) as stream,
        open(destination, "r+b", buffering=0) as copy,
        ThreadPoolExecutor(1) as disk,
    ):
        offset, written = 0, disk.submit(os.fdatasync, copy.fileno())

        def pass_on(buffer: memoryview) -> int:
            nonlocal offset, written
            count = os.sendfile(copy.fileno(), stream.fileno(), offset, len(buffer))
            count = os.preadv(copy.fileno(), [buffer[:count]], offset) if count else 0
            offset += count
            if written.done() and offset % _SYNCED_BYTES == 0:
                written.result()
                written = disk.submit(os.fdatasync, copy.fileno())
            return count

        measured = _read(pass_on, source)
        written.result()
    sync(destination)
    return measured


def measure_bytes(data: bytes, source: Path) -> Digester:
    """Measure the content of a small file, where threads would take longer than all else.

    Raises:
        StoreError: it begins as a folder listing does.
    """
    _refuse_listing(data, source)
    measured = Digester()
    measured.update(data)
    return measured


def _read(read: Callable[[memoryview], int | None], source: Path) -> Digester:
    """Measure what `read` puts into the buffers that it is given, until that is nothing."""
    measured = Digester()
    pending: deque[Future[None]] = deque()
    buffers = [memoryview(bytearray(_CHUNK)) for _ in range(_BUFFERS)]
    with ThreadPoolExecutor(1) as aside:
        for buffer in cycle(buffers):
            if len(pending) == len(buffers):
                pending.popleft().result()  # this buffer was read to its end
            count = read(buffer)
            if not count:
                break
            data = buffer[:count]
            if not measured.size_bytes:
                _refuse_listing(data, source)
            measured.update_quick(data)
            pending.append(aside.submit(measured.update_strong, data))
        for one in pending:
            one.result()
    return measured


def _refuse_listing(data: bytes | memoryview, source: Path) -> None:
    if bytes(data[: len(MAGIC)]) == MAGIC:
        raise StoreError(f"file '{source}': begins as a folder listing of mobuild, and cannot be kept")
