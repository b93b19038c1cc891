"""What huggingface_hub has on this machine already, in the folders that its variables name."""

from __future__ import annotations

import os
from pathlib import Path

from mobuild.fetch.hub_names import HubName
from mobuild.paths import expanded

TRUE = ("1", "ON", "YES", "TRUE")


def is_offline() -> bool:
    """Whether HF_HUB_OFFLINE, or its older name, forbids to ask the hub."""
    return any(os.environ.get(name, "").upper() in TRUE for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))


def home() -> Path:
    """The folder of its cache and token."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    return expanded(os.environ.get("HF_HOME") or default)


def _folder(name: HubName) -> Path:
    cache = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE") or home() / "hub"
    return expanded(cache) / "--".join((name.kind, *name.repository.split("/")))


def snapshots(name: HubName) -> Path:
    """The folder of a repository's commits."""
    return _folder(name) / "snapshots"


def file(name: HubName, commit: str) -> Path | None:
    """The file in huggingface_hub's cache: of the commit, and offline also of what the revision meant last."""
    commit = commit or _commit(name)
    path = snapshots(name) / commit / name.path
    return path if commit and path.is_file() else None


def _commit(name: HubName) -> str:
    try:
        return (_folder(name) / "refs" / name.revision).read_text("utf-8").strip() if is_offline() else ""
    except (OSError, UnicodeDecodeError):
        return ""
