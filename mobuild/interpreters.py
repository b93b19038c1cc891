"""Which interpreter is meant: by a path, by the folder of an environment, by a name on PATH, by a shim of pyenv.

A shim is a script that chooses among the installed versions at each start, so what it stands for now is read where
it would look: in PYENV_VERSION, in `.python-version` of the project and above, in pyenv's own `version`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mobuild.errors import ToolchainError
from mobuild.versions import version_key

REMEDY = "python: of the node, or toolchain.python, names an interpreter, such as ./venv/bin/python"
ABSENT = (
    f"{REMEDY}\nits versions are in the keys: make it here as well,"
    " or pin them by toolchain.requirements=export.lock,\nof which a plan needs no environment"
)


@dataclass(frozen=True)
class Interpreter:
    """A real one, and what decided that it is meant: files (absent ones too) and variables."""

    path: Path
    files: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()


def find(named: Path, project: Path, search: str | None = None) -> Interpreter:
    """The interpreter that `named` means to a node of `project`; a bare name is looked up on `search`, else on PATH.

    Raises:
        ToolchainError: there is none.
    """
    if not named.is_absolute():
        place = shutil.which(named.name, path=search)
        if place is None:
            raise ToolchainError(f"python {str(named)!r}: there is no such program on PATH", ABSENT)
        found = find(Path(os.path.abspath(place)), project)  # noqa: PTH100 - links tell environments apart
        return Interpreter(found.path, found.files, (*found.variables, "PATH"))
    if named.is_dir() and (named / "bin/python").exists():
        named = named / "bin/python"
    if _is_shim(named):
        return _behind(named, project)
    if named.is_dir():
        raise ToolchainError(f"python {str(named)!r}: is a folder without bin/python", REMEDY)
    if named.is_symlink() and not named.exists():
        raise ToolchainError(
            f"python {str(named)!r}: leads to '{named.readlink()}', which is gone", "make the environment anew"
        )
    if not named.is_file():
        raise ToolchainError(f"python {str(named)!r}: there is no such file", ABSENT)
    return Interpreter(named)


def _is_shim(python: Path) -> bool:
    if python.parent.name != "shims" or not python.is_file():
        return False
    with open(python, "rb") as stream:
        start = stream.read(1024)
    return start.startswith(b"#!") and b"pyenv" in start


def _behind(shim: Path, project: Path) -> Interpreter:
    root, name = shim.parent.parent, shim.name
    said, files = _versions(root, project)
    looked_at = (str(shim), *files, str(root / "versions"))
    for version in said:
        if version == "system":
            others = [each for each in os.get_exec_path() if Path(each) != shim.parent]
            place = shutil.which(name, path=os.pathsep.join(others))
            found = Path(place) if place else None
        else:
            found = next(_installed(root, version, name), None)
        if found:
            return Interpreter(found, looked_at, ("PYENV_VERSION", "PATH"))
    having = sorted((path.parents[1].name for path in root.glob(f"versions/*/bin/{name}")), key=version_key)
    raise ToolchainError(
        f"python {str(shim)!r}: pyenv's version here is {':'.join(said)}, which has no {name!r}",
        f"versions that have it: {', '.join(having) or 'none'}; name one by its path: {root}/versions/…/bin/{name}",
    )


def _versions(root: Path, project: Path) -> tuple[list[str], list[str]]:
    """The versions that pyenv would try, and the files that say so."""
    if said := os.environ.get("PYENV_VERSION"):
        return said.split(":"), []
    files = [*(folder / ".python-version" for folder in (project, *project.parents)), root / "version"]
    for number, file in enumerate(files):
        lines = file.read_text(errors="replace").splitlines() if file.is_file() else []
        if words := [word for line in lines for word in line.partition("#")[0].split()]:
            return words, [str(each) for each in files[: number + 1]]
    return ["system"], [str(each) for each in files]


def _installed(root: Path, version: str, name: str) -> Iterator[Path]:
    """`3.9` means the newest 3.9 that is installed."""
    exact = root / "versions" / version
    newest = sorted(root.glob(f"versions/{version}.*"), key=lambda path: version_key(path.name), reverse=True)
    yield from (path / "bin" / name for path in (exact, *newest) if (path / "bin" / name).exists())
