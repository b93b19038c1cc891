"""The answer to a command line that has nothing to do, repeated while the world has not changed.

A full run that found every step fresh leaves its output in `build/.answers/`, together with its *witnesses*:
stat tokens of every file and folder that it looked at (absent ones too), and the variables that it read
(`answers`). The next run of the same words compares them and, when all are equal, says the same again, without
Hydra. Any doubt takes the full path. Imports nothing but `os`, `sys` and `xxhash`, which is most of what it saves.
"""

# ruff: noqa: PTH109, PTH110, PTH116, PTH120
# (pathlib costs more than the rest of this module)

from __future__ import annotations

import os
import sys

FOLDER = ".answers"
HEAD = "mobuild answers 1"
ABSENT = "-"
WHOLE = "*"  # as a variable: the names of all


def replay(argv: list[str]) -> int | None:
    """Print the answer to `argv` again and return its status; None when the full path must be taken."""
    try:
        path = _find(os.getcwd(), name(argv))  # the folder may be gone
        if path is None:
            return None
        with open(path, encoding="utf-8") as stream:
            lines = stream.read().split("\n")
        if lines[0] != HEAD or lines[-1] != "end":
            return None
        said = [line for line in lines[1:-1] if line[0] not in "sv"]
        if not all(_holds(line) for line in lines[1:-1] if line[0] in "sv"):
            return None
    except (OSError, ValueError, IndexError):
        return None
    for line in said:
        print(line[2:], file=sys.stdout if line[0] == "o" else sys.stderr)
    return 0


def name(argv: list[str]) -> str:
    """The file name of the answer to these words, here, under this interpreter."""
    import xxhash

    words = [os.getcwd(), sys.executable, *argv, "", *sys.path]
    return xxhash.xxh3_128_hexdigest("\0".join(words).encode("utf-8", "surrogateescape"))


def token(seen: os.stat_result) -> str:
    """What changes with every write to a file."""
    return f"{seen.st_dev}:{seen.st_ino}:{seen.st_size}:{seen.st_mtime_ns}:{seen.st_ctime_ns}"


def variable(name: str) -> str:
    """A variable as its digest, since its value may be a secret."""
    import xxhash

    value = "\0".join(sorted(os.environ)) if name == WHOLE else os.environ.get(name)
    return ABSENT if value is None else xxhash.xxh3_128_hexdigest(value.encode("utf-8", "surrogateescape"))


def _find(start: str, name: str) -> str | None:
    """The answer below the `build/` of this folder or of one above it."""
    folder = start
    while True:
        path = f"{folder.rstrip('/')}/build/{FOLDER}/{name}"
        if os.path.exists(path):
            return path
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def _holds(line: str) -> bool:
    kind, noted, subject = line.split("\t", 2)
    if kind != "s":
        return noted == variable(subject)
    try:
        return noted == token(os.stat(subject))
    except OSError:
        return noted == ABSENT
