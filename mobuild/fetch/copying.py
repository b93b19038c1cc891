"""Bytes on their way from a stream to a file: counted, digested, looked at."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import IO, Any

from mobuild.errors import StoreError
from mobuild.fetch import placeholders

_BLOCK_BYTES = 1 << 20


def copy(stream: Any, out: Path | None, shown: str, suffix: str, is_member: bool = False) -> tuple[str, int]:
    """SHA-256 and size in bytes of what `stream` gives, written to `out`.

    Raises:
        SourceError: it is only a placeholder.
        StoreError: it cannot be written.
    """
    if out is None:
        return _copy_to(None, stream, shown, suffix, is_member)
    try:
        target = open(out, "wb")  # noqa: SIM115 - closed below, which may fail as well
    except OSError as error:
        raise _unwritable(out, error) from error
    try:
        return _copy_to(target, stream, shown, suffix, is_member)
    finally:
        _close(target, out)


def _copy_to(target: IO[bytes] | None, stream: Any, shown: str, suffix: str, is_member: bool) -> tuple[str, int]:
    state, size_bytes, start = hashlib.sha256(), 0, b""
    for block in iter(lambda: stream.read(_BLOCK_BYTES), b""):
        if len(start) < placeholders.START_BYTES:
            start += block[: placeholders.START_BYTES]
        state.update(block)
        if target is not None:
            try:
                target.write(block)
            except OSError as error:
                raise _unwritable(Path(target.name), error) from error
        size_bytes += len(block)
    if is_member:
        placeholders.check_pointer(shown, start, is_remote=True)
        return state.hexdigest(), size_bytes
    if not size_bytes:
        raise placeholders.empty(shown, is_remote=True)
    placeholders.check(shown, start, suffix, is_remote=True)
    return state.hexdigest(), size_bytes


def _close(target: IO[bytes], out: Path) -> None:
    try:
        target.close()
    except OSError as error:
        raise _unwritable(out, error) from error


def _unwritable(out: Path, error: OSError) -> StoreError:
    return StoreError(f"'{out}': cannot be written: {error.strerror}", "make room there")
