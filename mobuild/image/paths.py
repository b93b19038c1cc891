"""The file tree of an image, seen as a process in it sees it: links are followed below the root alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Iterator

_MOST_LINKS = 40  # as Linux: path_resolution(7)


class Leaves(Exception):
    """A link climbs above the root."""


def files(root: Path) -> Iterator[Path]:
    """All below `root`, folders and links too, sorted by name; links are not followed."""
    for entry in sorted(os.scandir(root), key=lambda entry: entry.name):
        path = Path(entry.path)
        yield path
        if entry.is_dir(follow_symlinks=False):
            yield from files(path)


def shown(root: Path, path: Path) -> str:
    """`path` as the image calls it: `/usr/bin/python3`."""
    return "/" + path.relative_to(root).as_posix()


def inside(root: Path, name: str, strict: bool = False) -> Path | None:
    """Where the absolute path `name` of the image lies on this machine; None where nothing is there.

    Raises:
        Leaves: with `strict`, a `..` stands at the root, where Linux would stay.
    """
    parts, place, links = [part for part in name.split("/") if part not in ("", ".")][::-1], root, 0
    while parts:
        part = parts.pop()
        if part == "..":
            if place == root and strict:
                raise Leaves(name)
            place = root if place == root else place.parent
            continue
        path = place / part
        if path.is_symlink():
            links += 1
            target = os.readlink(path)
            if links > _MOST_LINKS:
                return None
            place = root if target.startswith("/") else place
            parts += [each for each in target.split("/") if each not in ("", ".")][::-1]
        elif path.exists() and (path.is_dir() or not parts):
            place = path
        else:
            return None
    return place
