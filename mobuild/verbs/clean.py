"""`mobuild clean`: remove build/, never the cache."""

from __future__ import annotations

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
            if path.exists():
                shutil.rmtree(path)
    except OSError as error:
        raise StoreError(f"{folder}: {error.filename} cannot be removed: {error.strerror}") from error
    what = str(folder) if ours == (folder,) else f"what mobuild made in {folder}, and nothing else there"
    print(f"removed {what}; the cache still has every artifact")
    return 0
