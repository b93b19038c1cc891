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
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from mobuild.errors import ConfigError, NodeFailed, did_you_mean
from mobuild.signals import signal_name

_PLACEHOLDER = re.compile(r"\{(\{)?(out|project|in\.[\w-]+)\}(?(1)\})")  # with two braces it stands for itself
_INTERPRETER = re.compile(r"python(\d+(\.\d+)?)?")
_OF_THE_NODE = ("python", "python3")  # the words for whichever Python runs the node
_SYSTEM = ("/bin", "/usr/bin", "/usr/local/bin")  # where a Python has every other program of the system beside it
_QUOTING = frozenset("'\"\\")
_OPERATOR = re.compile(r"(\d*|&)(>>?|<)(&\d|/dev/null)?|\|[|&]?|&&?|;")  # POSIX sh, 2.10 Shell Grammar, and bash's
_GLUED = re.compile(r"^;|;$|&&|\|\||^\||\|$|[^&]&$|^\d*(>>?|<)[^&=]")  # a & within is more often of an URL
_QUOTED = re.compile("'[^']*'|\"[^\"]*\"")
_SHOWN_WORDS = 3
_NO_MODULE = re.compile(r"(?:ModuleNotFound|Import)Error: No module named '?([\w.]+)'?")
_SHOWN_LINES = 10
_SHOWN_BYTES = 500  # of a line, its end
_ASK_SECONDS = 0.1
_LOGGED_BYTES = 32 << 20  # of a program's output from its beginning, and from its end:
_LAST_BYTES = 1 << 20


def split(cmd: str) -> list[str]:
    """The words of `cmd`, as a shell would split them.

    Raises:
        ConfigError: a quotation that does not end.
    """
    try:
        return list(_split(cmd))
    except ValueError as error:
        raise ConfigError(f"cmd: {cmd!r} cannot be split into words: {error}") from error


def refuse_operators(cmd: str, remedy: str = "write cmd: sh -c '…'") -> None:
    """Refuse an operator of a shell that stands bare in `cmd`, which no shell reads; quoted, it is a word.

    Raises:
        ConfigError: names it, and what hands `cmd` to a shell (`remedy`).
    """
    if operator := next(filter(_OPERATOR.fullmatch, _as_written(cmd)), ""):
        raise ConfigError(
            f"cmd: {operator!r} would reach the program as a word, since no shell reads cmd",
            f"{remedy};\nas a word for the program it is quoted: '{operator}'",
        )


def glued_operators(cmd: str) -> str:
    """A hint about operators of a shell that are glued to words of `cmd` (`a;`, `a&&b`, `>file`), unquoted: no shell
    reads them, and a program may want them. Empty where there are none."""
    bare = (_QUOTED.sub("", word) for word in _as_written(cmd))
    found = [word for word in dict.fromkeys(bare) if _GLUED.search(word)]
    if not found:
        return ""
    words = ", ".join(repr(word) for word in found[:_SHOWN_WORDS])
    return f"cmd: no shell reads it, so the program gets {words} as it stands; shell: true hands cmd to a shell"


def _as_written(cmd: str) -> list[str]:
    """The words of `cmd` with their quotation marks."""
    try:
        return list(_split(cmd)) if _is_simple(cmd) else shlex.split(cmd, posix=False)
    except ValueError:  # escaped quotation marks, which this way of reading does not know
        return []


def _is_simple(cmd: str) -> bool:
    return cmd.isascii() and cmd.isprintable() and not _QUOTING.intersection(cmd)


@lru_cache(maxsize=None)
def _split(cmd: str) -> tuple[str, ...]:
    """shlex reads letter by letter, and a plan asks several times of a thousand commands."""
    return tuple(cmd.split() if _is_simple(cmd) else shlex.split(cmd))


def named_files(cmd: str, project: Path, cwd: str = "", shell: bool = False) -> tuple[Path, ...]:
    """Files below `project` that `cmd` names, sorted: scripts and data whose change is a change.

    Alone, behind the `=` of an option, or as a module that a Python runs (`-m tools.export`).
    """
    start = f"{project / cwd if cwd else project}/"  # as text: asked of each command of a plan
    found: set[Path] = set()
    for word in _parts(cmd, shell):
        if "{" in word:
            word = word.replace("{project}", str(project))
        for part in (word, word.partition("=")[2]) if "=" in word else (word,):
            if not part or ("{" in part and _has_placeholder(part)):
                continue
            place = part if part[0] == "/" else start + part
            # most words are no file, which `access` tells without making an exception
            if "\0" not in place and os.access(place, os.F_OK) and os.path.isfile(place):  # noqa: PTH113
                found.add(Path(place).resolve())
    if not found:
        return ()
    root = project.resolve()
    return tuple(sorted(path for path in found if root in path.parents))


