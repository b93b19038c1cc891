"""Kind `command`: any program as a cached, watched, planned node.

Whatever writes a file can be a step of a build, an exporter of ONNX above all. The program's promise is
its output: status 0 without it is a failure.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from mobuild.errors import ConfigError, NodeFailed, did_you_mean
from mobuild.node import Built

_PLACEHOLDER = re.compile(r"\{(out|in\.[\w-]+)\}")
_SHOWN_LINES = 10


@dataclass(frozen=True)
class Command:
    """Run `cmd`, in which `{in.<role>}` and `{out}` stand for paths.

    Without `shell: true` no shell is involved: the words are split as a shell would, and a path is one
    word. `out` is the artifact's file name ending (`.onnx`), or `folder` for a folder that exists when
    the program starts, or empty. `env` is added to the environment; `cwd` is relative to the project.
    Files of the project that `cmd` names enter the key (`files`).
    """

    kind: ClassVar[str] = "command"
    revision: ClassVar[int] = 1
    isolated: ClassVar[bool] = True

    cmd: str
    out: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    shell: bool = False

    def __post_init__(self) -> None:
        if not self.cmd.strip():
            raise ConfigError("cmd: expected a command, found none", "write cmd: python export.py {out}")
        if self.out not in ("", "folder") and not self.out.startswith("."):
            raise ConfigError(f"out: expected a file name ending such as '.onnx', or 'folder', found {self.out!r}")
        _split(self.cmd)

    @property
    def suffix(self) -> str:
        return self.out if self.out.startswith(".") else ""

    @property
    def tools(self) -> tuple[str, ...]:
        return ("onnx",) if self.out == ".onnx" else ()

    def files(self, project: Path) -> tuple[Path, ...]:
        """Files below `project` that `cmd` names, sorted: scripts and data whose change is a change."""
        start, root = project / self.cwd, project.resolve()
        named = {(start / word).resolve() for word in _split(self.cmd) if not _PLACEHOLDER.search(word)}
        return tuple(sorted(path for path in named if path.is_file() and root in path.parents))

    def build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        if self.out == "folder":
            out.mkdir()
        tail = _run(self._words(inputs, out), self.shell, Path.cwd() / self.cwd, self.env)
        _assert_promised(out, self.out, self.cmd, tail)
        if self.out != ".onnx":
            return Built()
        from mobuild import onnxmodel

        return Built(onnx=onnxmodel.summary(out))

    def _words(self, inputs: Mapping[str, Path], out: Path) -> list[str]:
        paths = {f"in.{role}": str(path) for role, path in inputs.items()}
        paths["out"] = str(out)

        def place(found: re.Match[str]) -> str:
            path = _known(paths, found.group(1))
            return shlex.quote(path) if self.shell else path

        parts = [self.cmd] if self.shell else _split(self.cmd)
        return [_PLACEHOLDER.sub(place, part) for part in parts]


def _split(cmd: str) -> list[str]:
    try:
        return shlex.split(cmd)
    except ValueError as error:
        raise ConfigError(f"cmd: {cmd!r} cannot be split into words: {error}") from error


def _known(paths: Mapping[str, str], name: str) -> str:
    if name not in paths:
        raise ConfigError(
            f"cmd: {{{name}}} is no input of this node.{did_you_mean(name, paths)}",
            f"known: {', '.join('{' + each + '}' for each in sorted(paths))}; inputs are given by `needs`",
        )
    return paths[name]


def _run(words: list[str], shell: bool, cwd: Path, env: Mapping[str, str]) -> list[str]:
    """Run to the end, every line of output going to the log as it comes; the last lines.

    Raises:
        NodeFailed: the program cannot be started, or ends with another status than 0.
    """
    try:
        process = subprocess.Popen(
            words[0] if shell else words,
            shell=shell,
            cwd=cwd,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except OSError as error:
        missing = error.filename if error.filename is not None else words[0]
        raise NodeFailed(f"{words[0]!r} cannot be started: {error.strerror} ({missing})") from error
    with process:
        assert process.stdout is not None
        tail = _stream(process.stdout)
    if process.returncode:
        raise NodeFailed(f"{shlex.join(words)!r} {_ending(process.returncode)}", "\n".join(tail))
    return tail


def _stream(lines: Iterable[bytes]) -> list[str]:
    tail: deque[str] = deque(maxlen=_SHOWN_LINES)
    for line in lines:
        os.write(1, line)
        tail.append(line.decode(errors="replace").rstrip())
    return list(tail)


def _ending(status: int) -> str:
    return f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"


def _assert_promised(out: Path, kind: str, cmd: str, tail: list[str]) -> None:
    if kind == "folder" and not any(out.iterdir()):
        problem = "an empty folder"
    elif not out.exists():
        problem = "nothing"
    elif kind.startswith(".") and kind != ".onnx" and out.is_dir():
        problem = "a folder"
    else:
        return
    raise NodeFailed(
        f"command {cmd!r} ended with status 0, but left {problem} where its output {{out}} should be",
        "\n".join(["write the artifact to the path that {out} stands for", *tail]),
    )
