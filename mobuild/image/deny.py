"""What must not be in a runtime image: what builds, what opens a door, and what points outside.

The list is about the tree as it is shipped, whichever tool made it. A finding names the path and the rule.
"""

from __future__ import annotations

import fnmatch
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, Sequence

from mobuild.image.paths import Leaves, files, inside, shown

PACKAGES = (
    "torch",
    "onnx",
    "hydra",
    "omegaconf",
    "pip",
    "setuptools",
    "mobuild",
    "onnxscript",
    "onnxsim",
    "polygraphy",
)
"""Python packages that build or examine, and never serve; `mobuild_runtime` is another name."""
_DISTRIBUTIONS = {"hydra": "hydra_core", "mobuild": "mobuild"}
_SHELLS = re.compile(r"(ba|da|a|z|k|c|tc|fi|mk)?sh|rbash|busybox")
_COMPILERS = re.compile(
    r"([\w.]+-)*(gcc|g\+\+|cc|c\+\+|cpp|clang|clang\+\+|ld|ld\.\w+|as|nvcc|ptxas|cicc|rustc|cargo|go|gfortran)(-[\d.]+)?"
    r"|c?make|ninja"
)
_COMPILER_PARTS = re.compile(r"cc1(plus)?|lto1|collect2|lto-wrapper")
_BINARIES = ("bin", "sbin")
_ENDINGS = {
    **dict.fromkeys((".h", ".hh", ".hpp", ".hxx", ".cuh"), "header"),
    **dict.fromkeys((".a", ".o", ".la"), "static library"),
}
_STICKY = ("/tmp", "/var/tmp")
_OF_THE_KERNEL = ("/proc/", "/dev/", "/sys/", "/run/")


@dataclass(frozen=True)
class Denied:
    """One thing that must not be there: its path in the image, the rule's name, and what is wrong."""

    path: str
    rule: str
    why: str

    def __str__(self) -> str:
        return f"{self.path}: {self.rule}: {self.why}"


def denied(root: Path, allowed: Sequence[str] = ()) -> tuple[Denied, ...]:
    """Everything below `root` that breaks a rule. `allowed` are patterns of paths in the image to leave alone."""
    return tuple(
        found
        for path in files(root)
        if not any(fnmatch.fnmatchcase(shown(root, path), pattern) for pattern in allowed)
        for found in _of(root, path)
    )


def _of(root: Path, path: Path) -> Iterator[Denied]:
    name = shown(root, path)
    mode = path.lstat().st_mode
    if rule := _named(path, mode):
        yield Denied(name, *rule)
    if stat.S_ISLNK(mode):
        if why := _link(root, path, name):
            yield Denied(name, *why)
        return
    yield from (Denied(name, *found) for found in _modes(name, mode))


def _named(path: Path, mode: int) -> tuple[str, str] | None:
    """The rule that forbids something of this name."""
    name, is_folder = path.name, stat.S_ISDIR(mode)
    if package := _package(path, is_folder):
        return "package", f"{package} builds or examines models, and does not serve them"
    if is_folder:
        return None
    if path.suffix in _ENDINGS:
        return _ENDINGS[path.suffix], "serves a compiler alone"
    if _COMPILER_PARTS.fullmatch(name):
        return "compiler", "an image runs code, and makes none"
    if path.parent.name in _BINARIES:
        if _SHELLS.fullmatch(name):
            return "shell", "who gets into the process would get a shell"
        if _COMPILERS.fullmatch(name):
            return "compiler", "an image runs code, and makes none"
        if re.fullmatch(r"pip[\d.]*", name):
            return "package", "pip installs, and an image is complete"
    return None


def _package(path: Path, is_folder: bool) -> str:
    """The forbidden package that `path` is, or its metadata; its contents are not named one by one."""
    if (path.parent / "__init__.py").exists():
        return ""  # `a.onnx` is not `onnx`
    for package in PACKAGES:
        if path.name == f"{package}.py" or (is_folder and path.name == package and _holds_python(path)):
            return package
        distribution = _DISTRIBUTIONS.get(package, package)
        if re.fullmatch(rf"{distribution}-[^-]+\.(dist|egg)-info", path.name):
            return package
    return ""


def _holds_python(folder: Path) -> bool:
    return any(each.suffix in (".py", ".pyc", ".so") for each in folder.iterdir())


def _modes(name: str, mode: int) -> Iterator[tuple[str, str]]:
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        yield "special file", "neither a file nor a folder nor a link"
        return
    if stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID):
        yield "setuid", f"runs with its owner's rights: mode {stat.S_IMODE(mode):04o}"
    if mode & stat.S_IWOTH and not (name in _STICKY and mode & stat.S_ISVTX):
        yield "world-writable", f"any user may change it: mode {stat.S_IMODE(mode):04o}"


def _link(root: Path, path: Path, name: str) -> tuple[str, str] | None:
    target = os.readlink(path)
    if f"{target}/".startswith(_OF_THE_KERNEL):
        return None  # there when the container runs
    try:
        place = inside(root, target if target.startswith("/") else f"{Path(name).parent}/{target}", strict=True)
    except Leaves:
        return "link leaves", f"{target} climbs above the root"
    if place is not None:
        return None
    if target.startswith("/"):
        return "link leaves", f"{target} is not in the image, and may be on the machine that unpacks it"
    return "broken link", f"{target} is not in the image"
