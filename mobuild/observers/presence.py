"""Which files the user's code asked for without reading them: `exists()` decides, too.

No audit event tells of `stat`, so `os.stat` itself is watched; `os.path` and `pathlib` go through it. Only whether
the file is there is noted: size and times of a file that is only looked at are not.
"""

from __future__ import annotations

import functools
import os
from typing import Any, Callable

_plain_stat = os.stat
_SETS = (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks)  # what shutil asks before it trusts os.stat


def watch(note: Callable[[Any, bool], None]) -> None:
    """Call `note(path, found)` for each `os.stat` of a path, until `unwatch`."""

    @functools.wraps(_plain_stat)
    def stat(path: Any, **options: Any) -> os.stat_result:
        found = False
        try:
            result = _plain_stat(path, **options)
            found = True
            return result
        except (FileNotFoundError, NotADirectoryError):
            raise
        except OSError:
            found = True  # something is there
            raise
        finally:
            if options.get("dir_fd") is None and not isinstance(path, int):
                note(path, found)

    for each in _SETS:
        if _plain_stat in each:
            each.add(stat)
    os.stat = stat


def unwatch() -> None:
    """Give `os.stat` back."""
    os.stat = _plain_stat
