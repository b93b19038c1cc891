"""Kind `command`: any program as a cached, watched, planned node.

Whatever writes a file can be a step of a build, an exporter of ONNX above all. The program's promise is
its output: status 0 without it is a failure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from mobuild import programs
from mobuild.errors import ConfigError, NodeFailed
from mobuild.node import Built


@dataclass(frozen=True)
class Command:
    """Run `cmd`, in which `{in.<role>}` and `{out}` stand for paths.

    Without `shell: true` no shell is involved: the words are split as a shell would, and a path is one
    word. `out` is the artifact's file name ending (`.onnx`), or `folder` for a folder that exists when
    the program starts, or empty. `cwd` is relative to the project.
    Files of the project that `cmd` names enter the key (`files`).
    """

    kind: ClassVar[str] = "command"
    revision: ClassVar[int] = 2
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
        programs.split(self.cmd)

    @property
    def suffix(self) -> str:
        return self.out if self.out.startswith(".") else ""

    @property
    def tools(self) -> tuple[str, ...]:
        return ("onnx",) if self.out == ".onnx" else ()

    def files(self, project: Path) -> tuple[Path, ...]:
        """Files below `project` that `cmd` names, sorted: scripts and data whose change is a change."""
        return programs.named_files(self.cmd, project, self.cwd)

    def check_roles(self, roles: Collection[str]) -> None:
        """Refuse a placeholder in `cmd` that is no need of the node."""
        programs.check_roles(self.cmd, roles)

    def build(self, inputs: Mapping[str, Path], out: Path) -> Built:
        if self.out == "folder":
            out.mkdir()
        words = programs.words(self.cmd, inputs, out, self.shell)
        tail = programs.run(words, Path.cwd() / self.cwd, self.shell)
        _assert_promised(out, self.out, self.cmd, tail)
        if self.out != ".onnx":
            return Built()
        from mobuild import onnxmodel

        return Built(onnx=onnxmodel.summary(out))


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
