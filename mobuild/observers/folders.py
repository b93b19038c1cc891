"""Which folders are watched, and by which paths they are known: those below the project and the recipe's folder,
whatever links in them lead to, and those outside that the node's parameters name."""

# ruff: noqa: PTH100, PTH110, PTH112, PTH113, PTH118, PTH119, PTH120
# (paths stay text: there are thousands of them)

from __future__ import annotations

import os
import re
from collections import deque
from typing import Any, Iterator, Mapping

from mobuild.firstparty import is_below
from mobuild.observers.files import Files
from mobuild.observers.inotify import Inotify
from mobuild.observers.native import is_systems

_LIMIT_FILE = "/proc/sys/fs/inotify/max_user_watches"  # of all processes of a user, editors among them
_MOST = 10_000  # folders; to begin with so many takes half a second
_UNWATCHED = (".git", "__pycache__", "site-packages", "dist-packages")


class Folders:
    """Watches folders in `queue`, up to `limit`; `failure` says why some are not."""

    def __init__(self, queue: Inotify, judge: Files, limit: int = 0) -> None:
        self.failure = ""
        self._queue, self._judge = queue, judge
        self._limit = limit or _default_limit()
        self._paths: dict[int, list[str]] = {}  # watch → the paths of its folder, or links to its file
        self._count = 0  # of those paths: links among folders can make many of few
        self._names: dict[str, frozenset[str]] = {}  # folder → names in it, when it was first looked at

    def __len__(self) -> int:
        return self._count

    def paths(self, watch: int) -> tuple[str, ...]:
        return tuple(self._paths.get(watch, ()))

    def had(self, path: str) -> bool:
        """Whether something was at `path` when its folder was first looked at."""
        folder, name = os.path.split(path)
        return name in self._names.get(folder, ())

    def walk(self, top: str) -> Iterator[int]:
        """Watch the folder `top` and those below; their watches. What is nearer comes first, as the limit may."""
        none: frozenset[int] = frozenset()
        ahead = deque([(top, none)] if self._is_watchable(top) else ())
        while ahead:
            path, above = ahead.popleft()
            watch = self.watch(path, above)
            if watch < 0:
                continue
            yield watch
            for entry in self._entries(path):
                if self._is_folder(entry) and self._is_watchable(entry.path):
                    ahead.append((entry.path, above | {watch}))

    def watch(self, path: str, above: frozenset[int] = frozenset()) -> int:
        """The new watch; -1 where there is none, or this path has it already, or lies below itself by a link."""
        if len(self) >= self._limit:
            self.failure = f"there are more than {self._limit} folders, and {_LIMIT_FILE} has to serve others, too"
            return -1
        try:
            watch = self._queue.watch(path)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return -1
        except OSError as error:
            self.failure = f"{path!r}: {error.strerror}"
            return -1
        paths = self._paths.setdefault(watch, [])
        if path in paths or watch in above:
            return -1
        paths.append(path)
        self._count += 1
        return watch

    def watch_named(self, parameters: Any, project: str) -> None:
        """Watch folders outside the project of which a parameter says the path, or that of something in them; a file
        alone in a folder of everybody's."""
        for word in _words(parameters):
            path = os.path.abspath(os.path.join(project, word))
            folder = path if os.path.isdir(path) else os.path.dirname(path)
            if not os.path.exists(path) or self._judge.is_in_project(path) or not self._is_watchable(folder):
                continue
            if not is_systems(folder) and self.watch(folder) >= 0:
                self._entries(folder)
            elif not is_systems(path) and self._judge.is_undeclared(path):
                self.watch(path)

    def leave(self, path: str) -> None:
        """Know no folder by `path` or a path below any more: it has another name now."""
        for paths in self._paths.values():
            left = [one for one in paths if not is_below(one, path)]
            self._count -= len(paths) - len(left)
            paths[:] = left

    def forget(self, watch: int) -> None:
        """The kernel watches it no more."""
        self._count -= len(self._paths.pop(watch, ()))

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                found = list(entries)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return []
        self._names[folder] = frozenset(entry.name for entry in found)
        return found

    def _is_folder(self, entry: os.DirEntry[str]) -> bool:
        """Whether that is one, or a link to one. A link to a file is watched at once: openings happen to the file."""
        if not entry.is_symlink():
            return entry.is_dir(follow_symlinks=False)
        if os.path.isfile(entry.path) and self._judge.is_undeclared(entry.path):
            self.watch(entry.path)
        return os.path.isdir(entry.path) and self._judge.is_undeclared(os.path.realpath(entry.path))

    def _is_watchable(self, folder: str) -> bool:
        """Whether inputs may lie there; none do in the folders of Git and of virtual environments."""
        is_theirs = os.path.basename(folder) in _UNWATCHED or os.path.exists(os.path.join(folder, "pyvenv.cfg"))
        return self._judge.is_undeclared(folder) and (not is_theirs or folder in self._judge.roots)


def _default_limit() -> int:
    """A quarter of what a user may watch: nodes run beside each other, and editors watch as well."""
    try:
        with open(_LIMIT_FILE) as stream:
            return min(int(stream.read()) // 4, _MOST)
    except (OSError, ValueError):
        return _MOST


def _words(parameter: Any) -> Iterator[str]:
    """What may be a path in a node's parameters, the words of its commands included."""
    if isinstance(parameter, str):
        yield from (word for word in re.split(r"[\s'\"=:;|<>()]+", parameter) if "/" in word)
    elif isinstance(parameter, Mapping):
        yield from (word for one in parameter.values() for word in _words(one))
    elif isinstance(parameter, (list, tuple)):
        yield from (word for one in parameter for word in _words(one))
