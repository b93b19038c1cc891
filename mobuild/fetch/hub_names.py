"""Names of files on Hugging Face's hub and its mirrors: `hf:org/name[/file][@revision]`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mobuild.errors import ConfigError

_KINDS = ("datasets", "spaces")
_PART = re.compile(r"[A-Za-z0-9][\w.-]*")
_BEFORE_FILE = re.compile(r"(refs/[^/]+/[^/]+|(?!refs/)[^/]+)/(.*)")
_WRITE = "write hf:org/name/file@revision, hf:org/name/folder/ or hf:org/name"


@dataclass(frozen=True)
class HubName:
    """One file of a repository, or all below a folder (`path` ends with '/' or is empty), at a revision."""

    kind: str  # models, datasets, spaces
    repository: str  # org/name
    path: str
    revision: str

    @property
    def is_folder(self) -> bool:
        return not self.path or self.path.endswith("/")

    @property
    def prefix(self) -> str:
        """What stands before the repository in the addresses of its files."""
        return "" if self.kind == "models" else f"{self.kind}/"


def parse(uri: str) -> HubName:
    """The parts of `uri`. `hf://` is the same as `hf:`, and the revision may also stand after the name.

    Raises:
        ConfigError: it names no repository.
    """
    rest = uri.strip()[len("hf:") :].lstrip("/")
    kind, slash, inside = rest.partition("/")
    kind, rest = (kind, inside) if slash and kind in _KINDS else ("models", rest)
    rest, at, revision = rest.rpartition("@") if "@" in rest else (rest, "", "")
    after_name = _BEFORE_FILE.fullmatch(revision) if rest.count("/") == 1 else None
    if after_name:  # org/name@revision/file
        revision, rest = after_name.group(1), f"{rest}/{after_name.group(2)}"
    organisation, _, rest = rest.partition("/")
    name, _, path = rest.partition("/")
    if not _PART.fullmatch(organisation) or not _PART.fullmatch(name):
        raise ConfigError(f"source {uri!r}: names no repository", _WRITE)
    if at and not revision:
        raise ConfigError(f"source {uri!r}: the revision after '@' is empty", _WRITE)
    if any(part in ("", ".", "..") for part in path.rstrip("/").split("/")) and path:
        raise ConfigError(f"source {uri!r}: {path!r} is no path in a repository", _WRITE)
    return HubName(kind, f"{organisation}/{name}", path, revision or "main")


def is_folder(uri: str) -> bool:
    """Whether all files below `uri` are meant; false for what is no name at all."""
    try:
        return parse(uri).is_folder
    except ConfigError:
        return False


def file_of(uri: str) -> str:
    """The path in the repository; empty for what is no name at all."""
    try:
        return parse(uri).path
    except ConfigError:
        return ""
