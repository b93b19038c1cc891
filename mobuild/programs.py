"""Runs programs of the user's: a command line with placeholders for the paths of inputs and outputs.

Whoever runs one, a node of kind `command` or an evaluation script of a validation, finds here how its words
are split, which files of the project it names, and how its output reaches the log. What the program has
to leave behind is for the caller to check.
"""

from __future__ import annotations

import os
import re
import select
import shlex
import signal
import subprocess
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path

from mobuild.errors import ConfigError, NodeFailed, did_you_mean

_PLACEHOLDER = re.compile(r"\{(out|in\.[\w-]+)\}")
_SHOWN_LINES = 10
_SHOWN_BYTES = 500  # of a line, its end
_ASK_SECONDS = 0.1


def split(cmd: str) -> list[str]:
    """The words of `cmd`, as a shell would split them.

    Raises:
        ConfigError: a quotation that does not end.
    """
    try:
        return shlex.split(cmd)
    except ValueError as error:
        raise ConfigError(f"cmd: {cmd!r} cannot be split into words: {error}") from error


def named_files(cmd: str, project: Path, cwd: str = "") -> tuple[Path, ...]:
    """Files below `project` that `cmd` names, sorted: scripts and data whose change is a change."""
    start = str(project / cwd)
    places = (os.path.join(start, word) for word in split(cmd) if not _PLACEHOLDER.search(word))  # noqa: PTH118
    found = {Path(place).resolve() for place in places if os.path.isfile(place)}  # noqa: PTH113 - most words are none
    root = project.resolve() if found else project
    return tuple(sorted(path for path in found if root in path.parents))


def check_roles(cmd: str, roles: Iterable[str]) -> None:
    """Refuse a placeholder of `cmd` that stands for none of the node's `roles`.

    Raises:
        ConfigError: names it and lists the known ones.
    """
    known = {"out", *(f"in.{role}" for role in roles)}
    for name in _PLACEHOLDER.findall(cmd):
        if name not in known:
            raise ConfigError(
                f"cmd: {{{name}}} is no input of this node.{did_you_mean(name, known)}",
                f"known: {', '.join('{' + each + '}' for each in sorted(known))}; inputs are given by `needs`",
            )


def words(cmd: str, inputs: Mapping[str, Path], out: Path, shell: bool = False) -> list[str]:
    """`cmd` with `{in.<role>}` and `{out}` replaced by paths: its words, or one text for a shell.

    Raises:
        ConfigError: a placeholder that is no input (`check_roles`).
    """
    check_roles(cmd, inputs)
    paths = {f"in.{role}": str(path) for role, path in inputs.items()}
    paths["out"] = str(out)

    def place(found: re.Match[str]) -> str:
        path = paths[found.group(1)]
        return shlex.quote(path) if shell else path

    return [_PLACEHOLDER.sub(place, part) for part in ([cmd] if shell else split(cmd))]


def run(words: list[str], cwd: Path, shell: bool = False) -> list[str]:
    """Run to the end, every line of output going to the log as it comes; the last lines.

    Raises:
        NodeFailed: the program cannot be started, or ends with another status than 0.
    """
    try:
        process = subprocess.Popen(
            words[0] if shell else words,
            shell=shell,
            cwd=cwd,
            env=dict(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except OSError as error:
        missing = error.filename if error.filename is not None else words[0]
        raise NodeFailed(f"{words[0]!r} cannot be started: {error.strerror} ({missing})") from error
    with process:
        tail = _stream(process)
    if process.returncode:
        raise NodeFailed(f"{shlex.join(words)!r} {_ending(process.returncode)}", "\n".join(tail))
    return tail


def _stream(process: subprocess.Popen[bytes]) -> list[str]:
    """Pass the output on as it comes; its last lines, fit to be shown.

    Ends with the program: a child that it left in the background may hold the pipe for ever.
    """
    assert process.stdout is not None
    pipe = process.stdout.fileno()
    tail: deque[bytes] = deque([b""], maxlen=_SHOWN_LINES + 1)
    while True:
        has_ended = process.poll() is not None
        if select.select([pipe], [], [], 0 if has_ended else _ASK_SECONDS)[0]:
            chunk = os.read(pipe, 1 << 16)
            if not chunk:
                break
            os.write(1, chunk)
            first, *rest = chunk.split(b"\n")
            tail[-1] = (tail[-1] + first)[-_SHOWN_BYTES:]
            tail.extend(line[-_SHOWN_BYTES:] for line in rest)
        elif has_ended:
            break
    return [_shown(line) for line in tail if line.strip()][-_SHOWN_LINES:]


def _shown(line: bytes) -> str:
    """A line of output as text; a binary one would upset the terminal."""
    text = line.decode(errors="replace").rstrip()
    strange = sum(not (one.isprintable() or one in "\t\x1b") for one in text)
    return text if strange * 4 <= len(text) else f"({len(line)} bytes that are no text)"


def _ending(status: int) -> str:
    return f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
