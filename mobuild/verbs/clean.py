"""`mobuild clean`: remove build/, never the cache."""

from __future__ import annotations

import shutil
from pathlib import Path

from mobuild.errors import StoreError


def clean(folder: Path) -> int:
    """Remove the folder of the artifacts' copies.

    Raises:
        StoreError: something in it cannot be removed.
    """
    if not folder.is_dir():
        print(f"nothing to clean: there is no {folder}")
        return 0
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise StoreError(f"{folder}: {error.filename} cannot be removed: {error.strerror}") from error
    print(f"removed {folder}; the cache still has every artifact")
    return 0
