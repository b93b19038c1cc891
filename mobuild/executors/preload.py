"""The library that notes native reads: compiled once a machine, and put before the programs of a node.

Its source ships with the package and a binary does not, since one would fit a single platform. Where there is no
compiler or where it fails, folders are watched instead (`observers.opened`), which shows less of the node and more of
others, and `observed_by` of a record says `inotify` in place of `preload`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from mobuild.fingerprint import digest_bytes
from mobuild.firstparty import PACKAGE
from mobuild.observers.native import PRELOAD, READS

_SOURCE = Path(PACKAGE, "observers", "preload.c")
_COMPILERS = ("cc", "gcc", "clang")
_FLAGS = ("-shared", "-fPIC", "-O2", "-s", "-U_FORTIFY_SOURCE")  # the macro turns `open` into an inline function
_SECONDS = 60


class Preload:
    """Compiles into `folder`, at the first question and once a run at most; without a folder there is no library."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._guard = threading.Lock()
        self._asked = False
        self._library: Path | None = None

    def variables(self, scratch: Path) -> Mapping[str, str]:
        """What to set for a process so that its opens are noted in a file in `scratch`; nothing where it cannot be."""
        library = self._compiled()
        link, reads = scratch / "preload.so", scratch / "reads"
        if library is None or any(mark in str(link) for mark in " :"):  # ld.so(8) splits the variable there
            return {}
        link.symlink_to(library)  # the cache's own path may have a space in it
        reads.touch()
        before = os.environ.get(PRELOAD)
        return {PRELOAD: f"{before}:{link}" if before else str(link), READS: str(reads)}

    @property
    def is_wanted(self) -> bool:
        """Whether native reads are to be seen in some way."""
        return self._folder is not None and sys.platform == "linux"

    def _compiled(self) -> Path | None:
        with self._guard:
            if not self._asked and self._folder and sys.platform == "linux":
                self._library = _library(self._folder)
            self._asked = True
            return self._library


def _library(folder: Path) -> Path | None:
    """The library of this very source, from an earlier run or compiled now."""
    with suppress(OSError, subprocess.SubprocessError):
        path = folder.absolute() / f"preload-{digest_bytes(_SOURCE.read_bytes())}.so"
        compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
        if not path.exists() and compiler:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="preload-", dir=folder) as scratch:
                partial = Path(scratch, path.name)
                command = [compiler, *_FLAGS, "-o", str(partial), str(_SOURCE), "-ldl"]
                subprocess.run(command, check=True, capture_output=True, timeout=_SECONDS)
                partial.replace(path)
        return path if path.exists() else None
    return None
