"""Whose code a file is: the user's (first-party), or the interpreter's, an installed package's, or ours.

First-party code and what it touches enter keys by content; third-party code counts by its
distribution's version, so it is never looked at in detail.
"""

# ruff: noqa: PTH100, PTH112, PTH118, PTH120, PTH206
# (paths stay text: there are thousands of them)

from __future__ import annotations

import os
from functools import lru_cache
from typing import Iterable

PACKAGE = os.path.dirname(os.path.abspath(__file__))
_INSTALLED = ("site-packages", "dist-packages")


def is_below(path: str, folder: str) -> bool:
    """Whether the absolute `path` is `folder` or lies in it; both as text, links not followed."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def is_installed(path: str) -> bool:
    """Whether `path` lies where installers put packages."""
    return any(name in _INSTALLED for name in path.split(os.sep))


def search_path(folder: str, project: str, packages: Iterable[str]) -> tuple[str, ...]:
    """Where the user's modules are looked up: beside the recipe, in the project, among the interpreter's `packages`,
    and in the project's `src` where it has one, as the PyPA lays packages out. That comes last: its `logging.py` may
    be meant as `src.logging`, and what is installed is what the user's own programs get."""
    source = os.path.join(project, "src")
    return (folder, project, *packages, *((source,) if os.path.isdir(source) else ()))


@lru_cache(maxsize=None)
def is_stdlib(path: str) -> bool:
    """Whether `path` belongs to the standard library of the running interpreter."""
    return any(is_below(path, folder) for folder in _stdlib_folders()) and not is_installed(path)


@lru_cache(maxsize=None)
def is_first_party(path: str) -> bool:
    """Whether the file or folder at the absolute `path` is the user's own.

    Code without a file (`<string>`, `<frozen importlib._bootstrap>`) is nobody's.
    """
    if not path or path.startswith("<"):
        return False
    return not (is_installed(path) or is_stdlib(path) or is_below(path, PACKAGE))


@lru_cache(maxsize=None)
def _stdlib_folders() -> tuple[str, ...]:
    folder = os.path.dirname(os.path.abspath(os.__file__))
    return tuple({folder, os.path.realpath(folder)})
