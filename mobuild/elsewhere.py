"""What this machine cannot build, and what a machine that can has: the question behind `here=true`. And which programs
cannot be started at all, for `check`.

Asked while planning, so it looks for packages, programs and cards and imports none of them.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mobuild import programs
from mobuild.distributions import normalized
from mobuild.errors import NodeFailed
from mobuild.graph import NodeSpec
from mobuild.toolchain import Environment
from mobuild.versions import version_key

_NEEDED = ("torch",)  # tools without which a kind cannot run at all; of the others, some are for special cases

_READERS = re.compile(r"python(\d+(\.\d+)?)?|(ba|da|z|k)?sh|perl|ruby|node")  # run the file that their first word names


def lacking(spec: NodeSpec, environment: Environment) -> str:
    """Why a node cannot be built here and where it can, in one sentence; empty when it can."""
    backend = getattr(spec.node, "backend", None) if spec.node.kind == "build_engine" else None
    if backend is not None:
        return _of_backend(backend, spec, environment)
    if spec.node.kind == "command":
        return _of_program(spec)
    missing = [tool for tool in spec.node.tools if tool in _NEEDED and tool not in environment.distributions]
    return f"{missing[0]} is not installed here; it is built where {missing[0]} is" if missing else ""


def _of_backend(backend: Any, spec: NodeSpec, environment: Environment) -> str:
    is_here = normalized(backend.distribution) in environment.distributions or backend.runtime in environment.modules
    if not is_here and not (spec.python is None and importlib.util.find_spec(backend.runtime)):
        return f"{backend.runtime} is not installed here; it is built {_where(backend)}"
    found, wanted = environment.distributions.get(backend.distribution, ""), getattr(backend, "version", "")
    if found and wanted and version_key(found)[: len(version_key(wanted))] != version_key(wanted):
        return f"{backend.runtime} is {found} here; it is built {_where(backend)}"
    library = getattr(backend, "library", "")
    if library and not any(Path(folder, library).exists() for folder in environment.paths):
        return f"there is no {Path(library).name} here; it is built {_where(backend)}"
    reason = backend.runs_here() if getattr(backend, "builds_on_card", False) else ""
    return f"{reason}; it is built {_where(backend)}" if reason else ""


def _where(backend: Any) -> str:
    version = getattr(backend, "version", "")
    needed = f"{backend.runtime} {version}".strip() + (" with it" if getattr(backend, "library", "") else "")
    if not getattr(backend, "builds_on_card", False):
        return f"where {needed} is installed"
    card = (
        f"the card {backend.product}"
        if backend.product
        else f"a card of compute capability {backend.compute_capability}"
    )
    return f"on a machine with {needed} and {card}"


def _of_program(spec: NodeSpec) -> str:
    """Of a command without a shell, whose first word is a program; placeholders and files of the project are none."""
    node: Any = spec.node
    words = programs.split(node.cmd) if not node.shell else []
    program = words[0] if words else ""
    path = spec.env.get("PATH") or os.environ.get("PATH")
    if not program or "{" in program or "/" in program or shutil.which(program, path=path):
        return ""
    return f"there is no program {program!r} here; it is built where there is one"


def cannot_start(spec: NodeSpec, environment: Environment) -> str:
    """Why the program of a node that runs one cannot be started as things stand; empty when it can, as far as can be
    told: not of a shell's line, nor of what a placeholder stands for."""
    node: Any = spec.node
    cmd = getattr(node, "cmd", "")
    if not cmd or getattr(node, "shell", False):
        return ""
    return _missing_program(programs.split(cmd)[0], spec, environment, getattr(node, "cwd", ""))


def refuse_missing_script(spec: NodeSpec) -> None:
    """
    Raises:
        NodeFailed: an interpreter is told to run a file that is not there. Its content is in the key, so nothing that
            was built elsewhere can stand for it.
    """
    if missing := _missing_script(spec):
        hints = ("relative paths begin at the project, or at cwd", *getattr(spec.node, "hints", ()))
        raise NodeFailed(f"node {spec.name!r}: cmd: {missing}", "\n".join(hints))


def _missing_script(spec: NodeSpec) -> str:
    node: Any = spec.node
    cmd = getattr(node, "cmd", "")
    if not cmd or getattr(node, "shell", False):
        return ""
    first, *rest = programs.split(cmd)
    cwd = getattr(node, "cwd", "")
    script = _script(first, rest)
    if not script or cwd == "{out}" or (spec.root / cwd / script).exists():
        return ""
    return f"there is no file {str(Path(cwd) / script)!r} for {first} to run"


def _missing_program(program: str, spec: NodeSpec, environment: Environment, cwd: str) -> str:
    if "{" in program or spec.container:
        return ""
    if "/" in program:
        is_there = cwd == "{out}" or (spec.root / cwd / program).exists()
        return "" if is_there else f"there is no program {program!r}"
    if spec.requirements or program in ("python", "python3"):  # of the node's own environment
        return ""
    path = os.pathsep.join([str(environment.python.parent), spec.env.get("PATH") or os.environ.get("PATH", os.defpath)])
    return "" if shutil.which(program, path=path) else f"there is no program {program!r} on PATH"


def _script(program: str, words: Sequence[str]) -> str:
    """The file that an interpreter is told to run, where it is plainly said."""
    if not words or not _READERS.fullmatch(Path(program).name):
        return ""
    word = next((word for word in words if word != "-u"), "-")
    return "" if word.startswith(("-", "/")) or "{" in word else word