@lru_cache(maxsize=1024)
def _has_placeholder(word: str) -> bool:
    return _PLACEHOLDER.search(word) is not None


def interpreter(cmd: str, project: Path, cwd: str = "") -> Path | None:
    """The Python that `cmd` names: `./old/bin/python` by its path, or `python3.9` by a bare name, to be looked up on
    PATH. None where it leaves that to the node."""
    if "python" not in cmd or (first := split(cmd)[0]) in _OF_THE_NODE or "python" not in first:
        return None
    if _PLACEHOLDER.search(first) or not _INTERPRETER.fullmatch(Path(first).name):
        return None
    return project / cwd / first if "/" in first else Path(first)


def is_python(cmd: str) -> bool:
    """Whether `cmd` starts a Python, whichever it is."""
    return "python" in cmd and _INTERPRETER.fullmatch(Path(split(cmd)[0]).name) is not None


def check_roles(cmd: str, roles: Iterable[str]) -> None:
    """Refuse a placeholder of `cmd` that stands for none of the node's `roles`.

    Raises:
        ConfigError: names it and lists the known ones.
    """
    known = {"out", "project", *(f"in.{role}" for role in roles)}
    for brace, name in _PLACEHOLDER.findall(cmd):
        if name not in known and not brace:
            raise ConfigError(
                f"cmd: {{{name}}} is no input of this node.{did_you_mean(name, known)}",
                f"known: {', '.join('{' + each + '}' for each in sorted(known))}; inputs are given by `needs`",
            )


def words(
    cmd: str, inputs: Mapping[str, Path], out: Path, shell: bool = False, project: Path | None = None
) -> list[str]:
    """`cmd` with `{in.<role>}`, `{out}` and `{project}` (the working directory unless it is given) replaced by paths:
    its words, or one text for a shell. `{{out}}` is the text `{out}`.

    Raises:
        ConfigError: a placeholder that is no input (`check_roles`).
    """
    check_roles(cmd, inputs)
    paths = {f"in.{role}": str(path) for role, path in inputs.items()}
    paths.update(out=str(out), project=str(project or Path.cwd()))

    def place(found: re.Match[str]) -> str:
        if found.group(1):
            return found.group()[1:-1]
        path = paths[found.group(2)]
        return shlex.quote(path) if shell else path

    return [_PLACEHOLDER.sub(place, part) for part in ([cmd] if shell else split(cmd))]


def run(words: list[str], cwd: Path, shell: bool = False) -> list[str]:
    """Run to the end, its output going to the log as it comes; the last lines.

    `python` is the Python that runs the node, and what lies beside it is found before other programs of its name.

    Raises:
        NodeFailed: the program cannot be started, or ends with another status than 0.
    """
    started = [sys.executable, *words[1:]] if words[0] in _OF_THE_NODE and not shell else words
    variables = {**os.environ, "PATH": _search_path()}
    try:
        process = subprocess.Popen(
            started[0] if shell else started,
            shell=shell,
            cwd=cwd,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except OSError as error:
        raise _not_started(words[0], cwd, variables["PATH"], error) from error
    with process:
        tail = _stream(process)
    if process.returncode:
        message = f"{_shown_command(words, shell)!r} {_ending(process.returncode, shell)}"
        raise NodeFailed(message, "\n".join([*_of_python(started, shell, tail), *tail]))
    return tail


def _of_python(words: list[str], shell: bool, tail: Iterable[str]) -> list[str]:
    """What to say where a Python ended for a module that it does not have."""
    found = next(filter(None, map(_NO_MODULE.match, tail)), None)
    if not found:
        return []
    python = words[0] if not shell and _INTERPRETER.fullmatch(Path(words[0]).name) else "the Python that cmd starts"
    return [
        f"{python} has no module {found.group(1)!r}: install it there, or run the node where it is installed: "
        "python: ./venv/bin/python at the node"
    ]


def _parts(cmd: str, shell: bool) -> list[str]:
    """The words of `cmd` apart from a shell's operators; a module that a Python runs as its file."""
    if shell:
        found = shlex.shlex(cmd, posix=True, punctuation_chars=True)
        found.whitespace_split, found.commenters = True, ""
        words = list(found)
    else:
        words = split(cmd)
    if "-m" in words:
        modules = [module for before, module in zip(words, words[1:]) if before == "-m"]
        words += [module.replace(".", "/") + ending for module in modules for ending in (".py", "/__main__.py")]
    return words


def _search_path() -> str:
    folder, path = str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)
    return path if folder in _SYSTEM else os.pathsep.join([folder, path])


