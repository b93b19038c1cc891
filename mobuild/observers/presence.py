"""What the user's code asked about files without reading them: whether one is there, and where a link leads.

No audit event tells of `stat`, `access` and `readlink`, so these functions of `os` are watched; `os.path` and `pathlib`
go through them. Size and times of a file that is only looked at are not noted.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pathlib
import sys
from pathlib import Path
from typing import Any, Callable

ABSENT = "-"
PRESENT = "present"
THERE, LINK = "presence", "link"  # the questions: is it there, and where does it lead

_NAMES = ("stat", "lstat", "access", "readlink")
_plain = {name: getattr(os, name) for name in _NAMES}
_ACCESSOR = getattr(pathlib, "_NormalAccessor", None)  # holds some of them itself, before Python 3.11
_SETS = (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids)  # shutil asks them
# What looks at every part of a path to follow the links among them, and at its end for loops: only links matter.
_FOLLOWING = frozenset((("lstat", "realpath"), ("lstat", "_joinrealpath"), ("stat", "resolve")))

_MAKING = ("makedirs", "mkdir")  # with `exist_ok` they ask what is there already, and end alike whatever it is

_OF_LIBRARY = tuple(str(Path(os.__file__).parent / name) for name in ("", "pathlib"))  # a package since Python 3.13

Note = Callable[[str, Any], None]


def watch(note: Note) -> None:
    """Call `note(question, path)` for each path that is asked about, until `unwatch`."""
    for name, plain in _plain.items():
        watched = _watched(name, plain, note)
        for each in _SETS:
            if plain in each:
                each.add(watched)
        _put(name, watched)


def unwatch() -> None:
    """Give the functions of `os` back."""
    for name, plain in _plain.items():
        _put(name, plain)


def _put(name: str, function: Callable[..., Any]) -> None:
    setattr(os, name, function)
    if name in ("stat", "lstat") and name in vars(_ACCESSOR or object):
        setattr(_ACCESSOR, name, staticmethod(function))


def is_there(path: Any) -> str:
    """Whether something is at `path`, be it forbidden to look at."""
    try:
        _plain["stat"](path)
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT
    except OSError:
        return PRESENT
    return PRESENT


def link_digest(path: Any) -> str:
    """SHA-256 of where the link at `path` leads; what is no link is only there or not."""
    try:
        return hashlib.sha256(os.fsencode(_plain["readlink"](path))).hexdigest()
    except OSError:
        pass
    try:
        _plain["lstat"](path)
        return PRESENT
    except OSError:
        return ABSENT


def _watched(name: str, plain: Callable[..., Any], note: Note) -> Callable[..., Any]:
    @functools.wraps(plain)
    def call(path: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return plain(path, *arguments, **options)
        finally:
            asker = _asker(frame := sys._getframe(1))
            is_question = (name, asker) not in _FOLLOWING and not _is_making(frame)
            if options.get("dir_fd") is None and not isinstance(path, int) and is_question:
                note(_question(name, asker, options.get("follow_symlinks", True)), path)

    return call


def _asker(frame: Any) -> str:
    """The function of the standard library that asks, the one behind it for `Path.stat`; empty for any other one,
    whatever it is called. By its file's name alone: who looks at files here asks this once more."""
    if frame.f_code.co_name == "stat" and frame.f_back:
        frame = frame.f_back
    return str(frame.f_code.co_name) if _is_of_library(frame) else ""


def _is_making(frame: Any) -> bool:
    """Whether the standard library asks in order to make folders."""
    while frame is not None and _is_of_library(frame):
        if frame.f_code.co_name in _MAKING:
            return True
        frame = frame.f_back
    return False


def _is_of_library(frame: Any) -> bool:
    file = frame.f_code.co_filename
    return bool(file.startswith("<frozen") or file.rpartition("/")[0] in _OF_LIBRARY)


def _question(name: str, asker: str, follows: bool) -> str:
    is_of_link = name in ("lstat", "readlink") or not follows
    return LINK if is_of_link and asker != "lexists" else THERE
