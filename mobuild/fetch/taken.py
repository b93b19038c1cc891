"""What is known of a remote file: from a listing, and once it was read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Listed:
    """One file of a folder, as the listing tells it."""

    uri: str
    size_bytes: int = 0  # 0: not told
    sha256: str = ""  # as a hub keeps it for large files; what comes is checked against it when it is pinned


@dataclass(frozen=True)
class Taken:
    """What was read."""

    sha256: str  # of a file, or FOLDER and that of the listing
    size_bytes: int
    version: str  # commit, version id, ETag or time; empty where nothing tells versions apart
