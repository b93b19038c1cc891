"""Finds a module on a search path without importing anything, not even its parents.

`importlib.util.find_spec("a.b")` imports `a`; this repeats what `importlib`'s `FileFinder` does, on
another interpreter's folders as well (its extension modules end otherwise than ours).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mobuild.firstparty import is_installed


@dataclass(frozen=True)
class Found:
    """Where a module is. `party` is `first`, `third` or `stdlib`; a namespace package has no file."""

    party: str
    file: Path | None
    folders: tuple[str, ...] = ()  # where its submodules are looked up; empty: no package


class Search:
    """Looks modules up on one path and remembers each folder's names."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = tuple(paths)
        self._names: dict[str, frozenset[str]] = {}

    def top_level(self, name: str) -> Found | None:
        if name in sys.builtin_module_names or name == "mobuild":  # whose kinds carry a revision
            return Found("stdlib", None)
        found = self._in(name, self._paths)
        if found is None and name in sys.stdlib_module_names:
            return Found("stdlib", None)  # frozen, in a zip file, or of another Python version
        return found

    def below(self, package: Found, name: str) -> Found | None:
        """The submodule `name` of `package`."""
        return self._in(name, package.folders)

    def place(self, name: str) -> str:
        """Where the module of a full name is: its file, a namespace package's first folder, or empty for none."""
        first, *rest = name.split(".")
        found = self.top_level(first)
        for part in rest:
            found = self.below(found, part) if found else None
        if found is None:
            return ""
        return str(found.file or "".join(found.folders[:1]) or first)

    @property
    def looked(self) -> frozenset[str]:
        """The folders that were looked into until now, those that are not there too: what is found depends on them."""
        return frozenset(self._names)

    def _in(self, name: str, folders: Sequence[str]) -> Found | None:
        portions = []
        for folder in folders:
            here = Path(folder, name)
            if name in self._listing(folder) and "__init__.py" in self._listing(str(here)):
                return Found(_party(folder), here / "__init__.py", (str(here),))
            file = self._module_file(folder, name)
            if file:
                return Found(_party(folder), Path(folder, file))
            if name in self._listing(folder) and here.is_dir():
                portions.append(str(here))
        return Found(_party(portions[0]), None, tuple(portions)) if portions else None

    def _module_file(self, folder: str, name: str) -> str:
        listing = self._listing(folder)
        extensions = [file for file in listing if file.startswith(name + ".") and _is_extension(file)]
        return min(extensions, default="") or (f"{name}.py" if f"{name}.py" in listing else "")

    def _listing(self, folder: str) -> frozenset[str]:
        if folder not in self._names:
            try:
                self._names[folder] = frozenset(os.listdir(folder))  # noqa: PTH208 - names, quickly
            except OSError:
                self._names[folder] = frozenset()  # search paths name what does not exist
        return self._names[folder]


def _is_extension(file: str) -> bool:
    """`name.so`, `name.abi3.so`, `name.cpython-311-x86_64-linux-gnu.so`, `name.cp311-win_amd64.pyd`."""
    stem, _, ending = file.rpartition(".")
    return ending in ("so", "pyd") and stem.count(".") <= 1


def _party(folder: str) -> str:
    if is_installed(folder):
        return "third"
    is_library = any((Path(parent) / "os.py").is_file() for parent in (folder, Path(folder).parent))
    return "stdlib" if is_library or folder.endswith(".zip") else "first"
