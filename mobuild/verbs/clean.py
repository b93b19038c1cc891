"""`mobuild clean`: remove build/, never the cache."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from mobuild import places
from mobuild.errors import StoreError


def clean(folder: Path) -> int:
    """Remove the folder of the artifacts' copies; where others keep things in it, only these.

    Raises:
        StoreError: something in it cannot be removed.
    """
    if not folder.is_dir():
        print(f"nothing to clean: there is no {folder}")
        return 0
    ours = places.own(folder, places.made_in(folder))
    try:
        for path in ours:
            if path == folder and folder.is_symlink():  # to a larger disk: the link is the user's
                for inside in folder.iterdir():
                    _remove(inside)
            elif os.path.lexists(path):
                _remove(path)
    except OSError as error:
        raise StoreError(f"{folder}: {error.filename} cannot be removed: {error.strerror}") from error
    all_of_it = f"what was in {folder}" if folder.is_symlink() else str(folder)
    what = all_of_it if ours == (folder,) else f"what mobuild made in {folder}, and nothing else there"
    print(f"removed {what}; the cache still has every artifact")
    return 0


def _remove(path: Path) -> None:
    """A link in build/ goes, and what lies behind it stays: it may be the only place of it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
