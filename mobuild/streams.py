"""Standard output and standard error that may be closed, full, or a pipe whose reader has left.

A write that fails ends no run: the work goes on without a listener, and the command line says at its end
that its results could not be written. Imports `os` and `sys` alone, since every no-op comes by here.
"""

from __future__ import annotations

import os
import sys

_CLOSED = OSError("it is closed")


class Guarded:
    """A stream that keeps its first failure in `lost`, and drops what comes after."""

    def __init__(self, stream: object) -> None:
        self._stream = stream
        self.lost: OSError | None = None

    def write(self, text: str) -> int:
        try:
            if self._stream is None:
                raise _CLOSED
            if text and self.lost is None:
                self._write(text)
        except OSError as error:
            self._lose(error)
        return len(text)

    def flush(self) -> None:
        try:
            if self._stream is not None and self.lost is None:
                self._stream.flush()  # type: ignore[attr-defined]
        except OSError as error:
            self._lose(error)

    def isatty(self) -> bool:
        return self._stream is not None and self._stream.isatty()  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def _write(self, text: str) -> None:
        stream: object = self._stream
        try:
            stream.write(text)  # type: ignore[attr-defined]
        except UnicodeEncodeError as error:  # a terminal that is not of Unicode has no arrows
            known = text.encode(error.encoding, "backslashreplace").decode(error.encoding)
            stream.write(known)  # type: ignore[attr-defined]

    def _lose(self, error: OSError) -> None:
        """Note the failure, and let what is still in the buffer go nowhere when the interpreter ends."""
        self.lost = self.lost or error
        try:
            number = self._stream.fileno()  # type: ignore[attr-defined]
        except (AttributeError, OSError):  # closed, or no file at all
            return
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)


class Guard:
    """Stands in for both streams from here to `end`."""

    def __init__(self) -> None:
        _occupy()
        self._streams = sys.stdout, sys.stderr
        self.out, self._err = Guarded(sys.stdout), Guarded(sys.stderr)
        sys.stdout, sys.stderr = self.out, self._err

    def end(self, status: int) -> int:
        """The status of a command line that ends with `status`: 1 when what it had to say was lost.

        A reader that left (`| head -1`) has what it wanted and hears nothing of it.
        """
        self.out.flush()
        lost = self.out.lost
        if lost and not isinstance(lost, BrokenPipeError):
            print(f"error: standard output cannot be written: {lost.strerror or lost}", file=sys.stderr)
        self._err.flush()
        sys.stdout, sys.stderr = self._streams
        return status or int(lost is not None)


def _occupy() -> None:
    """Put something in the place of closed streams, or the next file to be opened is taken for one of them."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        os.close(number)
