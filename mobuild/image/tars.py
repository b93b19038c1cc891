"""Tars of layers, unpacked and read from their beginning to their end.

umoci writes some that end with the last byte of their last file, which podman takes; Python wants the whole block.
"""

from __future__ import annotations

import gzip
import tarfile
from contextlib import contextmanager
from typing import Any, BinaryIO, Iterator, Protocol

from mobuild.errors import ToolchainError

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"  # what they begin with
_BLOCK = 512


class Readable(Protocol):
    """What gives bytes in their order."""

    def read(self, size: int = -1, /) -> bytes: ...


def unpacked(stream: BinaryIO) -> Readable:
    """The plain bytes of a layer, from its beginning, whatever it is packed with.

    Raises:
        ToolchainError: it is packed with zstd, and `zstandard` is not installed.
    """
    begin = stream.read(len(ZSTD))
    stream.seek(0)
    if begin == ZSTD:
        return _Zstd(stream)
    return gzip.GzipFile(fileobj=stream) if begin.startswith(GZIP) else stream


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


class _Zstd:
    """A stream of zstd, which may have several frames, as those of podman have."""

    def __init__(self, stream: BinaryIO) -> None:
        try:
            import zstandard
        except ImportError as error:
            raise ToolchainError("the layer is packed with zstd", "pip install zstandard") from error
        self._reader: Any = zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True)
        self._error = zstandard.ZstdError

    def read(self, size: int = -1, /) -> bytes:
        try:
            return bytes(self._reader.read(size))
        except self._error as error:
            raise tarfile.ReadError(str(error)) from error
