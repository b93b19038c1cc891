"""Which distributions lie on a module search path, and which of them provides a module.

Read from the names and files of `*.dist-info` folders (PyPA, *Recording installed projects*) and
`*.egg-info`: `importlib.metadata` costs 50 ms to import, this 2 ms. Works on any interpreter's folders
without running it. Standard library and Python 3.8 only: the worker uses it too.
"""

# ruff: noqa: PTH118, PTH120, PTH208
# (paths stay text: there are thousands of them)

from __future__ import annotations

import os
import re
from typing import Iterator, Mapping, Sequence

from mobuild.firstparty import is_installed

# Distributions that bring the modules of another one, in its place.
_STAND_INS = {
    "onnxruntime": tuple(f"onnxruntime-{name}" for name in ("gpu", "openvino", "directml", "migraphx", "training")),
}


def provider_of(name: str, known: Mapping[str, str]) -> str:
    """The distribution of `known` (normalised name → version) that is `name` or stands in for it; empty without one."""
    candidates = (name, *_STAND_INS.get(name, ()))
    return next((each for each in candidates if each in known), "")


def normalized(name: str) -> str:
    """A distribution's name as it is compared (PyPA, *Names and normalization*)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def installed(paths: Sequence[str]) -> dict[str, str]:
    """Normalised name → version; of two on the path the first counts, as in `import`."""
    found: dict[str, str] = {}
    for name, version, _ in _metadata(paths):
        found.setdefault(name, version)
    return found


class Providers(Mapping[str, str]):
    """Top-level module → normalised name of its distribution, looked up when asked for: reading every
    list of files up front costs more than most plans.

    The distribution of the same name is taken unseen; of several that share a namespace package, the
    first.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = tuple(path for path in paths if is_installed(path))
        self._known: dict[str, str | None] = {}
        self._entries: list[tuple[str, str, str]] = []

    def __getitem__(self, module: str) -> str:
        if module not in self._known:
            self._known[module] = self._find(module)
        found = self._known[module]
        if found is None:
            raise KeyError(module)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({top for _, _, folder in self._all() for top in _top_level(folder)}))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _find(self, module: str) -> str | None:
        same = normalized(module)
        if any(name == same for name, _, _ in self._all()):
            return same
        return next((name for name, _, folder in self._all() if _brings(folder, module)), None)

    def _all(self) -> Sequence[tuple[str, str, str]]:
        self._entries = self._entries or list(_metadata(self._paths))
        return self._entries


def editable_trees(paths: Sequence[str]) -> tuple[str, ...]:
    """Folders outside `paths` from which setuptools' editable finders import.

    Editable installs by a plain `.pth` line are on the path already; setuptools may write a finder with
    a literal `MAPPING` of names to folders instead (`__editable___name_finder.py`).
    """
    found: list[str] = []
    for path in filter(is_installed, paths):
        for name in _names(path):
            if name.startswith("__editable__") and name.endswith("_finder.py"):
                found += _mapped(os.path.join(path, name))
    return tuple(dict.fromkeys(folder for folder in found if folder not in paths))


def _mapped(finder: str) -> Sequence[str]:
    import ast

    with open(finder, "rb") as stream:
        tree = ast.parse(stream.read())
    for statement in tree.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        if any(isinstance(target, ast.Name) and target.id == "MAPPING" for target in targets):
            mapping = ast.literal_eval(statement.value)  # type: ignore[attr-defined]
            return [os.path.dirname(folder) for folder in mapping.values()]
    return []


def _metadata(paths: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Name, version and metadata folder of every distribution, in the order of the path."""
    for path in paths:
        for entry in _names(path):
            stem, _, ending = entry.rpartition(".")
            if ending not in ("dist-info", "egg-info"):
                continue
            parts = stem.split("-")  # an egg-info ends in -py3.11 as well
            if len(parts) > 1:
                yield normalized(parts[0]), parts[1], os.path.join(path, entry)


def _names(path: str) -> Sequence[str]:
    try:
        return sorted(os.listdir(path))
    except OSError:
        return ()  # search paths name zip files and folders that do not exist


def _brings(folder: str, module: str) -> bool:
    top_level = _read(os.path.join(folder, "top_level.txt"))
    if top_level:
        return module.encode() in top_level.split()
    record = b"\n" + _read(os.path.join(folder, "RECORD"))
    return any(b"\n" + module.encode() + after in record for after in (b"/", b".py,", b"."))


def _top_level(folder: str) -> Sequence[str]:
    top_level = _read(os.path.join(folder, "top_level.txt"))
    if top_level:
        return top_level.decode().split()
    lines = _read(os.path.join(folder, "RECORD")).decode("utf-8", "replace").splitlines()
    firsts = {line.partition(",")[0].partition("/")[0].partition(".")[0] for line in lines}
    return sorted(first for first in firsts if first.isidentifier() and first != "__pycache__")


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except OSError:
        return b""  # most wheels have no top_level.txt, distribution packages no RECORD