def _not_started(program: str, cwd: Path, path: str, error: OSError) -> NodeFailed:
    """Why the system did not start `program`, which it tells by a number alone."""
    place = cwd / program if "/" in program else Path(shutil.which(program, path=path) or "")
    hint = ""
    if not cwd.is_dir():
        reason, hint = f"there is no folder '{cwd}' to run it in", "cwd: is relative to the project"
    elif "/" not in program and not place.name:
        reason, hint = "there is no such program on PATH", f"PATH: {path}"
    elif not place.exists():
        reason, hint = f"there is no file '{place}'", "without cwd, paths are relative to the project"
    elif isinstance(error, PermissionError):
        reason = "it may not be executed"
        hint = f"chmod +x {shlex.quote(program)}, or name what runs it: cmd: python {shlex.quote(program)} …"
    elif first := _shebang(place):
        reason, hint = f"its first line asks for {first!r}, which is not there", "name the program that runs it in cmd"
        if first.endswith("\r"):
            hint = f"its lines end in CR LF, as on Windows: sed -i 's/\\r$//' {shlex.quote(program)}"
    else:
        reason = f"it is no program for this machine ({error.strerror})"
        hint = f"a script begins with a line such as #!/bin/sh, or is named after what runs it: cmd: sh {program} …"
    return NodeFailed(f"{program!r} cannot be started: {reason}", hint)


def _shebang(script: Path) -> str:
    with open(script, "rb") as stream:
        line = stream.read(256).partition(b"\n")[0]
    return line[2:].lstrip().decode(errors="replace") if line.startswith(b"#!") else ""


def _stream(process: subprocess.Popen[bytes]) -> list[str]:
    """Pass the output on as it comes; its last lines, fit to be shown.

    Ends with the program: a child that it left in the background may hold the pipe for ever.
    """
    assert process.stdout is not None
    pipe = process.stdout.fileno()
    tail: deque[bytes] = deque([b""], maxlen=_SHOWN_LINES + 1)
    log = _Log()
    while True:
        has_ended = process.poll() is not None
        if select.select([pipe], [], [], 0 if has_ended else _ASK_SECONDS)[0]:
            chunk = os.read(pipe, 1 << 16)
            if not chunk:
                break
            log.write(chunk)
            first, *rest = chunk.split(b"\n")
            tail[-1] = (tail[-1] + first)[-_SHOWN_BYTES:]
            tail.extend(line[-_SHOWN_BYTES:] for line in rest)
        elif has_ended:
            break
    log.close()
    return [_shown(line) for line in tail if line.strip()][-_SHOWN_LINES:]


class _Log:
    """Descriptor 1, for the beginning of the output as it comes and for its end: a program that writes without end
    must not fill the disk."""

    def __init__(self) -> None:
        self._room = _LOGGED_BYTES
        self._last = b""
        self._left_out = 0

    def write(self, chunk: bytes) -> None:
        now, later = chunk[: self._room], chunk[self._room :]
        _write(now)
        self._room -= len(now)
        if later and not self._last:
            _write(f"\n(more than {_LOGGED_BYTES >> 20} MiB: the rest follows when the program ends, its end alone)\n")
        kept = self._last + later
        if len(kept) > 2 * _LAST_BYTES:  # cut now and then, not at every chunk
            self._left_out += len(kept) - _LAST_BYTES
            kept = kept[-_LAST_BYTES:]
        self._last = kept

    def close(self) -> None:
        if self._left_out:
            _write(f"({self._left_out} bytes are left out)\n")
        _write(self._last)


def _write(data: bytes | str) -> None:
    data = data.encode() if isinstance(data, str) else data
    while data:
        data = data[os.write(1, data) :]


def _shown(line: bytes) -> str:
    """A line of output as text; a binary one would upset the terminal."""
    text = line.decode(errors="replace").rstrip()
    strange = sum(not (one.isprintable() or one in "\t\x1b") for one in text)
    return text if strange * 4 <= len(text) else f"({len(line)} bytes that are no text)"


def _shown_command(words: list[str], shell: bool) -> str:
    return words[0] if shell else shlex.join(words)


def _ending(status: int, shell: bool) -> str:
    if status < 0:
        return f"was killed by {signal_name(-status)}"
    if shell and status > 128 and (name := signal_name(status - 128)).startswith("SIG"):  # so sh(1) passes it on
        return f"ended with status {status}: what the shell ran was killed by {name}"
    return f"ended with status {status}"
