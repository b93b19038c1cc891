"""What mobuild itself makes in build/, told from what others keep there: a project may build with more than mobuild."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from mobuild import faults

_HIDDEN = (".answers", faults.FOLDER)  # the first one is of `noop`, which stands above
_MARKS = ("*/run.json", "*/.*-*/new")  # of a variant; the second one of a copy that a killed run left


def made_in(build: Path, recipes: Collection[str] = ()) -> list[Path]:
    """The entries of build/ that are mobuild's, and the folders of `recipes`, whether there yet or not."""
    names = {*_HIDDEN, *recipes, *(name for name in _names(build) if _holds_runs(build / name))}
    return [build / name for name in sorted(names)]


def own(folder: Path, parts: Collection[Path]) -> tuple[Path, ...]:
    """`folder` where nothing but `parts` lies in it, else these alone."""
    return (folder,) if {folder / name for name in _names(folder)} <= set(parts) else tuple(parts)


def _holds_runs(folder: Path) -> bool:
    return any(True for pattern in _MARKS for _ in folder.glob(pattern))


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names, quickly
    except OSError:
        return []
