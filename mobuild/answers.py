"""Answers as they are kept: what a full run says and, when it found nothing to do, the witnesses of that.

`noop` repeats them. This module is its other half, which only full runs import.
"""

# ruff: noqa: PTH103, PTH105, PTH108, PTH116, PTH118, PTH120
# (paths are text here, as in `noop`)

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection, Mapping

from mobuild import noop


class Recorder:
    """Hears what a full run says, and keeps it as an answer when the run found nothing to do."""

    def __init__(self, argv: list[str]) -> None:
        self.argv, self.since_ns = argv, time.time_ns()
        self._said: list[tuple[str, str]] = []
        self._offer: tuple[str, Collection[str], Collection[str], Collection[str], Mapping[str, str]] | None = None
        self._streams = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = _Tee("o", sys.stdout, self._said), _Tee("e", sys.stderr, self._said)

    def offer(
        self,
        folder: str,
        paths: Collection[str],
        own: Collection[str],
        variables: Collection[str],
        seen: Mapping[str, str],
    ) -> None:
        """The run found every step fresh. `own` are the files below build/ that it wrote itself, or as an earlier one
        left them; `seen` are stat tokens of files that an earlier run had looked into, as they were in this one."""
        self._offer = folder, paths, own, variables, seen

    def end(self, status: int) -> None:
        """Stop listening; keep the answer if there is one to trust."""
        sys.stdout, sys.stderr = self._streams
        if self._offer and status == 0:
            try:
                _save(self.argv, *self._offer, _lines(self._said), self.since_ns)
            except (OSError, ValueError):  # disk full, something in the way, a name that is no UTF-8
                return  # an answer saves time, and the run is done


recorder: Recorder | None = None  # of the command line that runs now


class _Tee:
    """A stream that passes everything on and notes what was written."""

    def __init__(self, channel: str, stream: object, said: list[tuple[str, str]]) -> None:
        self._channel, self._stream, self._said = channel, stream, said

    def write(self, text: str) -> int:
        self._said.append((self._channel, text))
        return self._stream.write(text)  # type: ignore[attr-defined, no-any-return]

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def _lines(said: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """(channel, line) of what was written, in order of the lines' ends."""
    open_lines = {"o": "", "e": ""}
    lines: list[tuple[str, str]] = []
    for channel, text in said:
        *whole, open_lines[channel] = (open_lines[channel] + text).split("\n")
        lines += [(channel, line) for line in whole]
    return lines


def _save(
    argv: list[str],
    folder: str,
    paths: Collection[str],
    own: Collection[str],
    variables: Collection[str],
    seen: Mapping[str, str],
    output: list[tuple[str, str]],
    since_ns: int,
) -> bool:
    """Keep an answer below `folder`; False when it could not be trusted later.

    `output` are ("o" or "e", line); `since_ns` is the time at which the run began: whatever changed after it
    may have changed after it was read, unless the run wrote it itself (`own`).
    """
    lines = [f"v\t{noop.variable(name)}\t{name}" for name in sorted(set(variables))]
    written = frozenset(own)
    for path in {*paths, *own}:
        token = seen.get(path)
        if token is None:
            token, changed_ns = _token(path)
            if changed_ns >= since_ns - _margin_ns(changed_ns) and path not in written:
                return False
        lines.append(f"s\t{token}\t{path}")
    lines += [f"{channel}\t{line}" for channel, line in output]
    text = "\n".join([noop.HEAD, *lines, "end"])
    if text.count("\n") != len(lines) + 1:  # a path or line with a line break in it
        return False
    target = os.path.join(folder, noop.FOLDER, noop.name(argv))
    os.makedirs(os.path.dirname(target), exist_ok=True)
    partial = f"{target}.{os.getpid()}"
    try:
        with open(partial, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.replace(partial, target)
    except (OSError, ValueError):
        os.unlink(partial)
        raise
    return True


def _token(path: str) -> tuple[str, int]:
    """(stat token, nanoseconds of the last change); an absent path has one too."""
    try:
        seen = os.stat(path)
    except OSError:
        return noop.ABSENT, 0
    return noop.token(seen), max(seen.st_ctime_ns, seen.st_mtime_ns)


def _margin_ns(changed_ns: int) -> int:
    """How coarse the file system's clock may be: two seconds where it shows whole seconds only."""
    return 2_000_000_000 if changed_ns and changed_ns % 1_000_000_000 == 0 else 100_000_000
