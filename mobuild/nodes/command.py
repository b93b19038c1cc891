"""Kind `command`: any program as a cached, watched, planned node.

Whatever writes a file can be a step of a build, an exporter of ONNX above all. The program's promise is
its output: status 0 without it is a failure.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from mobuild import programs
from mobuild.errors import ConfigError, NodeFailed, NothingMade
from mobuild.node import Built

_INSIDE = "{out}"


@dataclass(frozen=True)
class Command:
    """Run `cmd`, in which `{in.<role>}` and `{out}` stand for paths.

    Without `shell: true` no shell is involved: the words are split as a shell would, and a path is one
    word. `out` is the artifact's file name ending (`.onnx`), or `folder` for a folder that exists when
    the program starts, or empty. `cwd` is relative to the project, or `{out}`, the folder that it makes.
    Files of the project that `cmd` names enter the key (`files`).
    """

    kind: ClassVar[str] = "command"
    revision: ClassVar[int] = 4
    isolated: ClassVar[bool] = True

    cmd: str
    out: str = ""
    cwd: str = ""
    shell: bool = False

    def __post_init__(self) -> None:
        if not self.cmd.strip():
            raise ConfigError("cmd: expected a command, found none", "write cmd: python export.py {out}")
        if self.out not in ("", "folder") and not self.out.startswith("."):
            raise ConfigError(f"out: expected a file name ending such as '.onnx', or 'folder', found {self.out!r}")
        if self._is_inside and self.out != "folder":
            raise ConfigError(
                f"cwd: {_INSIDE} is the folder that the node makes, and out is {self.out!r}", "out: folder"
            )
        programs.split(self.cmd)
        if not self.shell:
            programs.refuse_operators(self.cmd, "write shell: true")

    @property
    def suffix(self) -> str:
        return self.out if self.out.startswith(".") else ""

    @property
    def tools(self) -> tuple[str, ...]:
        return ("onnx",) if self.out == ".onnx" else ()

    def files(self, project: Path) -> tuple[Path, ...]:
        """Files below `project` that `cmd` names, sorted: scripts and data whose change is a change."""
        return programs.named_files(self.cmd, project, self._start, self.shell)

    def interpreter(self, project: Path) -> Path | None:
        """The Python that `cmd` names by its path; None where it leaves that to the node."""
        return programs.interpreter(self.cmd, project, self._start)

    def check_roles(self, roles: Collection[str]) -> None:
        """Refuse a placeholder in `cmd` that is no need of the node."""
        programs.check_roles(self.cmd, roles)

    @property
    def hints(self) -> tuple[str, ...]:
        """What may be meant otherwise than it is read; told where the node is stale, or fails."""
        return tuple(filter(None, [programs.glued_operators(self.cmd)])) if not self.shell else ()

    def build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        try:
            return self._build(inputs, out)
        except NodeFailed as error:
            error.hint = "\n".join(filter(None, [*self.hints, error.hint]))
            raise

    def _build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        if self.out == "folder":
            out.mkdir()
        words = programs.words(self.cmd, inputs, out, self.shell)
        tail = programs.run(words, out if self._is_inside else Path.cwd() / self.cwd, self.shell)
        if out.is_symlink() and out.is_file():  # inputs are links into the store, and `cp -r` copies them as such
            real = out.resolve()
            out.unlink()
            shutil.copyfile(str(real), str(out))
        _assert_promised(out, self.out, self.cmd, tail)
        if self.out == ".onnx":
            from mobuild import onnxmodel

            return Built(onnx=onnxmodel.summary(out))
        is_empty = out.is_file() and not out.stat().st_size
        return Built(warnings=(f"command {self.cmd!r} left an empty file",) if is_empty else ())

    @property
    def _is_inside(self) -> bool:
        """Whether the program runs in the folder that it makes."""
        return self.cwd == _INSIDE

    @property
    def _start(self) -> str:
        """Where the relative paths of `cmd` begin, as far as they can be paths of the project."""
        return "" if self._is_inside else self.cwd


def _assert_promised(out: Path, kind: str, cmd: str, tail: list[str]) -> None:
    problem = _broken_promise(out, kind)
    if problem:
        raise NothingMade(
            f"command {cmd!r} ended with status 0, but left {problem} where its output {{out}} should be",
            "\n".join(["write the artifact to the path that {out} stands for", *tail]),
        )


def _broken_promise(out: Path, kind: str) -> str:
    """What lies at `out` in place of the artifact; empty when that is one."""
    if out.is_symlink():
        return f"a link to {os.readlink(str(out))!r}"
    if out.is_dir():
        if kind.startswith(".") and kind != ".onnx":
            return "a folder"
        return "" if any(out.iterdir()) else "an empty folder"
    if not out.exists():
        return "nothing"
    if not out.is_file():
        return "neither a file nor a folder"
    if kind == "folder":
        return "a file"
    return "an empty file" if kind == ".onnx" and not out.stat().st_size else ""
