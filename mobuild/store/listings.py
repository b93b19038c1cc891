"""What was in folders of the user's, by their digests: with that `why` can name the file that changed.

Folders that nodes made are objects and list themselves. A listing is a convenience: losing one costs a name in an
explanation. They stay on the machine, and `gc` removes those that were not in use for long.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from mobuild.errors import StoreError
from mobuild.fingerprint import Digest, canonical
from mobuild.store.objects import Objects
from mobuild.store.refs import replace

_MOST = 100_000  # files in a folder that is listed; explaining is not worth more than some MiB


class Listings:
    """The listings of one store."""

    def __init__(self, root: Path, objects: Objects, writable: bool) -> None:
        self._root, self._objects, self._writable = root, objects, writable

    def get(self, digest: str) -> Mapping[str, str] | None:
        """The files of the folder with that digest; None when it is not known, or no folder."""
        try:
            if self._objects.is_folder(Digest(digest)):
                return self._objects.listing(Digest(digest))
            found = json.loads(self._path(digest).read_bytes())
            return found if isinstance(found, dict) else None
        except (OSError, ValueError, StoreError, RecursionError):
            return None

    def note(self, digest: str, files: Mapping[str, str]) -> None:
        """Remember what is in a folder of the user's; a disk that refuses leaves `why` with less to say."""
        path = self._path(digest)
        if not self._writable or len(files) > _MOST:
            return
        with suppress(OSError, UnicodeEncodeError):
            if path.exists():
                os.utime(path)  # it is in use
            else:
                replace(path, canonical(dict(files)))

    def _path(self, digest: str) -> Path:
        return self._root / f"{digest}.json"
