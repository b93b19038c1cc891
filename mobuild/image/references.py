"""Names of images in registries: `registry/team/name:tag`, as Docker reads them, and stricter where it guesses."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mobuild.errors import ConfigError

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*")
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_HOST = re.compile(r"(?:[A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(?::[0-9]+)?")
_LOOPBACK = re.compile(r"(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?")
_HUB, _HUB_HOST = "docker.io", "registry-1.docker.io"
_LONGEST = 255
_SHAPE = "image.push=registry/team/name:tag"


@dataclass(frozen=True)
class Reference:
    """Where an image goes: `registry` is a host with its port, `repository` a path there."""

    registry: str
    repository: str
    tag: str = "latest"

    def __str__(self) -> str:
        return f"{self.registry}/{self.repository}:{self.tag}"

    @property
    def url(self) -> str:
        """The registry's API. Plain HTTP on this machine's loopback alone."""
        scheme = "http" if _LOOPBACK.fullmatch(self.registry) else "https"
        return f"{scheme}://{_HUB_HOST if self.registry == _HUB else self.registry}/v2/"


def parse(text: str) -> Reference:
    """The reference that `text` means.

    Raises:
        ConfigError: it is none, names no registry, or has a digest, which only a finished push can know.
    """
    if "://" in text:
        raise _refused(text, "is a URL, and a reference has no scheme")
    if "@" in text:
        raise _refused(text, "has a digest; a push is to a tag, and tells the digest")
    registry, slash, rest = text.partition("/")
    if not slash or not ("." in registry or ":" in registry or registry == "localhost"):
        raise _refused(text, f"names no registry; Docker Hub is {_HUB}")
    if not _HOST.fullmatch(registry):
        raise _refused(text, f"has the registry {registry!r}, which is no host with an optional port")
    repository, colon, tag = rest.partition(":")
    if repository != repository.lower():
        raise _refused(text, f"has capital letters in {repository!r}, which registries do not take")
    if not _REPOSITORY.fullmatch(repository):
        raise _refused(
            text, f"has {repository!r}, which is no repository: small letters and digits, with . _ - within a part"
        )
    if len(repository) > _LONGEST:
        raise _refused(text, f"has a repository of {len(repository)} letters, and at most {_LONGEST} are allowed")
    if colon and not _TAG.fullmatch(tag):
        raise _refused(text, f"has {tag!r}, which is no tag: up to 128 letters, digits and . _ -")
    if registry == _HUB and "/" not in repository:
        repository = f"library/{repository}"
    return Reference(registry, repository, tag or "latest")


def _refused(text: str, why: str) -> ConfigError:
    return ConfigError(f"image.push: {text!r} {why}", f"write it as {_SHAPE}")
